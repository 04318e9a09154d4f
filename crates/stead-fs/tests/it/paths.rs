//! The path rules and their error texts.

use stead_fs::{Limits, PathRules, WorkspacePath};

fn check(text: &str, expected: Result<&str, &str>) {
    let parsed = WorkspacePath::parse(text, &PathRules::creating(&Limits::default()));
    let shown = parsed.map(|path| path.to_string()).map_err(|error| error.to_string());
    assert_eq!(shown, expected.map(str::to_owned).map_err(str::to_owned), "{text:?}");
}

#[test]
fn rules_and_texts() {
    check("a/b.txt", Ok("a/b.txt"));
    check("//a///b", Ok("a/b"));
    check("/a/b/", Ok("a/b"));
    check(" a / b ", Ok("a/b"));
    check("", Ok("/"));
    check("/", Ok("/"));
    check("/workspace", Ok("/"));
    check("/workspace/src/x", Ok("src/x"));
    check("//workspace//x", Ok("x"));
    check("workspace/x", Ok("workspace/x"));
    check("/workspaces/x", Ok("workspaces/x"));
    check("/workspace/workspace/x", Ok("workspace/x"));
    check("../x", Err("Path segments may not include '.' or '..'."));
    check("a/./b", Err("Path segments may not include '.' or '..'."));
    check("a/ .. /b", Err("Path segments may not include '.' or '..'."));
    check("/workspace/../etc", Err("Path segments may not include '.' or '..'."));
    check("...", Ok("..."));
    check("ä.txt", Err("Path segment must be ASCII text."));
    check("a\0b", Err("Path segments may not include control characters."));
    check("a\nb", Err("Path segments may not include control characters."));
    check(&"x".repeat(80), Ok(&"x".repeat(80)));
    check(&"x".repeat(81), Err("Path segments must be 80 characters or fewer."));
    check(&["d"; 16].join("/"), Ok(&["d"; 16].join("/")));
    check(&["d"; 17].join("/"), Err("Path depth exceeds the allowed limit (16 segments)."));
    check(&"x/".repeat(60_000), Err("Path must be 65536 bytes or fewer."));
}

#[test]
fn existing_names_may_be_anything() {
    for text in ["ä/ö", &"x".repeat(200), &["d"; 300].join("/"), " a ", "line\nbreak"] {
        let path: WorkspacePath = text.parse().unwrap();
        assert_eq!(path.to_string(), *text);
    }
}

#[test]
fn names_that_are_no_text_have_a_text_form_that_parses_back() {
    let check = |name: &[u8], shown: &str| {
        let path = WorkspacePath::from_segments([name]).unwrap();
        assert_eq!(path.to_string(), shown);
        assert_eq!(shown.parse::<WorkspacePath>().unwrap(), path);
    };
    check(b"a\xff.txt", r"a\xff.txt");
    check(br"a\xff.txt", r"a\x5cxff.txt");
    check(br"a\x5cxff", r"a\x5cx5cxff");
    check(br"C:\x", r"C:\x");
    check(br"a\x41", r"a\x41");
    check("ä\\".as_bytes(), "ä\\");
    // An escape cannot produce a separator or a climb.
    assert_eq!(r"a\x2f\x2e\x2e".parse::<WorkspacePath>().unwrap().depth(), 1);
}

#[test]
fn relations() {
    let path = |text: &str| text.parse::<WorkspacePath>().unwrap();
    assert_eq!(path("a/b/c").parent(), Some(path("a/b")));
    assert_eq!(path("a").parent(), Some(WorkspacePath::root()));
    assert_eq!(WorkspacePath::root().parent(), None);
    assert!(path("a/b").is_within(&path("a")));
    assert!(!path("ab").is_within(&path("a")));
    assert_eq!(path("a/b/c").below(&path("a")), Some(path("b/c")));
    assert_eq!(path("a").descend(&path("b")), path("a/b"));
    assert!(path("a").join(b"..").is_err());
    assert!(path("a").join(b"x/y").is_err());
}

#[test]
fn the_text_of_a_long_path_parses_back() {
    let name = vec![0xe9; 200];
    let path = WorkspacePath::from_segments(std::iter::repeat_n(name.as_slice(), 300)).unwrap();
    assert_eq!(path.to_string().parse::<WorkspacePath>().unwrap(), path);
    assert!("d/".repeat(64 * 1024).parse::<WorkspacePath>().is_err());
}
