//! Repository URLs that the platform's lists allow, judged by their text alone.

use stead_core::remote::{GitGate, RepositoryRefused, is_public};

fn refusal(gate: &GitGate, url: &str) -> Option<&'static str> {
    let url = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
    gate.judge(&url).err().map(|refused| match refused {
        RepositoryRefused::Host { .. } => "host",
        RepositoryRefused::PlainHttp { .. } => "http",
        RepositoryRefused::Private { .. } => "private",
        RepositoryRefused::Local { .. } => "local",
    })
}

#[test]
fn nothing_private_without_the_platforms_word() {
    let gate = GitGate::default();
    for (url, expect) in [
        ("https://github.com/a/b", None),
        ("https://github.com:8443/a/b", None),
        ("ssh://git@github.com/a/b", None),
        ("git@github.com:a/b.git", None),
        ("https://[2606:4700::1]/a", None),
        ("http://github.com/a/b", Some("http")),
        ("https://localhost/a", Some("private")),
        ("https://LOCALHOST./a", Some("private")),
        ("https://x.localhost/a", Some("private")),
        ("https://metadata.google.internal/a", Some("private")),
        ("https://127.0.0.1/a", Some("private")),
        ("https://127.1/a", Some("private")),
        ("https://0x7f000001/a", Some("private")),
        ("https://2130706433/a", Some("private")),
        ("https://169.254.169.254/latest", Some("private")),
        ("https://10.0.0.1:444/a", Some("private")),
        ("https://[::1]/a", Some("private")),
        ("https://[::ffff:10.0.0.1]/a", Some("private")),
        ("https://[64:ff9b::7f00:1]/a", Some("private")),
        ("https://[fe80::1]/a", Some("private")),
        ("ssh://git@192.168.1.1/a", Some("private")),
        ("git@127.0.0.1:a", Some("private")),
        ("https://a:b/c", Some("host")),
        ("https://a%2eb/c", Some("host")),
        ("https://a\\b/c", Some("host")),
        ("https://a?b/c", Some("host")),
        ("https://a#b/c", Some("host")),
        ("/srv/repo", Some("local")),
        ("file:///srv/repo", Some("local")),
    ] {
        assert_eq!(refusal(&gate, url), expect, "{url}");
    }
}

#[test]
fn the_platform_opens_hosts_and_roots() {
    let gate = GitGate { hosts: vec!["127.0.0.1".into(), "Git.Lan:81".into()], roots: vec!["/srv/".into()] };
    for (url, expect) in [
        ("http://127.0.0.1:4000/a", None),
        ("ssh://127.0.0.1:22/a", None),
        ("http://git.lan:81/a", None),
        ("http://git.lan/a", Some("http")),
        ("http://git.lan:82/a", Some("http")),
        ("file:///srv/repo", None),
        ("/srv", None),
        ("/srvx/repo", Some("local")),
        ("/srv/../etc", Some("local")),
    ] {
        assert_eq!(refusal(&gate, url), expect, "{url}");
    }
}

/// The first and last address of each network in the IANA special-purpose registries, cloud
/// metadata services, and IPv6 forms that embed or tunnel such addresses.
#[test]
fn special_purpose_addresses_are_not_public() {
    for (name, addresses) in [
        ("this network", &["0.0.0.0", "0.255.255.255"][..]),
        ("private", &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"]),
        ("shared", &["100.64.0.0", "100.127.255.255"]),
        ("loopback", &["127.0.0.1", "127.255.255.255", "::1"]),
        ("link-local", &["169.254.0.0", "169.254.255.255", "fe80::1", "febf:ffff::"]),
        ("protocol assignments", &["192.0.0.0", "192.0.0.8", "192.0.0.9", "192.0.0.255"]),
        (
            "documentation",
            &["192.0.2.0", "192.0.2.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255"],
        ),
        ("documentation, IPv6", &["2001:db8::", "2001:db8:ffff::1", "3fff::", "3fff:fff:ffff::1"]),
        ("6to4 relays", &["192.88.99.0", "192.88.99.1", "192.88.99.255"]),
        ("AS112", &["192.31.196.1", "192.175.48.1", "2620:4f:8000::1"]),
        ("AMT", &["192.52.193.1", "2001:3::1"]),
        ("benchmarking", &["198.18.0.0", "198.19.255.255", "2001:2::1"]),
        ("multicast", &["224.0.0.1", "239.255.255.255", "ff02::1"]),
        ("reserved", &["240.0.0.0", "255.255.255.254", "255.255.255.255"]),
        (
            "cloud metadata",
            &["169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"],
        ),
        ("unspecified", &["::"]),
        ("IPv4-mapped", &["::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:168.63.129.16"]),
        ("IPv4-compatible", &["::10.0.0.1", "::8.8.8.8"]),
        ("NAT64", &["64:ff9b::a00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9b:1:ffff::1"]),
        ("discard", &["100::1", "100:0:0:1::1"]),
        ("Teredo", &["2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"]),
        ("ORCHID", &["2001:10::1", "2001:1f:ffff::1", "2001:20::1", "2001:2f:ffff::1"]),
        ("other protocol assignments", &["2001:1::1", "2001:4:112::1", "2001:30::1", "2001:1ff:ffff::1"]),
        ("6to4 of a private address", &["2002:a00:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:a83f:8110::1"]),
        ("ISATAP of a private address", &["2a00:1450::5efe:10.0.0.1", "2a00:1450::200:5efe:192.168.0.1"]),
        ("segment routing", &["5f00::1"]),
        ("unique local", &["fc00::1", "fdff:ffff::1"]),
        ("site-local", &["fec0::1"]),
        ("not assigned", &["4000::1", "8000::1"]),
    ] {
        for address in addresses {
            assert!(!is_public(address.parse().unwrap()), "{name}: {address}");
        }
    }
    // Control: the neighbours of those networks, and ordinary hosts.
    for address in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "8.8.8.8",
        "140.82.121.3",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2001:200::1",
        "2001:db7::1",
        "2001:db9::1",
        "2002:808:808::1",
        "2606:50c0:8000::153",
        "2a00:1450::1",
        "3ffe:ffff::1",
        "3fff:1000::1",
        "2a00:1450::5efe:8.8.8.8",
    ] {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
}
