//! The server's directory for files in transit, invisible to all boxes.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Removes the remains of servers that have died. Call it only for a directory that this server
    /// owns.
    pub(crate) fn sweep(&self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| is_left(&entry.file_name().to_string_lossy())) {
            // Ignore failures: the next server start tries again.
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
                _ => fs::remove_file(entry.path()),
            };
        }
    }

    /// Creates an unlinked file, which disappears when it is closed.
    pub(crate) fn file(&self) -> io::Result<File> {
        let path = self.name()?;
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(path)?;
        Ok(file)
    }

    /// Creates a directory that is removed on drop.
    pub(crate) fn directory(&self) -> io::Result<ScratchDirectory> {
        let path = self.name()?;
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(ScratchDirectory(path))
    }

    fn name(&self) -> io::Result<PathBuf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.directory)?;
        Ok(self.directory.join(format!("stead-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))))
    }
}

/// Returns true if the process whose id is in this name no longer runs.
fn is_left(name: &str) -> bool {
    let pid =
        name.strip_prefix("stead-").and_then(|rest| rest.split_once('-')).and_then(|(pid, _)| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists())
}

#[derive(Debug)]
pub(crate) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
