//! Conversions of content versions and their files.

use stead_api::content::{self as api, ChangeKind, ContentFault};
use stead_engine::content::TreeFile;
use stead_engine::content::tree::FileMode;
use stead_engine::ops;

use super::IntoWire;

impl IntoWire for ops::ContentVersion {
    type Wire = api::ContentVersion;

    fn into_wire(self) -> api::ContentVersion {
        api::ContentVersion {
            name: self.name,
            version: self.version,
            root_hash: self.root_hash.to_string(),
            files: self.files,
            bytes: self.bytes,
            valid: self.faults.is_empty(),
            warnings: self.warnings.into_iter().map(ContentFault::from).collect(),
            faults: self.faults.into_iter().map(ContentFault::from).collect(),
            pushed_by: self.pushed_by,
            created_at: self.created_at,
        }
    }
}

impl IntoWire for TreeFile {
    type Wire = api::ContentFile;

    fn into_wire(self) -> api::ContentFile {
        let mode = match self.mode {
            FileMode::Plain => api::FileMode::Plain,
            FileMode::Executable => api::FileMode::Executable,
        };
        api::ContentFile { path: self.path.to_string(), hash: self.hash.to_string(), size: self.size, mode }
    }
}

impl IntoWire for ops::ContentChange {
    type Wire = api::ContentChange;

    fn into_wire(self) -> api::ContentChange {
        let kind = match (&self.before, &self.after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        let (before, after) = (self.before.into_wire(), self.after.into_wire());
        api::ContentChange { path: self.path.to_string(), kind, before, after }
    }
}
