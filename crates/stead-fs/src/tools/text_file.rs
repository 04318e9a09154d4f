//! A text file that is edited: as UTF-8 while it is changed, in its own encoding on disk.

use bytes::Bytes;

use super::ToolError;
use super::edit::too_large;
use crate::encoding::Encoding;
use crate::limits::Limits;

pub(super) struct TextFile {
    /// The file's bytes.
    pub(super) raw: Bytes,
    /// Its text as UTF-8, without a byte order mark. UTF-8 is not copied.
    pub(super) text: Bytes,
    pub(super) encoding: Encoding,
}

impl TextFile {
    /// Returns `None` if the content is binary.
    pub(super) fn new(raw: Bytes) -> Option<Self> {
        let encoding = Encoding::of(&raw)?;
        let text = match encoding {
            Encoding::Utf8 => raw.slice_ref(encoding.without_mark(&raw)),
            other => Bytes::from(other.decode(other.without_mark(&raw)).into_owned()),
        };
        Some(Self { raw, text, encoding })
    }

    /// Converts the edited text to the file's encoding, with the file's byte order mark. Refuses
    /// a result that is too large for a file.
    pub(super) fn encode(&self, edited: impl Into<Bytes>, limits: &Limits) -> Result<Bytes, ToolError> {
        let encoded = self.converted(edited.into())?;
        if encoded.len() as u64 > limits.edit_bytes { Err(too_large(limits)) } else { Ok(encoded) }
    }

    fn converted(&self, edited: Bytes) -> Result<Bytes, ToolError> {
        if self.encoding == Encoding::Utf8 {
            let mark = &self.raw[..self.raw.len() - self.text.len()];
            return Ok(if mark.is_empty() { edited } else { [mark, &edited].concat().into() });
        }
        let text = String::from_utf8_lossy(&edited);
        self.encoding.encode(&text).map(Bytes::from).map_err(|missing| no_character(self.encoding, missing))
    }
}

/// The error for text with a character that the file's encoding does not have.
pub(super) fn no_character(encoding: Encoding, missing: char) -> ToolError {
    let (encoding, code) = (encoding.as_str(), u32::from(missing));
    let message = format!("The file is {encoding}, which has no character {missing:?} (U+{code:04X}).");
    ToolError::new("encoding", message).hinting("use other characters, or write the whole file, which makes it UTF-8")
}
