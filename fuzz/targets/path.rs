//! Paths in the form an agent writes them and in the form of a disk: they stay inside and survive a
//! round trip through text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stead_fs::{Limits, PathRules, WorkspacePath};

fuzz_target!(|input: &[u8]| {
    if let Ok(path) = WorkspacePath::from_segments(input.split(|byte| *byte == b'/')) {
        assert_eq!(path.as_bytes(), input, "a path is its segments");
        check(&path);
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let trimmed = WorkspacePath::parse(text, &PathRules::existing().trimmed());
    if let Ok(path) = WorkspacePath::parse(text, &PathRules::existing()) {
        check(&path);
        assert!(!path.as_bytes().is_empty() || text.split('/').all(|part| part.is_empty() || part == "workspace"));
    }
    if let Ok(path) = &trimmed {
        check(path);
    }
    let limits = Limits::default();
    if let Ok(path) = WorkspacePath::parse(text, &PathRules::creating(&limits)) {
        assert_eq!(trimmed.as_ref(), Ok(&path), "what may be created may be looked up");
        assert!(path.depth() <= limits.path_depth);
        assert!(path.segments().all(|name| name.len() <= limits.segment_bytes));
        assert!(path.as_bytes().is_ascii() && !path.as_bytes().iter().any(u8::is_ascii_control));
    }
});

fn check(path: &WorkspacePath) {
    for segment in path.segments() {
        assert!(!matches!(segment, b"" | b"." | b"..") && !segment.contains(&0), "{path}");
    }
    assert!(!path.as_bytes().starts_with(b"/") && !path.as_bytes().ends_with(b"/"));
    assert_eq!(path.segments().count(), path.depth());
    let text = path.to_string();
    assert_eq!(text.parse().as_ref(), Ok(path), "{text:?} is another path");
    let json = serde_json::to_string(path).expect("a path is a string");
    assert_eq!(serde_json::from_str::<WorkspacePath>(&json).expect("and reads as one"), *path);
    if let (Some(parent), Some(name)) = (path.parent(), path.name()) {
        assert_eq!(parent.join(name).as_ref(), Ok(path));
        assert!(path.is_within(&parent) && !parent.is_within(path));
        let below = path.below(&parent).expect("it is below its parent");
        assert_eq!(parent.descend(&below), *path);
    } else {
        assert!(path.is_root());
    }
}
