//! Decides which addresses a name may resolve to.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::refusal::RefusalCode;
use crate::parse::words;
use crate::remote::is_public;

words!(
    /// The addresses that an allowed name may resolve to.
    AddressReach, "address reach", {
        Public = "public",
        /// Also private, shared and unique-local addresses.
        Private = "private",
        /// Also loopback: the address of a service, which the operator wrote.
        Operator = "operator",
    }
);

/// The addresses of the server's own machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnAddresses(pub Vec<IpAddr>);

/// Metadata services of clouds. They hand out credentials of the machine.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

enum Class {
    Public,
    Private,
    Loopback,
    Refused,
}

/// Judges one address. An IPv4 address inside an IPv6 address is judged as the IPv4 address.
pub fn judge_address(address: IpAddr, reach: AddressReach, own: &OwnAddresses) -> Result<(), RefusalCode> {
    let address = carried(address);
    let class = classify(address);
    let is_own = || own.0.iter().any(|own| carried(*own) == address);
    match (class, reach) {
        (Class::Refused, _) => Err(RefusalCode::AddressRefused),
        (_, AddressReach::Operator) => Ok(()),
        (Class::Loopback, _) => Err(RefusalCode::AddressRefused),
        _ if is_own() => Err(RefusalCode::OwnAddress),
        (Class::Private, AddressReach::Public) => Err(RefusalCode::PrivateAddress),
        (Class::Private | Class::Public, _) => Ok(()),
    }
}

/// Returns the IPv4 address that packets to an IPv6 address reach: IPv4-mapped, NAT64, 6to4, ISATAP
/// and Teredo.
fn carried(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let of = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => of(high, low),
        // Teredo stores the address of the client inverted.
        [0x2001, 0, _, _, _, _, high, low] => of(!high, !low),
        _ => address,
    }
}

fn classify(address: IpAddr) -> Class {
    if METADATA.contains(&address) {
        return Class::Refused;
    }
    let (private, loopback) = match address {
        IpAddr::V4(v4) => (v4.is_private() || is_shared(v4), v4.is_loopback()),
        IpAddr::V6(v6) => (v6.is_unique_local(), v6.is_loopback()),
    };
    match () {
        () if loopback => Class::Loopback,
        () if private => Class::Private,
        () if is_public(address) => Class::Public,
        () => Class::Refused,
    }
}

/// 100.64.0.0/10, the address space that carriers share.
fn is_shared(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [100, 64..=127, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(address: &str, reach: AddressReach) -> Result<(), RefusalCode> {
        let own = OwnAddresses(vec!["93.184.216.1".parse().unwrap(), "10.0.0.1".parse().unwrap()]);
        judge_address(address.parse().unwrap(), reach, &own)
    }

    #[test]
    fn metadata_addresses_are_refused() {
        for address in [
            "169.254.169.254",
            "169.254.0.1",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "ff02::1",
            "198.18.0.1",
            "192.0.2.1",
            "2001:db8::1",
            "::127.0.0.1",
            "0.1.2.3",
            "64:ff9b:1::1",
            "fec0::1",
        ] {
            for reach in AddressReach::ALL {
                assert_eq!(judged(address, *reach), Err(RefusalCode::AddressRefused), "{address} {reach}");
            }
        }
    }

    #[test]
    fn loopback_is_only_for_services() {
        for address in ["127.0.0.1", "127.255.255.1", "::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1"] {
            assert_eq!(judged(address, AddressReach::Private), Err(RefusalCode::AddressRefused), "{address}");
            assert_eq!(judged(address, AddressReach::Operator), Ok(()), "{address}");
        }
    }

    #[test]
    fn private_addresses_need_permission() {
        // The Teredo address has 10.0.0.2 as its client.
        let teredo = "2001:0:5db8:d801:0:ffff:f5ff:fffd";
        for address in ["10.0.0.2", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.2", teredo] {
            assert_eq!(judged(address, AddressReach::Public), Err(RefusalCode::PrivateAddress), "{address}");
            assert_eq!(judged(address, AddressReach::Private), Ok(()), "{address}");
        }
        for address in ["93.184.216.34", "2606:2800::1", "::ffff:93.184.216.34", "2002:5db8:d822::1"] {
            assert_eq!(judged(address, AddressReach::Public), Ok(()), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_server_are_refused() {
        for address in ["93.184.216.1", "::ffff:93.184.216.1", "2002:5db8:d801::1", "10.0.0.1"] {
            assert_eq!(judged(address, AddressReach::Private), Err(RefusalCode::OwnAddress), "{address}");
        }
    }
}
