//! Names and the made-up addresses that stand for them in one box.
//!
//! The address of a name depends on the name alone, unless two names of a box collide. So a program
//! that kept an address reaches the same name after a restart of the server, once a program of the
//! box has looked the name up again. An address is never given to a second name.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use stead_core::network::HostName;

/// Which of the two ranges a name gets its address from. It only tells people what to expect: the
/// connection is judged by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// From 198.18.0.0/16.
    Allowed,
    /// From 198.19.0.0/16.
    Refused,
}

/// The first addresses of a range have other uses: the box has 198.18.0.1.
const RESERVED: u32 = 256;
const RANGE: u32 = 1 << 16;

/// The names that a box has looked up.
#[derive(Debug, Default)]
pub struct Names {
    addresses: HashMap<HostName, Ipv4Addr>,
    names: HashMap<Ipv4Addr, HostName>,
}

impl Names {
    /// Returns the address of a name. `None` if the box has `most` names already.
    pub fn address(&mut self, name: &HostName, expected: Expected, most: u64) -> Option<Ipv4Addr> {
        if let Some(known) = self.addresses.get(name) {
            return Some(*known);
        }
        // Half of a range stays free, so that the search for a free address is short.
        if self.names.len() as u64 >= most.min(u64::from(RANGE / 2)) {
            return None;
        }
        let second = match expected {
            Expected::Allowed => 18,
            Expected::Refused => 19,
        };
        let places = RANGE - RESERVED;
        let start = hash(name.as_str()) % places;
        let address = (0..places).map(|step| {
            let [_, _, high, low] = (RESERVED + (start + step) % places).to_be_bytes();
            Ipv4Addr::new(198, second, high, low)
        });
        let free = address.into_iter().find(|address| !self.names.contains_key(address))?;
        self.addresses.insert(name.clone(), free);
        self.names.insert(free, name.clone());
        Some(free)
    }

    /// Returns the name that an address stands for.
    pub fn name(&self, address: Ipv4Addr) -> Option<&HostName> {
        self.names.get(&address)
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }
}

/// Returns true if an address is from the ranges of made-up addresses.
pub fn is_made_up(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [198, 18 | 19, ..])
}

/// FNV-1a: short, and the same in every version.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostName {
        name.parse().unwrap()
    }

    #[test]
    fn an_address_means_one_name_and_stays() {
        let mut names = Names::default();
        let mut given = Vec::new();
        for number in 0..4_096 {
            let name = host(&format!("n{number}.example"));
            let address = names.address(&name, Expected::Allowed, 4_096).unwrap();
            assert!(is_made_up(address) && address.octets()[1] == 18 && address != Ipv4Addr::new(198, 18, 0, 1));
            assert_eq!(names.name(address), Some(&name));
            given.push((name, address));
        }
        for (name, address) in &given {
            assert_eq!(names.address(name, Expected::Refused, 0), Some(*address));
        }
        assert_eq!(names.address(&host("one.more.example"), Expected::Allowed, 4_096), None);
    }

    #[test]
    fn a_new_box_gives_a_name_its_old_address() {
        let (mut one, mut other) = (Names::default(), Names::default());
        one.address(&host("first.example"), Expected::Allowed, 10);
        let (name, expected) = (host("api.example"), Expected::Refused);
        assert_eq!(one.address(&name, expected, 10), other.address(&name, expected, 10));
        assert_eq!(other.address(&name, expected, 10).unwrap().octets()[1], 19);
    }
}
