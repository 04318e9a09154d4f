//! Tells public IP addresses from all others.
//!
//! The tables follow the IANA special-purpose address registries. They also contain addresses that
//! cloud providers use inside their own networks.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not public, as address and prefix length.
const PRIVATE_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // "this network"
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private use
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // shared address space, and the metadata service of Alibaba Cloud
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // the host of an Azure virtual machine
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, and most metadata services
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private use
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // IETF protocol assignments, and a metadata service of Oracle Cloud
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24),  // AS112 anycast: packets go to the nearest AS112 server
    (Ipv4Addr::new(192, 52, 193, 0), 24),  // automatic multicast tunnelling
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays, deprecated
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private use
    (Ipv4Addr::new(192, 175, 48, 0), 24),  // AS112 direct delegation
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, and broadcast
];

/// Global unicast is 2000::/3. These networks inside it are not public.
const PRIVATE_V6: &[(Ipv6Addr, u32)] = &[
    // IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, DRIP.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112 direct delegation
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),     // documentation
];

const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Returns true if an address is on the public network. Loopback, private, link-local, shared,
/// reserved and multicast addresses are not, and neither are tunnels to them.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Embedded::InPlace(inner) => public_v4(inner),
            Embedded::Within(inner) => public_v4(inner) && public_v6(address),
            Embedded::Nothing => public_v6(address),
        },
    }
}

fn public_v4(address: Ipv4Addr) -> bool {
    !PRIVATE_V4.iter().any(|(network, length)| {
        let shift = 32 - length;
        address.to_bits() >> shift == network.to_bits() >> shift
    })
}

fn public_v6(address: Ipv6Addr) -> bool {
    let within = |(network, length): &(Ipv6Addr, u32)| {
        let shift = 128 - length;
        address.to_bits() >> shift == network.to_bits() >> shift
    };
    within(&GLOBAL_UNICAST) && !PRIVATE_V6.iter().any(within)
}

/// An IPv4 address that packets to an IPv6 address may reach.
enum Embedded {
    /// The IPv6 address is only a notation for it: IPv4-mapped, or NAT64.
    InPlace(Ipv4Addr),
    /// The IPv6 address is a tunnel: 6to4 or ISATAP.
    Within(Ipv4Addr),
    Nothing,
}

fn embedded(address: Ipv6Addr) -> Embedded {
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Embedded::InPlace(of(high, low)),
        [0x2002, high, low, ..] | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Embedded::Within(of(high, low)),
        _ => Embedded::Nothing,
    }
}
