//! A token, which is sent and compared but never printed by accident.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

/// The system provided no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub(crate) struct NoRandomness(#[source] getrandom::Error);

impl Secret {
    /// Creates an admin token: 256 random bits, with a prefix that secret scanners can find.
    pub(crate) fn draw() -> Result<Self, NoRandomness> {
        let mut bits = [0u8; 32];
        getrandom::fill(&mut bits).map_err(NoRandomness)?;
        Ok(Self(format!("stead_{}", blake3::Hash::from_bytes(bits).to_hex())))
    }

    /// Parses a written token. `None` if it is empty or more than one line of plain text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        plain.then(|| Self(text.to_owned()))
    }

    /// The token in plain text, for the wire, its file, and `stead token`.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The form in which a server stores it.
    pub(crate) fn hash(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex().to_string()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_different_and_never_debugged() {
        let (one, two) = (Secret::draw().unwrap(), Secret::draw().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.expose().len(), "stead_".len() + 64);
        assert_eq!(format!("{one:?}"), "(secret)");
    }

    #[test]
    fn only_one_plain_word_is_a_token() {
        assert_eq!(Secret::read(" stead_ab\n").unwrap().expose(), "stead_ab");
        for text in ["", "\n", "two words", "a\nb", "naïve"] {
            assert!(Secret::read(text).is_none(), "{text:?}");
        }
    }
}
