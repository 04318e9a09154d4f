//! Reads a directory as the files of a version. Only plain files with safe names are accepted.

use std::fs::File;
use std::io::Seek as _;
use std::ops::ControlFlow;
use std::path::Path;

use stead_core::content::{ContentPath, Fault};
use stead_engine::content::NewFile;
use stead_engine::content::tree::FileMode;
use stead_fs::{DiskFs, Filesystem as _, Kind, Walk, WorkspacePath, archive};

use crate::failure::Failure;

fn open(directory: &Path) -> Result<DiskFs, Failure> {
    DiskFs::open(directory)
        .map_err(|error| Failure::new(format!("cannot read {}", directory.display())).because(&error))
}

/// Packs the directory as a tar for a push.
pub(super) fn tar(directory: &Path) -> Result<File, Failure> {
    let tree = open(directory)?;
    let failed =
        |error: &dyn std::error::Error| Failure::new(format!("cannot pack {}", directory.display())).because(error);
    let mut spool = tempfile::tempfile().map_err(|error| failed(&error))?;
    archive::export_tar(&tree, &WorkspacePath::root(), &mut spool).map_err(|error| failed(&error))?;
    spool.rewind().map_err(|error| failed(&error))?;
    Ok(spool)
}

/// Reads the directory into memory for local validation.
pub(super) fn read(directory: &Path) -> Result<Result<Vec<NewFile>, Vec<Fault>>, Failure> {
    let tree = open(directory)?;
    let unreadable =
        |error: stead_fs::FsError| Failure::new(format!("cannot read {}", directory.display())).because(&error);
    let mut found = Vec::new();
    let walked = tree.walk(&WorkspacePath::root(), &mut |entry| {
        if entry.kind != Kind::Directory {
            found.push((entry.path.clone(), entry.kind));
        }
        ControlFlow::Continue(Walk::Continue)
    });
    walked.map_err(unreadable)?;
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for (path, kind) in found {
        let shown = path.to_string();
        match shown.parse::<ContentPath>() {
            _ if kind != Kind::File => faults.push(Fault::whole(shown, "is not a plain file: content has no links")),
            Err(error) => faults.push(Fault::whole(shown, error.to_string())),
            Ok(content) => {
                let bytes = tree.read_bytes(&path).map_err(unreadable)?;
                files.push(NewFile { path: content, bytes, mode: FileMode::Plain });
            }
        }
    }
    Ok(if faults.is_empty() { Ok(files) } else { Err(faults) })
}
