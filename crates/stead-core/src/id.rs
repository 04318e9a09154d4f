//! Typed identifiers.
//!
//! There are two kinds. *Made* ids (`ses_…`, `ws_…`, `call_…`) carry 128 bits from the caller,
//! because this crate has no randomness. *Chosen* ids ([`Name`]) are the names that users give
//! their agent types and projects. No signature uses a bare `String` for either.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The reason why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {reason}")]
pub struct InvalidId {
    what: &'static str,
    text: String,
    reason: &'static str,
}

impl InvalidId {
    pub(crate) fn new(what: &'static str, text: &str, reason: &'static str) -> Self {
        Self { what, text: text.chars().take(80).collect(), reason }
    }
}

/// Lower-case Crockford base 32: no letter looks like a digit, and the text sorts like the bits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ENCODED_LENGTH: usize = 26;

fn encode(bits: u128) -> String {
    (0..ENCODED_LENGTH).rev().map(|index| ALPHABET[((bits >> (index * 5)) & 31) as usize] as char).collect()
}

fn decode(text: &str) -> Option<u128> {
    let well_formed = text.len() == ENCODED_LENGTH && matches!(text.as_bytes()[0], b'0'..=b'7');
    if !well_formed {
        return None;
    }
    text.bytes().try_fold(0u128, |bits, byte| {
        let digit = ALPHABET.iter().position(|letter| *letter == byte)?;
        Some(bits << 5 | digit as u128)
    })
}

macro_rules! made_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(u128);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id from these bits. With a UUIDv7 the ids sort by creation time.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            pub const fn bits(self) -> u128 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = |reason| InvalidId { what: $what, text: text.chars().take(80).collect(), reason };
                let digits = text.strip_prefix($prefix).ok_or_else(|| invalid(concat!("it does not start with ", $prefix)))?;
                decode(digits).map(Self).ok_or_else(|| invalid("it is not 26 base-32 characters after the prefix"))
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

made_id!(
    /// A session: one agent and its workspace.
    SessionId, "ses_", "a session id"
);
made_id!(
    /// The files and the box of a session.
    WorkspaceId, "ws_", "a workspace id"
);
made_id!(
    /// One call of a tool or one file operation.
    CallId, "call_", "a call id"
);

made_id!(
    /// One command in a box.
    ExecId, "exec_", "an exec id"
);

made_id!(
    /// A snapshot of a workspace's files.
    SnapshotId, "snap_", "a snapshot id"
);

made_id!(
    /// A unit of agent work.
    RunId, "run_", "a run id"
);

made_id!(
    /// A token that an administrator or an owner created.
    TokenId, "tok_", "a token id"
);

crate::parse::read_as_text!(SessionId);
crate::parse::read_as_text!(TokenId);

/// A name that a user chose, such as the id of an agent type or a project.
///
/// 1 to 64 characters, ASCII letters, digits, `.`, `_` and `-`, starting with a letter or digit. It
/// is therefore safe in a URL, a file name and a metric label without escaping.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// The rule as a regular expression, for schemas.
    pub const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = |reason| InvalidId { what: "a name", text: text.chars().take(80).collect(), reason };
        if text.is_empty() || text.len() > 64 {
            return Err(invalid("a name has 1 to 64 characters"));
        }
        if !text.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return Err(invalid("a name starts with an ASCII letter or digit"));
        }
        if !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
            return Err(invalid("a name holds only ASCII letters, digits, '.', '_' and '-'"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
