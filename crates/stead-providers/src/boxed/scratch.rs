//! The server's own place for what is on its way: no box can see it.

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

    /// A file that has no name and goes when it is closed.
    pub(crate) fn file(&self) -> io::Result<File> {
        let path = self.name()?;
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        fs::remove_file(path)?;
        Ok(file)
    }

    /// A directory that is gone when it is dropped.
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
