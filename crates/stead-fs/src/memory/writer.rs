//! A writer to a memory file: collects the bytes, then applies one change.

use std::io::{self, Write};

use super::MemoryFs;
use crate::error::FsError;
use crate::filesystem::entry::Written;
use crate::filesystem::{FileWriter, Filesystem, WriteMode};
use crate::path::WorkspacePath;

pub(super) struct MemoryWriter<'a> {
    pub(super) fs: &'a mut MemoryFs,
    pub(super) path: WorkspacePath,
    pub(super) mode: WriteMode,
    pub(super) at_millis: i64,
    pub(super) content: Vec<u8>,
}

impl Write for MemoryWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for MemoryWriter<'_> {
    fn finish(self: Box<Self>) -> Result<Written, FsError> {
        let Self { fs, path, mode, at_millis, content } = *self;
        fs.write_bytes(&path, content.into(), mode, at_millis)
    }
}
