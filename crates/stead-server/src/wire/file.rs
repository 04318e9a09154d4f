//! Conversions of workspace files.

use stead_api::file::{
    ChangeKind, Contents, Diff, Directory, FileChange, FileEntry, FileKind, Omitted, OmittedReason, Placed,
};
use stead_core::Timestamp;
use stead_engine::ops::{Operated, PutFile};
use stead_fs::{Entry, Kind, Listing, WorkspacePath, patch};

use super::IntoWire;

impl IntoWire for Entry {
    type Wire = FileEntry;

    fn into_wire(self) -> FileEntry {
        let Self { path, stat } = self;
        let kind = match stat.kind {
            Kind::File => FileKind::File,
            Kind::Directory => FileKind::Directory,
            Kind::Symlink => FileKind::Symlink,
            Kind::Special => FileKind::Special,
        };
        let mtime = Timestamp::from_millis(stat.updated_at_millis);
        FileEntry { path: path.to_string(), kind, size: stat.size, version: stat.version, mtime }
    }
}

impl IntoWire for (&WorkspacePath, Listing) {
    type Wire = Directory;

    fn into_wire(self) -> Directory {
        Directory { path: self.0.to_string(), entries: self.1.entries.into_wire() }
    }
}

impl IntoWire for (&WorkspacePath, &PutFile) {
    type Wire = Placed;

    fn into_wire(self) -> Placed {
        let (path, put) = self;
        let (bytes, hash) = (Some(put.bytes), Some(put.hash.to_string()));
        Placed { path: path.to_string(), bytes, hash, seq: put.operated.seq }
    }
}

impl IntoWire for (&WorkspacePath, &Operated) {
    type Wire = Placed;

    fn into_wire(self) -> Placed {
        Placed { path: self.0.to_string(), bytes: None, hash: None, seq: self.1.seq }
    }
}

impl IntoWire for patch::Contents {
    type Wire = Contents;

    fn into_wire(self) -> Contents {
        let text = |digest: Option<stead_fs::ContentHash>| digest.map(|digest| digest.to_string());
        Contents { before: text(self.before), after: text(self.after), mode: self.mode }
    }
}

impl IntoWire for patch::Patch {
    type Wire = Diff;

    fn into_wire(self) -> Diff {
        let texts = |paths: Vec<WorkspacePath>| paths.iter().map(ToString::to_string).collect();
        let contents = self.contents.into_iter().map(|(path, one)| (path.to_string(), one.into_wire())).collect();
        Diff {
            changed: texts(self.changed),
            unshown: texts(self.unshown),
            contents,
            patch: self.text,
            files: self.files.into_wire(),
            omitted: self.omitted.into_wire(),
            ignored: self.ignored,
        }
    }
}

impl IntoWire for patch::FileChange {
    type Wire = FileChange;

    fn into_wire(self) -> FileChange {
        let Self { path, kind, from, old_mode, new_mode, old_bytes, new_bytes, lines } = self;
        let kind = match kind {
            patch::ChangeKind::Added => ChangeKind::Added,
            patch::ChangeKind::Deleted => ChangeKind::Deleted,
            patch::ChangeKind::Modified => ChangeKind::Modified,
            patch::ChangeKind::Renamed => ChangeKind::Renamed,
            patch::ChangeKind::TypeChanged => ChangeKind::TypeChanged,
        };
        FileChange {
            path: path.to_string(),
            kind,
            from: from.map(|from| from.to_string()),
            old_mode,
            new_mode,
            old_bytes,
            new_bytes,
            insertions: lines.map(|lines| lines.added),
            deletions: lines.map(|lines| lines.removed),
        }
    }
}

impl IntoWire for patch::Omitted {
    type Wire = Omitted;

    fn into_wire(self) -> Omitted {
        let reason = match self.reason {
            patch::OmittedReason::EmptyDirectory => OmittedReason::EmptyDirectory,
            patch::OmittedReason::RemovedDirectory => OmittedReason::RemovedDirectory,
            patch::OmittedReason::SpecialFile => OmittedReason::SpecialFile,
            patch::OmittedReason::RefusedName => OmittedReason::RefusedName,
            patch::OmittedReason::Repository => OmittedReason::Repository,
        };
        Omitted { path: self.path.to_string(), reason }
    }
}
