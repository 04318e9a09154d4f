//! Questions of programs in a box to its resolver, and the answers.
//!
//! No question leaves the server. Every name gets an address ([`crate::names`]), and every kind of
//! record except A is empty, so there are no keys for encrypted handshakes and no other endpoints.

use std::net::Ipv4Addr;

use stead_core::network::HostName;

/// Maximum size of a question, and of an answer.
pub const MOST_BYTES: usize = 512;
const HEADER: usize = 12;
const MOST_NAME: usize = 255;
/// Time that programs may keep an answer, in seconds.
const KEEP: u32 = 60;
const A: u16 = 1;
const INTERNET: u16 = 1;

/// A question with one well-formed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    header: [u8; HEADER],
    /// Name, kind and class, as they came.
    asked: Vec<u8>,
    /// `None` if the name is not a host name, which no rule can allow.
    pub name: Option<HostName>,
    kind: u16,
    class: u16,
}

/// The content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Address(Ipv4Addr),
    /// The name has no record of this kind.
    Nothing,
    NoSuchName,
    /// The server cannot answer now.
    Failed,
}

/// A message that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswerable {
    /// Not a question: there is nobody to answer.
    Ignored,
    /// The answer that says what is wrong.
    Refused(Vec<u8>),
}

impl Question {
    pub fn read(message: &[u8]) -> Result<Self, Unanswerable> {
        const FORMAT_ERROR: u8 = 1;
        const NOT_IMPLEMENTED: u8 = 4;
        let header: [u8; HEADER] = *message.first_chunk().ok_or(Unanswerable::Ignored)?;
        // An answer, which could make two resolvers talk to each other for ever.
        if header[2] & 0x80 != 0 {
            return Err(Unanswerable::Ignored);
        }
        let refused = |code| Unanswerable::Refused(reply(&header, code, &[], &[]));
        if header[2] & 0x78 != 0 {
            return Err(refused(NOT_IMPLEMENTED));
        }
        // One question, and no answers or authorities. Additional records are options, which are
        // ignored.
        if header[4..10] != [0, 1, 0, 0, 0, 0] || message.len() > MOST_BYTES {
            return Err(refused(FORMAT_ERROR));
        }
        let (name, end) = read_name(message).ok_or_else(|| refused(FORMAT_ERROR))?;
        let fields: [u8; 4] =
            message.get(end..).and_then(|rest| rest.first_chunk().copied()).ok_or_else(|| refused(FORMAT_ERROR))?;
        Ok(Self {
            header,
            asked: message[HEADER..end + 4].to_vec(),
            name: HostName::from_bytes(&name).ok(),
            kind: u16::from_be_bytes([fields[0], fields[1]]),
            class: u16::from_be_bytes([fields[2], fields[3]]),
        })
    }

    /// Returns true if the question is for an IPv4 address.
    pub fn wants_address(&self) -> bool {
        (self.kind, self.class) == (A, INTERNET)
    }

    pub fn answer(&self, answered: Answered) -> Vec<u8> {
        let (code, record) = match answered {
            Answered::Address(address) => {
                let mut record = vec![0xc0, HEADER as u8];
                record.extend([A, INTERNET].into_iter().flat_map(u16::to_be_bytes));
                record.extend(KEEP.to_be_bytes());
                record.extend([0, 4]);
                record.extend(address.octets());
                (0, record)
            }
            Answered::Nothing => (0, Vec::new()),
            Answered::NoSuchName => (3, Vec::new()),
            Answered::Failed => (2, Vec::new()),
        };
        reply(&self.header, code, &self.asked, &record)
    }
}

/// Reads the name of the first question. Returns its text and the position behind it. Compression
/// is not allowed: there is nothing before the name that it could refer to.
fn read_name(message: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut text, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        match length {
            0 => return Some((text, at)),
            1..=63 => {
                let label = message.get(at..at + length)?;
                // A dot inside a label would read as two labels.
                if label.contains(&b'.') || at - HEADER + length > MOST_NAME {
                    return None;
                }
                if !text.is_empty() {
                    text.push(b'.');
                }
                text.extend_from_slice(label);
                at += length;
            }
            _ => return None,
        }
    }
}

fn reply(header: &[u8; HEADER], code: u8, asked: &[u8], record: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(HEADER + asked.len() + record.len());
    reply.extend_from_slice(&header[..2]);
    // An answer, recursion as it was asked for and available.
    reply.extend([0x80 | (header[2] & 0x79), 0x80 | code]);
    reply.extend([0, u8::from(!asked.is_empty()), 0, u8::from(!record.is_empty()), 0, 0, 0, 0]);
    reply.extend_from_slice(asked);
    reply.extend_from_slice(record);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &[&str], kind: u16, class: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name {
            message.push(label.len() as u8);
            message.extend(label.bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend(class.to_be_bytes());
        message
    }

    #[test]
    fn an_address_is_answered() {
        let message = question(&["API", "example"], 1, 1);
        let question = Question::read(&message).unwrap();
        assert_eq!(question.name, Some("api.example".parse().unwrap()));
        assert!(question.wants_address());
        let answer = question.answer(Answered::Address(Ipv4Addr::new(198, 18, 1, 2)));
        let mut expected = vec![0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        expected.extend(&message[12..]);
        expected.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 1, 2]);
        assert_eq!(answer, expected);
        assert_eq!(question.answer(Answered::NoSuchName)[3] & 15, 3);
        assert_eq!(question.answer(Answered::Failed)[3] & 15, 2);
    }

    #[test]
    fn txt_https_svcb_any_axfr_get_no_data() {
        for (kind, class) in [(16, 1), (65, 1), (64, 1), (255, 1), (252, 1), (28, 1), (1, 3), (1, 255)] {
            let question = Question::read(&question(&["api", "example"], kind, class)).unwrap();
            assert!(!question.wants_address(), "{kind} {class}");
            assert_eq!(question.answer(Answered::Nothing)[7], 0);
        }
    }

    #[test]
    fn malformed_questions_are_format_errors() {
        let good = question(&["api", "example"], 1, 1);
        let change = |at: usize, to: u8| {
            let mut message = good.clone();
            message[at] = to;
            message
        };
        let malformed = [
            change(5, 0),
            change(5, 2),
            change(7, 1),
            change(12, 0xc0),
            change(12, 64),
            good[..good.len() - 1].to_vec(),
            good[..14].to_vec(),
            question(&["a.b", "example"], 1, 1),
            question(&["a"; 130], 1, 1),
        ];
        for message in malformed {
            let read = Question::read(&message);
            assert!(matches!(&read, Err(Unanswerable::Refused(reply)) if reply[3] & 15 == 1), "{message:?} {read:?}");
        }
        for message in [&[][..], &good[..11], &change(2, 0x81)] {
            assert_eq!(Question::read(message), Err(Unanswerable::Ignored));
        }
        assert!(matches!(Question::read(&change(2, 0x28)), Err(Unanswerable::Refused(reply)) if reply[3] & 15 == 4));
    }

    #[test]
    fn a_name_that_is_no_host_name_is_answered_without_one() {
        for label in ["a b", "nul\0", "ünicode", "1", "0x7f"] {
            assert_eq!(Question::read(&question(&[label], 1, 1)).unwrap().name, None, "{label}");
        }
        assert_eq!(Question::read(&question(&[], 1, 1)).unwrap().name, None);
    }
}
