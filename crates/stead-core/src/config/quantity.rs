//! Amounts of a resource as people write them: `"2"`, `"500m"`, `"4G"`.
//!
//! The text is kept as written, so a config reads back unchanged, and the number is derived from
//! it. Zero, negative and invalid amounts are not representable.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The error for an invalid amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    #[error(
        "{0:?} is not an amount of cpu: use cores such as \"2\" or \"0.5\", or thousandths such as \"500m\", more than zero"
    )]
    Cpu(String),
    #[error(
        "{0:?} is not an amount of bytes: use a whole number above zero with an optional K, M, G or T, such as \"512M\" or \"4G\""
    )]
    Bytes(String),
}

/// An amount of processor time, in cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpu {
    text: String,
    millis: u64,
}

impl Cpu {
    pub const PATTERN: &str =
        r"^([1-9][0-9]{0,6}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$";

    /// Thousandths of a core.
    pub fn millis(&self) -> u64 {
        self.millis
    }
}

fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let plain = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Parses an integer without leading zeros, so that each value has one text.
fn positive(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<u64> {
    if text.starts_with('0') { None } else { digits(text, length) }
}

fn cpu_millis(text: &str) -> Option<u64> {
    if let Some(thousandths) = text.strip_suffix('m') {
        return positive(thousandths, 1..=7);
    }
    let Some((whole, decimals)) = text.split_once('.') else { return positive(text, 1..=4).map(|cores| cores * 1000) };
    let cores = if whole == "0" { 0 } else { positive(whole, 1..=4)? };
    let scale = 10u64.pow(3u32.checked_sub(u32::try_from(decimals.len()).ok()?)?);
    Some(cores * 1000 + digits(decimals, 1..=3)? * scale).filter(|millis| *millis > 0)
}

impl FromStr for Cpu {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let millis = cpu_millis(text).ok_or_else(|| InvalidQuantity::Cpu(text.chars().take(40).collect()))?;
        Ok(Self { text: text.to_owned(), millis })
    }
}

/// An amount of memory or disk. K, M, G and T are powers of 1024, with or without `i` and `B`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize {
    text: String,
    bytes: u64,
}

impl ByteSize {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn byte_count(text: &str) -> Option<u64> {
    if let Some(bytes) = positive(text, 1..=15) {
        return Some(bytes);
    }
    let text = text.strip_suffix('B').unwrap_or(text);
    let text = text.strip_suffix('i').unwrap_or(text);
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        'T' => 1 << 40,
        _ => return None,
    };
    Some(positive(&text[..text.len() - 1], 1..=6)? * unit)
}

impl FromStr for ByteSize {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let bytes = byte_count(text).ok_or_else(|| InvalidQuantity::Bytes(text.chars().take(40).collect()))?;
        Ok(Self { text: text.to_owned(), bytes })
    }
}

/// An amount of processor time that may be zero, for quotas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuTotal {
    text: String,
    millis: u64,
}

impl CpuTotal {
    pub const PATTERN: &str =
        r"^(0|[1-9][0-9]{0,6}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$";

    /// Thousandths of a core.
    pub fn millis(&self) -> u64 {
        self.millis
    }
}

impl FromStr for CpuTotal {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let millis = if text == "0" { 0 } else { text.parse::<Cpu>()?.millis };
        Ok(Self { text: text.to_owned(), millis })
    }
}

/// An amount of memory or disk that may be zero, for quotas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteTotal {
    text: String,
    bytes: u64,
}

impl ByteTotal {
    pub const PATTERN: &str = "^(0|[1-9][0-9]{0,14}|[1-9][0-9]{0,5}[KMGT]i?B?)$";

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromStr for ByteTotal {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let bytes = if text == "0" { 0 } else { text.parse::<ByteSize>()?.bytes };
        Ok(Self { text: text.to_owned(), bytes })
    }
}

macro_rules! text_form {
    ($($name:ident),+) => {
        $(
            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.text)
                }
            }

            impl TryFrom<String> for $name {
                type Error = InvalidQuantity;

                fn try_from(text: String) -> Result<Self, InvalidQuantity> {
                    text.parse()
                }
            }

            impl From<$name> for String {
                fn from(quantity: $name) -> String {
                    quantity.text
                }
            }
        )+
    };
}

text_form!(Cpu, ByteSize, CpuTotal, ByteTotal);
crate::parse::read_as_text!(Cpu, ByteSize, CpuTotal, ByteTotal);
