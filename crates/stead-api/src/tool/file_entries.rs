//! The tools for whole entries of a directory: `move`, `copy`, `mkdir`, `stat`.
//!
//! `stead-fs` reads the arguments, like those of [`super::files`].

use stead_core::tool::ToolName;

use super::files::file_tool;
use super::parameters::parameters;
use super::{Definition, result};

file_tool!(
    MOVE,
    Move,
    &[],
    MoveParameters,
    result::Moved,
    "Move or rename a file or directory. The destination must not exist. Its parent directories are made."
);
file_tool!(
    COPY,
    Copy,
    &[],
    CopyParameters,
    result::Copied,
    "Copy a file, or a directory with everything in it. The destination must not exist. Its parent directories are made."
);
file_tool!(
    MKDIR,
    Mkdir,
    &[],
    MkdirParameters,
    result::MadeDirectory,
    "Make a directory and its parents. A directory that exists already is not an error."
);
file_tool!(
    STAT,
    Stat,
    &[],
    StatParameters,
    result::EntryStat,
    "Show the kind, size, mode, time and content hash of a file, directory or link. A link is not followed."
);

parameters! {
    MoveParameters {
        /// File, directory or link to move.
        source: String,
        /// The new path. Nothing may exist there.
        destination: String,
        /// Hash of the source from an earlier read (sha256:…). The call fails as stale if the file
        /// has changed since.
        if_match: Option<String>,
    }
}

parameters! {
    CopyParameters {
        /// File, directory or link to copy. A link is copied as a link.
        source: String,
        /// Path of the copy. Nothing may exist there.
        destination: String,
        /// Hash of the source from an earlier read (sha256:…). The call fails as stale if the file
        /// has changed since.
        if_match: Option<String>,
    }
}

parameters! {
    MkdirParameters {
        /// Directory to make.
        path: String,
    }
}

parameters! {
    StatParameters {
        /// File, directory or link; / is the workspace root.
        path: String,
    }
}
