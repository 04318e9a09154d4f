//! Archive formats.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArchiveFormat {
    Tar,
    TarGz,
    TarZst,
    Zip,
}

impl ArchiveFormat {
    /// Detects the format by a file's name.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        match () {
            () if ends(&[".tar"]) => Some(Self::Tar),
            () if ends(&[".tar.gz", ".tgz"]) => Some(Self::TarGz),
            () if ends(&[".tar.zst", ".tar.zstd", ".tzst"]) => Some(Self::TarZst),
            () if ends(&[".zip"]) => Some(Self::Zip),
            () => None,
        }
    }

    /// Detects the format by an archive's first 512 bytes.
    pub fn of_content(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::TarGz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::TarZst),
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Self::Zip),
            _ if start.get(257..262) == Some(b"ustar") => Some(Self::Tar),
            // An empty tar consists of its end marker.
            _ if start.len() >= 512 && start.iter().all(|byte| *byte == 0) => Some(Self::Tar),
            _ => None,
        }
    }
}
