//! Places contents in a checkout without a filter: a hard link replaces each pointer.
//!
//! The index still says that the commit has a pointer, but records the size and time of the
//! content. So `git status` finds what it expects and does not read the file. When git does read it
//! (the file was touched, or the branch changes), it runs [`super::FILTER`]. The server adds that
//! to the repository's config as its last step, so it only ever runs in a box.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, linkat, openat, statat, unlinkat};

use super::files::{Files, LfsFile, beneath};
use super::objects::SECONDS;
use super::{FILTER, FILTER_PATH};
use crate::error::{GitError, disk};

impl Files {
    /// Replaces each pointer with its content. Blocks.
    pub(crate) fn put_into(&self, work_tree: &Path) -> Result<(), GitError> {
        for file in &self.files {
            self.put(work_tree, file).map_err(disk(&file.to_path()))?;
        }
        for file in self.distinct() {
            let object = work_tree.join(file.pointer.oid.workspace_path());
            let parent = object.parent().unwrap_or(work_tree);
            let kept = fs::create_dir_all(parent).and_then(|()| {
                self.link(file, CWD, &object)
                    .or_else(|_| fs::copy(self.objects.path(&file.pointer.oid), &object).map(drop))
            });
            kept.map_err(disk(&object))?;
        }
        Ok(())
    }

    fn put(&self, work_tree: &Path, file: &LfsFile) -> io::Result<()> {
        let path = file.to_path();
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let parent = beneath(work_tree, path.parent().unwrap_or(Path::new("")), OFlags::DIRECTORY)?;
        let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        unlinkat(&parent, name, AtFlags::empty())?;
        if !file.executable && self.link(file, &parent, Path::new(name)).is_ok() {
            return Ok(());
        }
        // Copy if the mode differs, if the object is on another disk, or if it has too many hard
        // links.
        let mut from = File::open(self.objects.path(&file.pointer.oid))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut to = File::from(openat(&parent, name, flags, Mode::from_raw_mode(0o600))?);
        io::copy(&mut from, &mut to)?;
        to.set_permissions(fs::Permissions::from_mode(if file.executable { 0o755 } else { 0o644 }))?;
        to.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(SECONDS.into()))
    }

    fn link(&self, file: &LfsFile, directory: impl AsFd, name: &Path) -> io::Result<()> {
        let object = self.objects.path(&file.pointer.oid);
        Ok(linkat(CWD, &object, directory, name, AtFlags::empty())?)
    }
}

/// Makes git in the box run the filter from now on.
pub(crate) fn write_filter(work_tree: &Path) -> Result<(), GitError> {
    let (script, config) = (work_tree.join(FILTER_PATH), work_tree.join(".git/config"));
    fs::write(&script, FILTER).map_err(disk(&script))?;
    let text = fs::read_to_string(&config).map_err(disk(&config))?;
    fs::write(&config, text + settings()).map_err(disk(&config))
}

/// The repository's settings for the filter. `required`: git refuses to add a file if the filter
/// fails.
pub(crate) fn settings() -> &'static str {
    "[filter \"lfs\"]\n\
     \tclean = sh \\\"$(git rev-parse --git-common-dir)/stead-lfs\\\" clean %f\n\
     \tsmudge = sh \\\"$(git rev-parse --git-common-dir)/stead-lfs\\\" smudge %f\n\
     \trequired = true\n"
}
