//! A Git LFS pointer, which a commit contains instead of a large file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A longer text is not a pointer.
pub(super) const MOST_BYTES: u64 = 1024;

/// The SHA-256 of a content in lower-case hexadecimal, safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Oid(String);

impl TryFrom<String> for Oid {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(hex) { Ok(Self(text)) } else { Err("no SHA-256 in hexadecimal") }
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Oid {
    /// Path below a directory of objects, as in git-lfs.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}/{}", &self.0[..2], &self.0[2..4], self.0)
    }

    /// Path in a workspace.
    pub(crate) fn workspace_path(&self) -> String {
        format!(".git/lfs/objects/{}", self.path())
    }

    pub(super) fn of(hash: &[u8]) -> Self {
        Self(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Pointer {
    pub(crate) oid: Oid,
    pub(crate) size: u64,
}

/// The classification of a file's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Pointer(Pointer),
    /// A pointer with extensions: another program, which is not available here, transformed the
    /// content.
    Extended,
    /// Any other text.
    Plain,
}

/// Parses a pointer in its canonical form. Everything else is a plain file.
pub(super) fn read(bytes: &[u8]) -> Reading {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if (bytes.len() as u64) < MOST_BYTES => text,
        _ => return Reading::Plain,
    };
    let Some(rest) = text.strip_prefix("version https://git-lfs.github.com/spec/v1\n") else { return Reading::Plain };
    if rest.starts_with("ext-") {
        return Reading::Extended;
    }
    let pointer = || {
        let (oid, size) = rest.strip_prefix("oid sha256:")?.split_once("\nsize ")?;
        let size = size.strip_suffix('\n').unwrap_or(size);
        let digits = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
        // An empty file is its own pointer, so a pointer with size 0 is plain text.
        let size = size.parse().ok().filter(|size| digits && *size > 0)?;
        Some(Pointer { oid: oid.to_owned().try_into().ok()?, size })
    };
    pointer().map_or(Reading::Plain, Reading::Pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pointer_is_one() {
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n");
        let pointer = Pointer { oid: oid.to_owned().try_into().unwrap(), size: 12345 };
        assert_eq!(pointer.oid.path(), format!("4d/7a/{oid}"));
        assert_eq!(read(text.as_bytes()), Reading::Pointer(pointer));
        assert_eq!(read(text.replace("\noid", "\next-0-x sha256:1\noid").as_bytes()), Reading::Extended);
        for (from, to) in [
            ("v1", "v2"),
            ("sha256:4d", "sha256:../"),
            ("sha256:4d", "sha256:4D"),
            ("sha256", "md5"),
            ("93\n", "9\n"),
            ("12345", "-1"),
            ("12345", "+1"),
            ("12345", ""),
            ("12345", "0"),
            ("12345", "99999999999999999999"),
            ("12345\n", "12345\nmore x\n"),
            ("version", "Version"),
        ] {
            assert_eq!(read(text.replacen(from, to, 1).as_bytes()), Reading::Plain, "{from} → {to}");
        }
        let long = format!("{text}{}", "\n".repeat(1024));
        assert_eq!(read(long.as_bytes()), Reading::Plain);
        assert_eq!(read(b""), Reading::Plain);
    }
}
