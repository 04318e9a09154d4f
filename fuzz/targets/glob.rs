//! `glob` and `grep` over a tree built from the input. Fields: flags, pattern, regular expression,
//! then one file per line.
//!
//! For any pattern, answers are sorted, exist and are inside, and a limited answer is a prefix of
//! the whole one. For patterns of plain segments, `*`, `?` and `**`, the answer equals that of a
//! simple reference matcher.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use regex::bytes::RegexBuilder;
use stead_fs::{
    Case, Filesystem, GlobQuery, GrepFound, GrepMode, GrepQuery, Hidden, Ignoring, Kind, LineSpan, MemoryFs,
    WorkspacePath, WriteMode,
};
use stead_fuzz::{contents, fields, path};

fuzz_target!(|input: &[u8]| {
    let [flags, pattern, regex, files] = fields::<4>(input);
    let flags = flags.first().copied().unwrap_or_default();
    let (Ok(pattern), Ok(regex)) = (std::str::from_utf8(pattern), std::str::from_utf8(regex)) else { return };
    let fs = tree(files);
    let found = contents(&fs);
    let hidden = if flags & 1 == 1 { Hidden::Included } else { Hidden::Skipped };
    let below = if flags & 2 == 2 { path("a") } else { path("/") };
    // Compiling a pattern under coverage is slow, so each input runs only one kind of search.
    if flags & 4 == 0 {
        check_glob(&fs, &found, pattern, &below, hidden);
    } else {
        check_grep(&fs, &found, pattern, regex, hidden);
    }
});

fn tree(files: &[u8]) -> MemoryFs {
    let mut fs = MemoryFs::new();
    fs.mkdir(&path("a"), 0).expect("an empty tree takes a directory");
    for line in files.split(|byte| *byte == b'\n').take(32) {
        if let Ok(file) = WorkspacePath::from_segments(line.split(|byte| *byte == b'/')) {
            // A file may conflict with another or be too deep; the checks below use the files that
            // exist.
            let content: Vec<u8> = line.iter().map(|byte| if *byte == b'/' { b'\n' } else { *byte }).collect();
            let _ = fs.write_bytes(&file, content.into(), WriteMode::Overwrite, 0);
        }
    }
    fs
}

fn check_glob(
    fs: &MemoryFs,
    tree: &BTreeMap<WorkspacePath, Kind>,
    pattern: &str,
    below: &WorkspacePath,
    hidden: Hidden,
) {
    let ask = |limit, ignoring| {
        let query = GlobQuery { path: below.clone(), pattern: pattern.to_owned(), hidden, ignoring, limit };
        fs.glob(&query)
    };
    let whole = match ask(usize::MAX, Ignoring::Nothing) {
        Ok(whole) => whole,
        Err(error) => {
            assert_eq!(ask(1, Ignoring::Nothing).map_err(|error| error.code()), Err(error.code()));
            return;
        }
    };
    assert!(!whole.truncated);
    assert!(whole.paths.is_sorted_by(|a, b| a < b), "{pattern:?}: {:?}", whole.paths);
    for path in &whole.paths {
        assert_eq!(tree.get(path), Some(&Kind::File), "{pattern:?} found {path}");
        assert!(path.is_within(below));
    }
    let capped = ask(2, Ignoring::Nothing).expect("it worked without the cap");
    assert_eq!(capped.paths, whole.paths[..whole.paths.len().min(2)]);
    assert_eq!(capped.truncated, whole.paths.len() > 2);
    let git = tree.keys().any(|path| path.segments().any(|name| name.starts_with(b".git")));
    if !git {
        // This variant does not jump to the directory that a pattern spells out.
        assert_eq!(ask(usize::MAX, Ignoring::GitIgnore).expect("the same"), whole, "{pattern:?}");
    }
    if let Some(simple) = simple(pattern) {
        let names_hidden = simple.iter().any(|segment| segment.starts_with(b"."));
        let visible = |path: &WorkspacePath| {
            names_hidden || hidden == Hidden::Included || !path.segments().any(|name| name.starts_with(b"."))
        };
        let files = tree.iter().filter(|(_, kind)| **kind == Kind::File).map(|(path, _)| path);
        let expected: Vec<WorkspacePath> = files
            .filter(|path| path.below(below).is_some_and(|path| visible(&path) && matches(&simple, &path)))
            .cloned()
            .collect();
        assert_eq!(whole.paths, expected, "{pattern:?}");
    }
}

/// Returns the segments if the reference matcher supports the pattern: no classes, alternatives or
/// escapes, and `**` only as a whole segment.
fn simple(pattern: &str) -> Option<Vec<&[u8]>> {
    let pattern = pattern.trim_start_matches('/');
    if !pattern.is_ascii() || pattern.is_empty() || pattern.contains(['[', ']', '{', '}', '\\', '!', ',']) {
        return None;
    }
    let segments: Vec<&[u8]> = pattern.as_bytes().split(|byte| *byte == b'/').collect();
    let good =
        |segment: &&[u8]| !segment.is_empty() && (*segment == b"**" || !segment.windows(2).any(|pair| pair == b"**"));
    segments.iter().all(good).then_some(segments)
}

fn matches(pattern: &[&[u8]], path: &WorkspacePath) -> bool {
    let names: Vec<&[u8]> = path.segments().collect();
    segments_match(pattern, &names)
}

fn segments_match(pattern: &[&[u8]], names: &[&[u8]]) -> bool {
    match (pattern, names) {
        ([], []) => true,
        // At the end, `**` matches everything inside, but at least one name.
        ([b"**"], _) => !names.is_empty(),
        ([b"**", rest @ ..], _) => (0..=names.len()).any(|skipped| segments_match(rest, &names[skipped..])),
        ([first, rest @ ..], [name, names @ ..]) => name_matches(first, name) && segments_match(rest, names),
        _ => false,
    }
}

fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| name_matches(rest, &name[taken..])),
        ([b'?', rest @ ..], _) => one_character(name).is_some_and(|after| name_matches(rest, after)),
        ([first, rest @ ..], [byte, name @ ..]) => first == byte && name_matches(rest, name),
        _ => false,
    }
}

/// Returns the rest of a name after its first character.
fn one_character(name: &[u8]) -> Option<&[u8]> {
    (1..=name.len().min(4)).find(|length| std::str::from_utf8(&name[..*length]).is_ok()).map(|length| &name[length..])
}

fn check_grep(fs: &MemoryFs, tree: &BTreeMap<WorkspacePath, Kind>, glob: &str, regex: &str, hidden: Hidden) {
    let ask = |limit, glob: Option<&str>| {
        fs.grep(&GrepQuery {
            path: path("/"),
            pattern: regex.to_owned(),
            glob: glob.map(str::to_owned),
            file_type: None,
            mode: GrepMode::Content { before: 0, after: 0 },
            span: LineSpan::One,
            hidden,
            ignoring: Ignoring::Nothing,
            case: Case::Sensitive,
            limit,
        })
    };
    let Ok(whole) = ask(1_000, None) else { return };
    let places: Vec<_> = whole.matches.iter().map(|found| (&found.path, found.line)).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{regex:?}: {places:?}");
    assert!(places.iter().all(|(path, _)| tree.get(*path) == Some(&Kind::File)));
    check_lines(fs, tree, regex, hidden, &whole);
    let capped = ask(2, None).expect("it worked without the cap");
    assert_eq!(capped.matches, whole.matches[..whole.matches.len().min(2)]);
    assert_eq!(capped.truncated, whole.matches.len() > 2);
    if let Ok(filtered) = ask(1_000, Some(glob)) {
        // A pattern that names hidden files finds them too; there is no other new match.
        let new = filtered.matches.iter().find(|found| !whole.matches.contains(found));
        assert!(new.is_none_or(|found| found.path.segments().any(|name| name.starts_with(b"."))), "{new:?}");
    }
}

/// Compares the matches with those of the same expression line by line. Carriage returns and text
/// anchors are excluded.
fn check_lines(fs: &MemoryFs, tree: &BTreeMap<WorkspacePath, Kind>, regex: &str, hidden: Hidden, found: &GrepFound) {
    let reference = RegexBuilder::new(regex).multi_line(true).crlf(true).build();
    let Ok(reference) = reference else { return };
    if ["\\A", "\\z", "\\r", "\r", "\\x", "\\u", "(?"].iter().any(|part| regex.contains(part)) {
        return;
    }
    for (path, _) in tree.iter().filter(|(_, kind)| **kind == Kind::File) {
        let content = fs.read_bytes(path).expect("a walked file can be read");
        let skipped = hidden == Hidden::Skipped && path.segments().any(|name| name.starts_with(b"."));
        // A byte order mark selects the encoding, which the searcher respects.
        let marked = [&b"\xfe\xff"[..], b"\xff\xfe", b"\xef\xbb\xbf"].iter().any(|mark| content.starts_with(mark));
        if content.contains(&b'\r') || marked || skipped {
            continue;
        }
        let lines = content.strip_suffix(b"\n").unwrap_or(&content).split(|byte| *byte == b'\n').zip(1..);
        let expected: Vec<u64> = lines.filter(|(line, _)| reference.is_match(line)).map(|(_, number)| number).collect();
        let here = found.matches.iter().filter(|found| found.path == *path).map(|found| found.line);
        assert_eq!(here.collect::<Vec<_>>(), expected, "{regex:?} in {path}: {content:?}");
    }
}
