//! Which repository URLs the platform's lists let through, told from the text alone.

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

#[test]
fn public_is_what_is_left() {
    for (address, expect) in [
        ("8.8.8.8", true),
        ("100.64.0.1", false),
        ("192.0.0.8", false),
        ("198.18.0.1", false),
        ("0.0.0.0", false),
        ("255.255.255.255", false),
        ("2001:db8::1", false),
        ("fd00::1", false),
        ("2002:7f00:1::", false),
        ("2a00:1450::1", true),
    ] {
        assert_eq!(is_public(address.parse().unwrap()), expect, "{address}");
    }
}
