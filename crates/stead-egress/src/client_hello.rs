//! Reads the first message of a TLS connection: the host that the client names.

use stead_core::network::{HostName, RefusalCode};

/// Maximum size of the message with its records.
pub const MOST_BYTES: usize = 16 << 10;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const SUPPORTED_VERSIONS: u16 = 43;
const TLS_1_2: u16 = 0x0303;

/// What the bytes so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The message is not complete.
    More,
    /// The message names this host, and ends after this many bytes.
    Hello {
        name: HostName,
        bytes: usize,
    },
    Refused(RefusalCode),
}

/// Reads the message from the beginning of a connection.
pub fn read(bytes: &[u8]) -> Read {
    match message(bytes) {
        Ok(None) if bytes.len() >= MOST_BYTES => Read::Refused(RefusalCode::TooSlow),
        Ok(None) => Read::More,
        Ok(Some((message, bytes))) => match server_name(&message) {
            Ok(name) => Read::Hello { name, bytes },
            Err(code) => Read::Refused(code),
        },
        Err(code) => Read::Refused(code),
    }
}

/// Joins the records of the message. Returns the body of the message and the number of bytes.
fn message(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, RefusalCode> {
    let (mut joined, mut at) = (Vec::new(), 0);
    loop {
        let header = &bytes[at.min(bytes.len())..];
        // Judge what is there: a program that does not speak TLS may wait for an answer.
        let expected = |index: usize, is_it: fn(u8) -> bool| header.get(index).is_none_or(|byte| is_it(*byte));
        if !expected(0, |byte| byte == HANDSHAKE) || !expected(1, |byte| byte == 3) || !expected(2, |byte| byte <= 4) {
            return Err(RefusalCode::NotTls);
        }
        let Some(header) = header.first_chunk::<5>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > MOST_BYTES {
            return Err(RefusalCode::NotTls);
        }
        let there = &bytes[at + 5..];
        joined.extend_from_slice(&there[..length.min(there.len())]);
        if joined.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(RefusalCode::NotTls);
        }
        if there.len() < length {
            return Ok(None);
        }
        at += 5 + length;
        let Some([_, a, b, c]) = joined.first_chunk::<4>().copied() else { continue };
        let wanted = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
        match joined.len() {
            complete if complete == wanted => return Ok(Some((joined.split_off(4), at))),
            // More than one message in a record: the second could name another host.
            more if more > wanted => return Err(RefusalCode::NotTls),
            _ if wanted > MOST_BYTES => return Err(RefusalCode::TooSlow),
            _ => {}
        }
    }
}

/// Returns the one host that a message names.
fn server_name(message: &[u8]) -> Result<HostName, RefusalCode> {
    let hello = Hello::read(message).ok_or(RefusalCode::NotTls)?;
    if hello.version < TLS_1_2 {
        return Err(RefusalCode::NotTls);
    }
    let names = hello.names.ok_or(RefusalCode::NoServerName)?;
    HostName::from_bytes(names).map_err(|_| RefusalCode::InvalidName)
}

struct Hello<'a> {
    /// The newest version that the client speaks.
    version: u16,
    names: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    /// Returns `None` if the message is malformed or has something twice.
    fn read(message: &'a [u8]) -> Option<Self> {
        let mut body = Bytes(message);
        let mut version = body.number()?;
        body.take(32)?;
        body.short_vector()?;
        body.vector()?;
        body.short_vector()?;
        let mut names = None;
        if !body.0.is_empty() {
            let mut extensions = Bytes(body.vector()?);
            let mut seen = Vec::new();
            while !extensions.0.is_empty() {
                let (kind, mut data) = (extensions.number()?, Bytes(extensions.vector()?));
                if seen.contains(&kind) {
                    return None;
                }
                seen.push(kind);
                match kind {
                    SERVER_NAME => names = Some(data.host_name()?),
                    SUPPORTED_VERSIONS => version = version.max(data.newest_version()?),
                    _ => {}
                }
            }
        }
        body.0.is_empty().then_some(Self { version, names })
    }
}

/// The rest of a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }

    fn short_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    /// Reads a list of exactly one host name.
    fn host_name(&mut self) -> Option<&'a [u8]> {
        let mut list = Bytes(self.vector()?);
        let kind = list.take(1)?[0];
        let name = list.vector()?;
        (kind == 0 && list.0.is_empty() && self.0.is_empty()).then_some(name)
    }

    fn newest_version(&mut self) -> Option<u16> {
        let list = self.short_vector()?;
        let versions = list.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        // 0x?a?a are reserved numbers that clients mix in.
        versions.filter(|version| (0x0301..=0x0304).contains(version)).max()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
    }

    pub(crate) fn server_name(name: &[u8]) -> Vec<u8> {
        let entry = [&[0][..], &(name.len() as u16).to_be_bytes(), name].concat();
        extension(SERVER_NAME, &[&(entry.len() as u16).to_be_bytes()[..], &entry].concat())
    }

    /// A message without records.
    fn message_with(version: u16, extensions: &[u8]) -> Vec<u8> {
        let mut body = version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let [_, a, b, c] = (body.len() as u32).to_be_bytes();
        [&[CLIENT_HELLO, a, b, c][..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |piece: &[u8]| [&[HANDSHAKE, 3, 1][..], &(piece.len() as u16).to_be_bytes(), piece].concat();
        message.chunks(size).flat_map(record).collect()
    }

    pub(crate) fn hello(name: &[u8]) -> Vec<u8> {
        records(&message_with(TLS_1_2, &server_name(name)), 1 << 14)
    }

    #[test]
    fn the_name_is_read_however_the_message_is_cut() {
        let message = message_with(TLS_1_2, &[extension(0x0a0a, &[]), server_name(b"API.example")].concat());
        let expected: HostName = "api.example".parse().unwrap();
        for size in [1, 3, 50, 1 << 14] {
            let bytes = records(&message, size);
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), Read::More, "{size} {end}");
            }
            let more = [&bytes[..], &[23, 3, 3]].concat();
            assert_eq!(read(&more), Read::Hello { name: expected.clone(), bytes: bytes.len() });
        }
    }

    #[test]
    fn what_is_no_clear_hello_is_refused() {
        let refused = |bytes: &[u8]| match read(bytes) {
            Read::Refused(code) => code,
            other => panic!("{other:?}"),
        };
        let of = |extensions: &[u8]| records(&message_with(TLS_1_2, extensions), 1 << 14);
        assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), RefusalCode::NotTls);
        assert_eq!(refused(b"SSH-2.0"), RefusalCode::NotTls);
        assert_eq!(refused(&of(&[])), RefusalCode::NoServerName);
        let twice = [server_name(b"a.example"), server_name(b"b.example")].concat();
        assert_eq!(refused(&of(&twice)), RefusalCode::NotTls);
        let entry = |name: &[u8]| [&[0][..], &(name.len() as u16).to_be_bytes(), name].concat();
        let list = [entry(b"a.example"), entry(b"b.example")].concat();
        let two = extension(SERVER_NAME, &[&(list.len() as u16).to_be_bytes()[..], &list].concat());
        assert_eq!(refused(&of(&two)), RefusalCode::NotTls);
        for name in [&b"a\0.example"[..], b"", b"1.2.3.4", "ünicode.example".as_bytes()] {
            assert_eq!(refused(&of(&server_name(name))), RefusalCode::InvalidName, "{name:?}");
        }
        assert_eq!(refused(&records(&message_with(0x0302, &server_name(b"a.example")), 1 << 14)), RefusalCode::NotTls);
        // The second message of a record could name another host.
        let one = message_with(TLS_1_2, &server_name(b"a.example"));
        assert_eq!(refused(&records(&[&one[..], &one].concat(), 1 << 14)), RefusalCode::NotTls);
        let large = extension(21, &[0; 20_000]);
        let large = records(&message_with(TLS_1_2, &[server_name(b"a.example"), large].concat()), 1 << 14);
        assert_eq!(refused(&large[..MOST_BYTES]), RefusalCode::TooSlow);
    }

    #[test]
    fn a_newer_version_may_be_in_the_extension() {
        let versions = extension(SUPPORTED_VERSIONS, &[4, 0x0a, 0x0a, 3, 4]);
        let bytes = records(&message_with(0x0301, &[server_name(b"a.example"), versions].concat()), 1 << 14);
        assert!(matches!(read(&bytes), Read::Hello { .. }));
    }
}
