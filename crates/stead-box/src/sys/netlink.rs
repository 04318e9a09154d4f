//! Messages to the kernel that set up the network of a box: one address, one route, one rule.
//!
//! They are written as bytes, because the box needs a few messages only, and because programs such
//! as `ip` and `nft` may be missing on the host. The kernel answers each request before `sendto`
//! returns, so no call here waits.

use std::io;
use std::net::Ipv4Addr;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Index of `lo`. It is the first interface of every network namespace.
const LOOPBACK: u32 = 1;
const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const ACKNOWLEDGE: u16 = libc::NLM_F_ACK as u16;
const CREATE: u16 = libc::NLM_F_CREATE as u16;
/// Start of a batch of rules, and its end.
const BATCH: (u16, u16) = (16, 17);
/// Messages of nf_tables.
const NEW_TABLE: u16 = 10 << 8;
const NEW_CHAIN: u16 = (10 << 8) | 3;
const NEW_RULE: u16 = (10 << 8) | 6;
/// Family of the table: IPv4.
const IPV4: u8 = 2;
const TABLE: &[u8] = b"stead\0";
const CHAIN: &[u8] = b"prerouting\0";
/// The kernel's mangle priority, before the packet is routed.
const PRIORITY: i32 = -150;
/// Registers of a rule.
const VERDICT: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// Adds an address to `lo`, and a route that makes every IPv4 address local. Connections start from
/// the address.
pub(crate) fn make_everything_local(own: Ipv4Addr) -> io::Result<()> {
    let mut messages = Messages::default();
    messages.add(libc::RTM_NEWADDR, REQUEST | ACKNOWLEDGE | CREATE, |message| {
        // Family, length of the prefix, flags, scope.
        message.bytes(&[libc::AF_INET as u8, 32, 0, 0]);
        message.bytes(&LOOPBACK.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &own.octets());
        message.attribute(libc::IFA_ADDRESS, &own.octets());
    });
    messages.add(libc::RTM_NEWROUTE, REQUEST | ACKNOWLEDGE | CREATE, |message| {
        // Family, lengths of destination and source, type of service, table, origin, scope, kind.
        let (table, origin) = (libc::RT_TABLE_MAIN, libc::RTPROT_BOOT);
        message.bytes(&[libc::AF_INET as u8, 0, 0, 0, table, origin, libc::RT_SCOPE_HOST, libc::RTN_LOCAL]);
        message.bytes(&0_u32.to_ne_bytes());
        message.attribute(libc::RTA_OIF, &LOOPBACK.to_ne_bytes());
        message.attribute(libc::RTA_PREFSRC, &own.octets());
    });
    // Protocol 0 is for routes and addresses.
    messages.send(None)
}

/// Gives every TCP connection to the listener, except connections to loopback and to `own`.
pub(crate) fn capture(own: Ipv4Addr, listener: Ipv4Addr, port: u16) -> io::Result<()> {
    let mut messages = Messages::default();
    messages.add(BATCH.0, REQUEST, |message| message.bytes(&[0, 0, 0, 10]));
    messages.add(NEW_TABLE, REQUEST | CREATE, |message| {
        message.bytes(&[IPV4, 0, 0, 0]);
        message.attribute(1, TABLE);
    });
    messages.add(NEW_CHAIN, REQUEST | CREATE, |message| {
        message.bytes(&[IPV4, 0, 0, 0]);
        message.attribute(1, TABLE);
        message.attribute(3, CHAIN);
        message.nested(4, |hook| {
            // Before routing.
            hook.attribute(1, &0_u32.to_be_bytes());
            hook.attribute(2, &PRIORITY.to_be_bytes());
        });
        // Packets that no rule accepts are accepted as well.
        message.attribute(5, &1_u32.to_be_bytes());
        message.attribute(7, b"filter\0");
    });
    rule(&mut messages, 0, |rule| {
        rule.load_destination(1);
        rule.compare(&[127]);
        rule.accept();
    });
    rule(&mut messages, 0, |rule| {
        rule.load_destination(4);
        rule.compare(&own.octets());
        rule.accept();
    });
    rule(&mut messages, ACKNOWLEDGE, |rule| {
        rule.expression(b"meta\0", |meta| {
            meta.attribute(1, &FIRST.to_be_bytes());
            // The protocol above IP.
            meta.attribute(2, &16_u32.to_be_bytes());
        });
        rule.compare(&[libc::IPPROTO_TCP as u8]);
        rule.value(FIRST, &listener.octets());
        rule.value(SECOND, &port.to_be_bytes());
        rule.expression(b"tproxy\0", |tproxy| {
            tproxy.attribute(1, &u32::from(IPV4).to_be_bytes());
            tproxy.attribute(2, &FIRST.to_be_bytes());
            tproxy.attribute(3, &SECOND.to_be_bytes());
        });
        rule.accept();
    });
    messages.add(BATCH.1, REQUEST, |message| message.bytes(&[0, 0, 0, 10]));
    messages.send(Some(netlink::NETFILTER))
}

fn rule(messages: &mut Messages, flags: u16, write: impl FnOnce(&mut Message<'_>)) {
    const APPEND: u16 = libc::NLM_F_APPEND as u16;
    messages.add(NEW_RULE, REQUEST | CREATE | APPEND | flags, |message| {
        message.bytes(&[IPV4, 0, 0, 0]);
        message.attribute(1, TABLE);
        message.attribute(2, CHAIN);
        message.nested(4, write);
    });
}

/// Messages that are sent together. The number of a message is its position.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    count: u32,
    /// Number of the last message that the kernel acknowledges.
    last: u32,
}

impl Messages {
    fn add(&mut self, kind: u16, flags: u16, write: impl FnOnce(&mut Message<'_>)) {
        self.count += 1;
        if flags & ACKNOWLEDGE != 0 {
            self.last = self.count;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&self.count.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut Message(&mut self.bytes));
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    fn send(&self, protocol: Option<Protocol>) -> io::Result<()> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        let sent = sendto(&socket, &self.bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        if sent != self.bytes.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let mut buffer = [0; 8192];
        loop {
            let (received, _) = recv(&socket, &mut buffer, RecvFlags::DONTWAIT)?;
            if acknowledged(&buffer[..received], self.last)? {
                return Ok(());
            }
        }
    }
}

/// Reads acknowledgements. Returns true if one is for the message `last`. A refused message is an
/// error.
fn acknowledged(mut bytes: &[u8], last: u32) -> io::Result<bool> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    while !bytes.is_empty() {
        let header: &[u8; 20] = bytes.first_chunk().ok_or_else(invalid)?;
        let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let length = u32::from_ne_bytes(word(0)) as usize;
        let (kind, number) = (u16::from_ne_bytes([header[4], header[5]]), u32::from_ne_bytes(word(8)));
        if kind != libc::NLMSG_ERROR as u16 {
            return Err(invalid());
        }
        match i32::from_ne_bytes(word(16)) {
            0 if number == last => return Ok(true),
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error.saturating_neg())),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The body of a message or of an attribute.
struct Message<'a>(&'a mut Vec<u8>);

impl Message<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.field(kind, |body| body.bytes(value));
    }

    fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Message<'_>)) {
        self.field(kind | libc::NLA_F_NESTED as u16, write);
    }

    fn field(&mut self, kind: u16, write: impl FnOnce(&mut Message<'_>)) {
        let start = self.0.len();
        self.bytes(&[0; 2]);
        self.bytes(&kind.to_ne_bytes());
        write(&mut Message(self.0));
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn expression(&mut self, name: &[u8], write: impl FnOnce(&mut Message<'_>)) {
        self.nested(1, |element| {
            element.attribute(1, name);
            element.nested(2, write);
        });
    }

    /// Loads the first bytes of the destination address.
    fn load_destination(&mut self, length: u32) {
        self.expression(b"payload\0", |payload| {
            payload.attribute(1, &FIRST.to_be_bytes());
            // From the header of the network layer, the destination of IPv4.
            payload.attribute(2, &1_u32.to_be_bytes());
            payload.attribute(3, &16_u32.to_be_bytes());
            payload.attribute(4, &length.to_be_bytes());
        });
    }

    fn compare(&mut self, value: &[u8]) {
        self.expression(b"cmp\0", |compare| {
            compare.attribute(1, &FIRST.to_be_bytes());
            // Equal.
            compare.attribute(2, &0_u32.to_be_bytes());
            compare.nested(3, |data| data.attribute(1, value));
        });
    }

    fn value(&mut self, register: u32, value: &[u8]) {
        self.expression(b"immediate\0", |immediate| {
            immediate.attribute(1, &register.to_be_bytes());
            immediate.nested(2, |data| data.attribute(1, value));
        });
    }

    fn accept(&mut self) {
        self.expression(b"immediate\0", |immediate| {
            immediate.attribute(1, &VERDICT.to_be_bytes());
            immediate.nested(2, |data| data.nested(2, |verdict| verdict.attribute(1, &1_u32.to_be_bytes())));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledgement(number: u32, error: i32) -> Vec<u8> {
        let mut bytes = 36_u32.to_ne_bytes().to_vec();
        bytes.extend((libc::NLMSG_ERROR as u16).to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(number.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(error.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn attributes_are_padded_and_counted_without_the_padding() {
        let mut messages = Messages::default();
        messages.add(1, REQUEST, |message| message.attribute(7, b"abc"));
        let mut expected = 24_u32.to_ne_bytes().to_vec();
        expected.extend(1_u16.to_ne_bytes());
        expected.extend(REQUEST.to_ne_bytes());
        expected.extend(1_u32.to_ne_bytes());
        expected.extend([0; 4]);
        expected.extend(7_u16.to_ne_bytes());
        expected.extend(7_u16.to_ne_bytes());
        expected.extend(b"abc\0");
        // The length of the attribute comes before its kind.
        assert_eq!(messages.bytes, expected);
    }

    #[test]
    fn a_refused_message_is_an_error_and_the_last_acknowledgement_ends_the_wait() {
        let both = [acknowledgement(1, 0), acknowledgement(2, 0)].concat();
        assert!(acknowledged(&both, 2).unwrap());
        assert!(!acknowledged(&both, 3).unwrap());
        let refused = [acknowledgement(1, -libc::EPERM), acknowledgement(2, 0)].concat();
        assert_eq!(acknowledged(&refused, 2).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(acknowledged(&both[..7], 2).is_err());
    }
}
