//! Writes several files atomically: all or none.
//!
//! All checks happen while the new content has no name yet. If the server dies in the meantime, the
//! child still finishes.

use std::fs::File;
use std::io::{self, Read, Seek};

use stead_fs::{DiskFs, DiskWriter, Filesystem, FsError, Recursion, WorkspacePath, WriteMode};

use super::files::{existing, hash_of};
use crate::protocol::{Answer, GuestError, NewContent};

/// A file with its new content, not in place yet, and its old content.
struct Ready {
    path: WorkspacePath,
    writer: DiskWriter,
    before: Option<Vec<u8>>,
}

pub(super) fn put_all(files: &mut DiskFs, contents: &[NewContent], mut bytes: File) -> io::Result<Answer> {
    bytes.rewind()?;
    let mut ready = Vec::with_capacity(contents.len());
    for content in contents {
        match prepare(files, content, &mut bytes) {
            Ok(file) => ready.push(file),
            Err(error) => return Ok(Answer::Unplaced { path: content.path.clone(), error }),
        }
    }
    let mut placed = Vec::with_capacity(ready.len());
    for Ready { path, writer, before } in ready {
        if let Err(error) = writer.commit() {
            let taken_back = take_back(files, placed);
            let mut error = GuestError::from(error);
            if let Err((path, again)) = taken_back {
                let more = format!("; and {path} could not be put back as it was: {}", again.sentence());
                error.message.push_str(&more);
            }
            return Ok(Answer::Unplaced { path: path.to_string(), error });
        }
        placed.push((path, before));
    }
    Ok(Answer::Done)
}

fn prepare(files: &DiskFs, content: &NewContent, bytes: &mut File) -> Result<Ready, GuestError> {
    let path = existing(&content.path)?;
    let current = hash_of(files, &path)?;
    if current.map(|hash| hash.to_string()) != content.replaces {
        return Err(GuestError::stale(current));
    }
    let before = current.is_some().then(|| files.read_bytes(&path)).transpose()?.map(|bytes| bytes.to_vec());
    let mut writer = files.begin_write(&path, WriteMode::Overwrite)?;
    let copied = io::copy(&mut bytes.take(content.bytes), &mut writer)?;
    if copied != content.bytes {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Ready { path, writer, before })
}

/// Restores files that were already replaced. Only a disk error in the last step leads here.
fn take_back(
    files: &mut DiskFs,
    placed: Vec<(WorkspacePath, Option<Vec<u8>>)>,
) -> Result<(), (WorkspacePath, FsError)> {
    for (path, before) in placed.into_iter().rev() {
        let undone = match before {
            Some(bytes) => files.write_bytes(&path, bytes.into(), WriteMode::Overwrite, 0).map(drop),
            None => files.delete(&path, Recursion::EmptyOnly).map(drop),
        };
        undone.map_err(|error| (path, error))?;
    }
    Ok(())
}
