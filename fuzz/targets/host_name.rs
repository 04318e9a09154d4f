//! Host names: a name has one spelling, which is safe in a log, and survives a round trip.
#![no_main]

use core::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use stead_core::network::{Destination, HostName, ServiceName, Target};

fuzz_target!(|input: &[u8]| {
    let Ok(name) = HostName::from_bytes(input) else {
        // What the parser refuses is refused as text too.
        if let Ok(text) = std::str::from_utf8(input) {
            assert!(text.parse::<HostName>().is_err());
        }
        return;
    };
    let text = name.as_str();
    assert!(!text.is_empty() && text.len() <= 253 && !text.ends_with('.'));
    assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)));
    assert!(text.split('.').all(|label| (1..=63).contains(&label.len())));
    assert!(text.parse::<IpAddr>().is_err(), "a name is not an address");
    assert_eq!(text.parse::<HostName>().as_ref(), Ok(&name));
    assert_eq!(text.to_ascii_uppercase().parse::<HostName>().as_ref(), Ok(&name));
    assert_eq!(format!("{text}.").parse::<HostName>().as_ref(), Ok(&name));
    assert!(!name.is_below(&name));
    if let Ok(child) = format!("x.{text}").parse::<HostName>() {
        assert!(child.is_below(&name) && !name.is_below(&child));
    }
    if let Ok(other) = format!("x{text}").parse::<HostName>() {
        assert!(!other.is_below(&name));
    }
    assert_eq!(text.parse::<Target>(), Ok(Target::Name(name.clone())));
    match Destination::of_host(name.clone()) {
        None => assert!(ServiceName::is_reserved(&name)),
        Some(Destination::Service(service)) => assert_eq!(service.host(), text),
        Some(destination) => assert_eq!(destination, Destination::Name(name)),
    }
});
