//! `Host` headers: each names one door, nothing, or another host, and a door's own name reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stead_core::session::door_host::{NamedHost, read_host};

const DOMAIN: &str = "preview.example";

fuzz_target!(|input: &[u8]| {
    let Ok(host) = std::str::from_utf8(input) else { return };
    for domain in [None, Some(DOMAIN)] {
        let lower = host.to_ascii_lowercase();
        assert_eq!(read_host(host, 7717, domain), read_host(&lower, 7717, domain), "case changes nothing");
        match read_host(host, 7717, domain) {
            NamedHost::Door(door) => {
                assert!(door.port > 0);
                let local = format!("{}.localhost:7717", door.label());
                assert_eq!(read_host(&local, 7717, domain), NamedHost::Door(door));
                // No other spelling of the label leads to the same door.
                assert!(lower.starts_with(&format!("{}.", door.label())), "{host}");
                let name = lower.split(':').next().unwrap_or_default();
                let below = name.ends_with(".localhost") || (domain.is_some() && name.ends_with(".preview.example"));
                assert!(below, "{host}");
            }
            // The API accepts neither.
            NamedHost::Nothing => assert!(lower != "localhost:7717" && lower != DOMAIN, "{host}"),
            NamedHost::Other => assert!(!lower.ends_with(".localhost"), "{host}"),
        }
    }
});
