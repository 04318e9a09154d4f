//! Git's base 85: five characters for four bytes, in lines of up to 52 bytes that start with their
//! length.

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Number of bytes in a full line.
const LINE: usize = 52;

/// Appends the lines for these bytes, each with its line end.
pub(super) fn encode(out: &mut String, bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        out.push(length_char(line.len()));
        for group in line.chunks(4) {
            let mut word = [0; 4];
            word[..group.len()].copy_from_slice(group);
            let mut value = u32::from_be_bytes(word);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = ALPHABET[(value % 85) as usize];
                value /= 85;
            }
            out.extend(digits.map(char::from));
        }
        out.push('\n');
    }
}

/// Appends the bytes of one line without its line end; `None` if it is malformed.
pub(super) fn decode_line(out: &mut Vec<u8>, line: &str) -> Option<()> {
    let (length, digits) = line.as_bytes().split_first()?;
    let length = match length {
        b'A'..=b'Z' => usize::from(length - b'A') + 1,
        b'a'..=b'z' => usize::from(length - b'a') + 27,
        _ => return None,
    };
    if digits.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let end = out.len() + length;
    for group in digits.chunks_exact(5) {
        let mut value: u32 = 0;
        for digit in group {
            value = value.checked_mul(85)?.checked_add(digit_value(*digit)?)?;
        }
        out.extend(value.to_be_bytes());
    }
    out.truncate(end);
    Some(())
}

fn length_char(length: usize) -> char {
    // A line has 1 to 52 bytes, so the number fits.
    let length = u8::try_from(length).unwrap_or(0);
    char::from(if length <= 26 { b'A' + length.saturating_sub(1) } else { b'a' + (length - 27) })
}

fn digit_value(digit: u8) -> Option<u32> {
    let at = ALPHABET.iter().position(|known| *known == digit)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_decode_to_the_same_bytes() {
        for length in 0..200_usize {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 + length) as u8).collect();
            let mut text = String::new();
            encode(&mut text, &bytes);
            let mut back = Vec::new();
            text.lines().for_each(|line| decode_line(&mut back, line).unwrap());
            assert_eq!(back, bytes, "{text}");
        }
        // The empty zlib stream, as git writes it.
        let mut text = String::new();
        encode(&mut text, &[0x78, 0x01, 0x03, 0, 0, 0, 0, 0x01]);
        assert_eq!(text, "HcmV?d00001\n");
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in ["", "A", "Z00000", "000000", "A0000\"", "A~~~~~", "Aé000", "B000000"] {
            assert_eq!(decode_line(&mut Vec::new(), line), None, "{line}");
        }
    }
}
