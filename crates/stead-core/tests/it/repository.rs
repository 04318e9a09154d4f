//! Strings that may become git arguments.

use stead_core::repository::{GitRef, RepositoryUrl};

#[test]
fn urls_git_may_see() {
    for good in [
        "https://git.example.org/a/b.git",
        "http://localhost:3000/a",
        "ssh://git@git.example.org/a",
        "ssh://git.example.org:2222/a",
        "git@git.example.org:a/b.git",
        "/srv/repos/a",
        "file:///srv/repos/a",
    ] {
        assert!(good.parse::<RepositoryUrl>().is_ok(), "{good}");
    }
}

#[test]
fn urls_git_must_not_see() {
    for bad in [
        "",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x",
        "ext::sh -c touch% /tmp/x",
        "ext::x",
        "fd::17/foo",
        "git::https://x",
        "ftp://a/b",
        "git://a/b",
        "https://",
        "https:///a",
        "https://-oProxyCommand=x/a",
        "ssh://-oProxyCommand=x/a",
        "ssh://git@-oProxyCommand=x/a",
        "https://token@git.example.org/a",
        "https://user:secret@git.example.org/a",
        "ssh://git:secret@git.example.org/a",
        "-a@b:c",
        "a@-b:c",
        "a@b:-c",
        "a b",
        "https://a/b\nc",
        "relative/path",
        "file://host/a",
        "C:\\a",
    ] {
        assert!(bad.parse::<RepositoryUrl>().is_err(), "{bad}");
    }
}

#[test]
fn refs() {
    for good in ["main", "feature/auth", "v1.2.3", "0123abcd", "a@b"] {
        assert!(good.parse::<GitRef>().is_ok(), "{good}");
    }
    for bad in [
        "", "-b", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "/a", "a/", "a//b", ".a", "a/.b",
        "a.lock", "a.", "@", "a@{1}", "a\u{7f}",
    ] {
        assert!(bad.parse::<GitRef>().is_err(), "{bad}");
    }
}
