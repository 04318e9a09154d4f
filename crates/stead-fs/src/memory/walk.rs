//! Walks the tree in the order of full paths. Builds a path only for wanted entries.

use std::ops::ControlFlow;

use super::MemoryFs;
use super::tree::{Directory, Node};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::walk_order;
use crate::filesystem::{Walk, Walked};
use crate::path::WorkspacePath;

/// A directory of the walk and its remaining entries, in reverse order.
struct Level<'a> {
    path: WorkspacePath,
    ahead: Vec<(&'a [u8], &'a Node)>,
}

impl<'a> Level<'a> {
    fn new(path: WorkspacePath, directory: &'a Directory, wants: &dyn Fn(&[u8], Kind) -> bool) -> Self {
        let entries = directory.entries.iter().map(|(name, node)| (&**name, node));
        let mut ahead: Vec<_> = entries.filter(|(name, node)| wants(name, node.kind())).collect();
        ahead.sort_by(|(a, a_node), (b, b_node)| walk_order::by_path((b, b_node.kind()), (a, a_node.kind())));
        Self { path, ahead }
    }
}

impl MemoryFs {
    pub(super) fn walk_wanted(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        let mut levels = vec![Level::new(path.clone(), self.directory(path)?, wants)];
        while let Some(level) = levels.last_mut() {
            let Some((name, node)) = level.ahead.pop() else {
                levels.pop();
                continue;
            };
            let walked = Walked { path: level.path.joined(name), kind: node.kind() };
            let ControlFlow::Continue(wish) = visit(&walked) else { return Ok(()) };
            if let Node::Directory(directory) = node
                && wish != Walk::Skip
            {
                levels.push(Level::new(walked.path, directory, wants));
            }
        }
        Ok(())
    }
}
