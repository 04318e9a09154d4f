//! Lists the ports that programs in the box listen on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::protocol::ListeningPort;

/// Maximum size of a table that is read: more than the sockets that a box may have need.
const MOST_BYTES: u64 = 4 << 20;
/// Maximum number of ports in a list.
const MOST_PORTS: usize = 1_024;
/// `TCP_LISTEN` as the kernel prints it.
const LISTEN: &str = "0A";

/// Returns the ports that the server can connect to, in order. Each port is listed once.
pub(in crate::init) fn ports() -> Vec<ListeningPort> {
    listed(&[table("/proc/net/tcp"), table("/proc/net/tcp6")])
}

fn table(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // An unreadable table has no ports.
        let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn listed(tables: &[String]) -> Vec<ListeningPort> {
    let mut found = BTreeMap::new();
    for (port, address) in tables.iter().flat_map(|table| table.lines()).filter_map(listener) {
        found.entry(port).or_insert(address);
    }
    found.into_iter().take(MOST_PORTS).map(|(port, address)| ListeningPort { port, address }).collect()
}

/// Parses one line. Returns `None` for a socket that does not listen, or that a connection to
/// 127.0.0.1 and ::1 does not reach.
fn listener(line: &str) -> Option<(u16, IpAddr)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (address, port) = words.next()?.split_once(':')?;
    if words.nth(1)? != LISTEN {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    let address = parse_address(address)?.to_canonical();
    let reachable =
        address.is_unspecified() || [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(&address);
    (reachable && port > 0).then_some((port, address))
}

/// Parses an address: groups of 32 bits in the byte order of the machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    let group = |index: usize| Some(u32::from_str_radix(text.get(index * 8..index * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(group(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, to) in bytes.chunks_exact_mut(4).enumerate() {
                to.copy_from_slice(&group(index)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";

    fn line(local: &str, state: &str) -> String {
        format!("   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100\n")
    }

    #[test]
    fn listening_ports_are_read_from_the_tables_of_the_kernel() {
        let four = [
            HEAD.to_owned(),
            line("0100007F:1F90", "0A"),
            line("00000000:0050", "0A"),
            // Established, bound to another address, and a port that is listed twice.
            line("0100007F:1F91", "01"),
            line("0200007F:1F92", "0A"),
            line("00000000:1F90", "0A"),
        ];
        let six = [
            line("00000000000000000000000000000000:0BB8", "0A"),
            line("00000000000000000000000001000000:0BB9", "0A"),
            line("0000000000000000FFFF00000100007F:0BBA", "0A"),
            line("000080FE000000000000000001000000:0BBB", "0A"),
        ];
        let found = listed(&[four.concat(), six.concat()]);
        let found: Vec<_> = found.iter().map(|it| (it.port, it.address.to_string())).collect();
        let expected = [(80, "0.0.0.0"), (3000, "::"), (3001, "::1"), (3002, "127.0.0.1"), (8080, "127.0.0.1")];
        assert_eq!(found, expected.map(|(port, address)| (port, address.to_owned())));
    }

    #[test]
    fn nonsense_lists_nothing() {
        for text in
            ["", "x", "1: é:1F90 x 0A", "1: 0100007F 0:0 0A", "1: 0100007F:ZZZZ 0:0 0A", "1: 0100007F:0000 0:0 0A"]
        {
            assert_eq!(listed(&[text.to_owned()]), [], "{text}");
        }
    }
}
