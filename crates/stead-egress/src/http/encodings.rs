//! The forms in which a text can be hidden by an encoding that everybody can undo.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Forms that are shorter occur in ordinary text.
const SHORTEST: usize = 6;

/// Returns the text itself and its Base64, Base64url, hexadecimal and percent-encoded forms.
pub(super) fn forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![text.as_bytes().to_vec()];
    for engine in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|offset| inner(text, offset, |bytes| engine.encode(bytes))));
    }
    let hex = |upper: bool| {
        let digits = |byte: u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        text.bytes().map(digits).collect::<String>().into_bytes()
    };
    forms.extend([hex(false), hex(true), percent(text, false), percent(text, true)]);
    forms.retain(|form| form.len() >= SHORTEST);
    forms.sort();
    forms.dedup();
    forms
}

/// Returns the characters of an encoded text that do not depend on what is before and after it.
/// `offset` is the number of bytes before it, modulo three.
fn inner(text: &str, offset: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let bytes = [&vec![0; offset][..], text.as_bytes()].concat();
    let encoded = encode(&bytes);
    // Each character has six bits.
    let (first, end) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    encoded.as_bytes().get(first..end).unwrap_or_default().to_vec()
}

/// Encodes every character that is not a letter or a digit.
fn percent(text: &str, upper: bool) -> Vec<u8> {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => encoded.push(byte.into()),
            byte if upper => encoded.push_str(&format!("%{byte:02X}")),
            byte => encoded.push_str(&format!("%{byte:02x}")),
        }
    }
    encoded.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_wherever_the_text_is() {
        let text = "canary-value/7+x";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let whole = format!("{before}{text}{after}");
                for encoded in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
                    let found = forms(text).iter().any(|form| encoded.contains(std::str::from_utf8(form).unwrap()));
                    assert!(found, "{whole}: {encoded}");
                }
            }
        }
    }
}
