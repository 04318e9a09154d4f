//! How large an archive may get.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Entries of every kind.
    pub entries: usize,
    /// Bytes of all files together, a hard link counted as a copy.
    pub total_bytes: u64,
    /// How many times the archive's own size its files may have, once they are [`Self::RATIO_FREE`].
    pub ratio: u64,
    pub link_targets: LinkTargets,
}

/// The rule for targets of an archive's symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkTargets {
    /// A target leads to a place in the archive's own tree.
    #[default]
    Inside,
    /// The target also has no `..` after a name. Such a target leads elsewhere once the name becomes a
    /// link, which a second archive unpacked into the same directory could bring.
    AlwaysInside,
}

impl ArchiveLimits {
    /// Small archives may be packed as well as they like.
    pub const RATIO_FREE: u64 = 16 << 20;
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { entries: 200_000, total_bytes: 4 << 30, ratio: 200, link_targets: LinkTargets::Inside }
    }
}
