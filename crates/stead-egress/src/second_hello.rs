//! Follows a TLS connection until its handshake can no longer name another host.
//!
//! A server may ask for a second ClientHello. It must name the same host. The client could send it
//! before it is asked, so records of the client are followed from the start, until the first answer
//! of the server shows that it did not ask.

use stead_core::network::{HostName, RefusalCode};

use crate::client_hello::{self, Read};

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER: usize = 5;
/// Maximum size of a record with its header.
const MOST_RECORD: usize = (16 << 10) + 256 + RECORD_HEADER;
/// The random number that marks a request for a second ClientHello.
const ASKS_AGAIN: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Position of the random number in the first record of a server.
const RANDOM: usize = RECORD_HEADER + 4 + 2;

/// Bytes of the server from the start of the connection.
#[derive(Debug, Default)]
pub(crate) struct FirstAnswer(Vec<u8>);

impl FirstAnswer {
    /// Takes bytes before they are passed on. Returns true if they show that the server accepted
    /// the first hello or that it does not speak TLS; `None` if it is not known yet.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<bool> {
        let missing = (RANDOM + ASKS_AGAIN.len()).saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        let is_server_hello = self.0.first().is_none_or(|kind| *kind == HANDSHAKE)
            && self.0.get(RECORD_HEADER).is_none_or(|kind| *kind == 2);
        if !is_server_hello {
            return Some(true);
        }
        (self.0.len() == RANDOM + ASKS_AGAIN.len()).then(|| self.0[RANDOM..] != ASKS_AGAIN)
    }
}

/// Bytes of the client after its first hello.
#[derive(Debug)]
pub(crate) struct FurtherRecords {
    name: HostName,
    held: Vec<u8>,
}

impl FurtherRecords {
    pub(crate) fn new(name: HostName) -> Self {
        Self { name, held: Vec::new() }
    }

    /// Takes bytes and returns those that may be passed on: complete records.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, RefusalCode> {
        self.held.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(header) = self.held.first_chunk::<RECORD_HEADER>() {
            let length = RECORD_HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
            if length > MOST_RECORD {
                return Err(RefusalCode::NotTls);
            }
            let Some(record) = self.held.get(..length) else { break };
            if record[0] == HANDSHAKE && record.get(RECORD_HEADER).is_none_or(|kind| *kind == CLIENT_HELLO) {
                match client_hello::read(&self.held) {
                    Read::More => break,
                    Read::Hello { name, bytes } if name == self.name => out.extend(self.held.drain(..bytes)),
                    Read::Hello { .. } => return Err(RefusalCode::NameMismatch),
                    Read::Refused(code) => return Err(code),
                }
                continue;
            }
            out.extend(self.held.drain(..length));
        }
        Ok(out)
    }

    /// Returns the bytes that were held back.
    pub(crate) fn into_held(self) -> Vec<u8> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_hello::tests::hello;

    fn answer(random: [u8; 32]) -> Vec<u8> {
        [&[22, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3][..], &random, &[0; 50]].concat()
    }

    #[test]
    fn the_first_answer_shows_whether_the_server_asks_again() {
        for (random, accepted) in [([7; 32], true), (ASKS_AGAIN, false)] {
            let bytes = answer(random);
            let mut first = FirstAnswer::default();
            assert_eq!(first.take(&bytes[..20]), None);
            assert_eq!(first.take(&bytes[20..]), Some(accepted));
        }
        assert_eq!(FirstAnswer::default().take(b"HTTP/1.1 400"), Some(true));
        // An alert.
        assert_eq!(FirstAnswer::default().take(&[21, 3, 3, 0, 2, 2, 40]), Some(true));
    }

    #[test]
    fn second_hello_with_another_name_is_cut() {
        let records = |name: &[u8]| [&[20, 3, 3, 0, 1, 1][..], &hello(name), &[23, 3, 3, 0, 1, 9]].concat();
        for size in [1, 10, 1000] {
            let all = |bytes: &[u8]| {
                let mut further = FurtherRecords::new("a.example".parse().unwrap());
                bytes.chunks(size).try_fold(Vec::new(), |mut out, piece| {
                    out.extend(further.take(piece)?);
                    Ok(out)
                })
            };
            assert_eq!(all(&records(b"a.example")), Ok(records(b"a.example")));
            assert_eq!(all(&records(b"b.example")), Err(RefusalCode::NameMismatch));
        }
    }
}
