//! The addresses of the machine that the server runs on.

use std::net::{IpAddr, Ipv6Addr};

use stead_core::network::OwnAddresses;

/// Reads the addresses of all interfaces. They change while the server runs.
pub(crate) fn read() -> OwnAddresses {
    let v4 = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let v6 = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    OwnAddresses(parse(&v4, &v6))
}

fn parse(trie: &str, inet6: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut last: Option<IpAddr> = None;
    for line in trie.lines().map(str::trim_start) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.trim_end().parse().ok();
        } else if line.starts_with("/32 host LOCAL") {
            addresses.extend(last);
        }
    }
    addresses.extend(inet6.lines().filter_map(|line| {
        let bits = u128::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok()?;
        Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    }));
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_lists_them() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\nLocal:\n  \
                    +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.5\n        /32 host LOCAL\n     |-- 10.0.0.255\n        \
                    /32 link BROADCAST\n     |-- 93.184.216.0\n        /24 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        let inet6 = "00000000000000000000000000000001 01 80 10 80       lo\n";
        let expected: Vec<IpAddr> = ["10.0.0.5", "127.0.0.1", "::1"].map(|text| text.parse().unwrap()).into();
        assert_eq!(parse(trie, inet6), expected);
        assert!(read().0.contains(&"127.0.0.1".parse().unwrap()));
    }
}
