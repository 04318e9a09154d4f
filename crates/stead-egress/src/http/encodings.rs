//! The forms in which a text can be hidden by an encoding that everybody can undo.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Forms that are shorter occur in ordinary text.
const SHORTEST: usize = 6;

/// The characters besides letters and digits that libraries leave as they are in a URL.
const LEFT_IN_URLS: &[&str] = &["-._~", "-._~/", "-_.!~*'()", "-_.!~*'();,/?:@&=+$#"];

/// Returns the text itself and its Base64, Base64url, hexadecimal, percent-encoded, JSON and HTML
/// forms.
pub(super) fn forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![text.as_bytes().to_vec()];
    for engine in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|offset| inner(text, offset, |bytes| engine.encode(bytes))));
    }
    let hex = |upper: bool| {
        let digits = |byte: u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        text.bytes().map(digits).collect::<String>().into_bytes()
    };
    forms.extend([hex(false), hex(true)]);
    for left in LEFT_IN_URLS {
        forms.extend([percent(text, left, false), percent(text, left, true)]);
    }
    forms.extend([text.replace('/', "\\/").into_bytes(), json(text, ""), json(text, "/")]);
    forms.extend(HTML.iter().map(|entity| html(text, *entity)));
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

/// Encodes every character that is not a letter, a digit or one of `left`.
fn percent(text: &str, left: &str, upper: bool) -> Vec<u8> {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || left.as_bytes().contains(&byte) => encoded.push(byte.into()),
            byte if upper => encoded.push_str(&format!("%{byte:02X}")),
            byte => encoded.push_str(&format!("%{byte:02x}")),
        }
    }
    encoded.into_bytes()
}

/// Returns the text of a JSON string whose writer escapes what could end a script, and `also`.
fn json(text: &str, also: &str) -> Vec<u8> {
    let escaped = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        '<' | '>' | '&' | '\'' | '+' | '=' => format!("\\u{:04x}", u32::from(character)),
        other if also.contains(other) => format!("\\{other}"),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect::<String>().into_bytes()
}

type Entity = fn(char) -> Option<String>;

/// The ways in which libraries escape text for HTML.
const HTML: &[Entity] = &[
    |character| named(character, "&#39;", "&quot;"),
    |character| named(character, "&#x27;", "&quot;"),
    |character| named(character, "&#39;", "&#34;"),
    |character| (!character.is_ascii_alphanumeric()).then(|| format!("&#{};", u32::from(character))),
    |character| (!character.is_ascii_alphanumeric()).then(|| format!("&#x{:x};", u32::from(character))),
    |character| (!character.is_ascii_alphanumeric()).then(|| format!("&#x{:X};", u32::from(character))),
    |character| partly(character, "+", |number| format!("&#{number};")),
    |character| partly(character, "+=`", |number| format!("&#{number};")),
    |character| partly(character, "+=`", |number| format!("&#x{number:x};")),
    |character| partly(character, "+=`", |number| format!("&#x{number:X};")),
    |character| partly(character, "+=`/", |number| format!("&#{number};")),
    |character| partly(character, "+=`/", |number| format!("&#x{number:x};")),
    |character| partly(character, "+=`/", |number| format!("&#x{number:X};")),
];

fn named(character: char, single: &str, double: &str) -> Option<String> {
    let entity = match character {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '\'' => single,
        '"' => double,
        _ => return None,
    };
    Some(entity.to_owned())
}

/// Names the usual characters, and numbers those of `also`, which some libraries escape too.
fn partly(character: char, also: &str, number: impl Fn(u32) -> String) -> Option<String> {
    named(character, "&#39;", "&quot;").or_else(|| also.contains(character).then(|| number(character.into())))
}

fn html(text: &str, entity: Entity) -> Vec<u8> {
    text.chars()
        .map(|character| entity(character).unwrap_or_else(|| character.to_string()))
        .collect::<String>()
        .into_bytes()
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

    #[test]
    fn what_libraries_write_is_found() {
        let text = "sk/7+x=&secret";
        for written in [
            "sk\\/7+x=&secret",
            "sk/7\\u002bx\\u003d\\u0026secret",
            "sk/7+x=&amp;secret",
            "sk/7&#43;x&#61;&amp;secret",
            "sk/7&#x2B;x&#x3D;&amp;secret",
            "sk&#47;7&#43;x&#61;&#38;secret",
            "sk/7%2Bx%3D%26secret",
            "sk%2f7%2bx%3d%26secret",
        ] {
            assert!(forms(text).iter().any(|form| form == written.as_bytes()), "{written}");
        }
    }
}
