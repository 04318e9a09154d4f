//! Limits for archives.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Maximum number of entries of all kinds.
    pub entries: usize,
    /// Maximum total bytes of all files; a hard link counts as a copy.
    pub total_bytes: u64,
    /// Maximum ratio of unpacked to packed size, beyond [`Self::RATIO_FREE`].
    pub ratio: u64,
    pub link_targets: LinkTargets,
}

/// The rule for targets of an archive's symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkTargets {
    /// A target must lead to a place in the archive's own tree.
    #[default]
    Inside,
    /// In addition a target must have no `..` after a name. Such a target leads elsewhere once the
    /// name becomes a link, which a second archive unpacked into the same directory could cause.
    AlwaysInside,
}

impl ArchiveLimits {
    /// Number of unpacked bytes that is allowed at any ratio.
    pub const RATIO_FREE: u64 = 16 << 20;
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { entries: 200_000, total_bytes: 4 << 30, ratio: 200, link_targets: LinkTargets::Inside }
    }
}
