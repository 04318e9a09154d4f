//! Finds files by name.

use std::ops::ControlFlow;

use super::filter::Filter;
use super::{Hidden, Pattern};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Ignoring};
use crate::path::WorkspacePath;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobQuery {
    /// The directory the pattern is relative to.
    pub path: WorkspacePath,
    pub pattern: String,
    pub hidden: Hidden,
    pub ignoring: Ignoring,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GlobFound {
    pub paths: Vec<WorkspacePath>,
    /// True if there are more.
    pub truncated: bool,
}

pub(crate) fn glob<F: Filesystem + ?Sized>(fs: &F, query: &GlobQuery) -> Result<GlobFound, FsError> {
    let pattern = Pattern::anchored(&query.pattern)?;
    let filter = Filter {
        path: &query.path,
        pattern: Some(&pattern),
        types: None,
        hidden: query.hidden,
        ignoring: query.ignoring,
    };
    let mut found = GlobFound::default();
    filter.walk(fs, |walked| {
        let file = walked.kind == Kind::File || fs.stat(&walked.path).is_ok_and(|stat| stat.kind == Kind::File);
        if !file {
            return ControlFlow::Continue(());
        }
        if found.paths.len() == query.limit {
            found.truncated = true;
            return ControlFlow::Break(());
        }
        found.paths.push(walked.path.clone());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
