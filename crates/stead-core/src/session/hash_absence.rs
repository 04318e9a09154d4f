//! Reasons why a snapshot has no hash of its tree.

use crate::parse::words;

words!(
    /// The reason why a snapshot has no hash of its tree.
    HashAbsence, "tree_hash_absent", {
        /// The tree has more entries or bytes than are hashed.
        TooLarge = "too_large",
        /// Processes were running in the box, so that the hash could be that of another tree.
        AtWork = "at_work",
        /// The workspace is a directory of the host.
        HostDirectory = "host_directory",
        /// The box did not answer.
        Failed = "failed",
    }
);
