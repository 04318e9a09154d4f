//! Shared by the tests: the backends, and helpers to call a tool.

use serde_json::Value;
use stead_fs::tools::{self, Call, FileTool, Reply, ToolError};
use stead_fs::{DiskFs, Filesystem, Limits, MemoryFs, WorkspacePath};

/// 2026-11-15T09:30:00Z
pub(crate) const NOW: i64 = 1_794_735_000_000;

pub(crate) fn path(text: &str) -> WorkspacePath {
    text.parse().unwrap()
}

/// A backend with the directory that must outlive it.
pub(crate) struct Backend {
    pub(crate) fs: Box<dyn Filesystem>,
    _guard: Option<tempfile::TempDir>,
}

pub(crate) fn memory() -> Backend {
    Backend { fs: Box::new(MemoryFs::new()), _guard: None }
}

pub(crate) fn disk() -> Backend {
    let guard = tempfile::tempdir().unwrap();
    let fs = DiskFs::open(guard.path()).unwrap();
    Backend { fs: Box::new(fs), _guard: Some(guard) }
}

pub(crate) fn call(fs: &mut dyn Filesystem, tool: FileTool, arguments: &Value) -> Reply {
    tools::call(fs, Call { tool, arguments, limits: &Limits::default(), now_millis: NOW })
}

/// Makes a call that must succeed and returns its result.
pub(crate) fn ok(fs: &mut dyn Filesystem, tool: FileTool, arguments: &Value) -> Value {
    let reply = call(fs, tool, arguments);
    reply.outcome.unwrap_or_else(|error| panic!("{tool} {arguments} failed: {error:?}"))
}

/// Makes a call that must fail, checks that nothing changed, and returns the error.
pub(crate) fn err(fs: &mut dyn Filesystem, tool: FileTool, arguments: &Value) -> ToolError {
    let before = fs.tree_hash().unwrap();
    let reply = call(fs, tool, arguments);
    assert_eq!(before, fs.tree_hash().unwrap(), "{tool} {arguments} failed and changed something");
    assert_eq!(reply.changes, []);
    match reply.outcome {
        Ok(result) => panic!("{tool} {arguments} succeeded: {result}"),
        Err(error) => {
            assert_eq!(error.message, reply.message);
            error
        }
    }
}

pub(crate) fn message(fs: &mut dyn Filesystem, tool: FileTool, arguments: &Value) -> String {
    let reply = call(fs, tool, arguments);
    assert!(reply.outcome.is_ok(), "{tool} {arguments}: {:?}", reply.outcome);
    reply.message
}

/// Writes files directly to the backend.
pub(crate) fn fill(fs: &mut dyn Filesystem, files: &[(&str, &str)]) {
    for (name, content) in files {
        fs.write(&path(name), content, stead_fs::WriteMode::Overwrite, NOW).unwrap();
    }
}

/// Runs each case on each backend as its own test.
macro_rules! on_every_backend {
    ($($case:ident),+ $(,)?) => {
        mod memory {
            $(#[test] fn $case() { super::$case(&mut *crate::harness::memory().fs); })+
        }
        mod disk {
            $(#[test] fn $case() { super::$case(&mut *crate::harness::disk().fs); })+
        }
    };
}
pub(crate) use on_every_backend;
