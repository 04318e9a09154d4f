//! Reasons why a snapshot has no hash of its tree.

use crate::parse::words;

words!(
    /// The reason why a snapshot has no hash of its tree.
    HashAbsence, "tree_hash_absent", {
        /// The server computes the hash after the snapshot. The event `SnapshotHashed` has it.
        Pending = "pending",
        /// The tree had more entries or bytes than older versions hashed.
        TooLarge = "too_large",
        /// Processes were running in the box, for which older versions had no hash.
        AtWork = "at_work",
        /// The workspace is a directory of the host, for which older versions had no hash.
        HostDirectory = "host_directory",
        /// The files could not be read, or the session ended before they were.
        Failed = "failed",
    }
);
