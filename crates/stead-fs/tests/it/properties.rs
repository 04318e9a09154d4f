//! Properties of all inputs. `STEAD_FS_OPS` sets the number of operations on which the backends are
//! compared (default 1,000).

use std::io::Cursor;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use serde_json::{Value, json};
use stead_fs::archive::{ArchiveFormat, ArchiveLimits, export_tar, unpack};
use stead_fs::tools::{FileTool, ToolError};
use stead_fs::{
    Case, Change, Filesystem, FsError, GlobQuery, GrepMode, GrepQuery, Hidden, Ignoring, LineSpan, MemoryFs,
    Permission, Recursion, WorkspacePath, WriteMode,
};

use crate::harness::{NOW, call, disk, path};

/// Average number of operations in one sequence.
const SEQUENCE: u32 = 40;

fn sequences() -> Config {
    let operations = std::env::var("STEAD_FS_OPS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000);
    Config { cases: (operations / SEQUENCE).max(1), failure_persistence: None, ..Config::default() }
}

#[derive(Debug, Clone)]
enum Operation {
    Write(WorkspacePath, String, WriteMode),
    Mkdir(WorkspacePath),
    Symlink(WorkspacePath, String),
    Permit(WorkspacePath, Permission),
    Delete(WorkspacePath, Recursion),
    Rename(WorkspacePath, WorkspacePath),
    Edit(WorkspacePath, String, String),
    Look(WorkspacePath),
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("a.b"), Just("a-b")]
}

fn some_path() -> impl Strategy<Value = WorkspacePath> {
    vec(name(), 0..4).prop_map(|names| path(&names.join("/")))
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![Just(WriteMode::Create), Just(WriteMode::Overwrite), Just(WriteMode::Append)];
    let target = prop_oneof![
        vec(prop_oneof![name().boxed(), Just("..").boxed(), Just(".").boxed()], 1..4).prop_map(|names| names.join("/")),
        Just("/etc/hostname".to_owned()),
    ];
    let permission = prop_oneof![Just(Permission::Plain), Just(Permission::Executable)];
    let recursion = prop_oneof![Just(Recursion::Recursive), Just(Recursion::EmptyOnly)];
    prop_oneof![
        4 => (some_path(), "[ab\n]{0,6}", mode).prop_map(|(path, text, mode)| Operation::Write(path, text, mode)),
        1 => some_path().prop_map(Operation::Mkdir),
        2 => (some_path(), target).prop_map(|(path, target)| Operation::Symlink(path, target)),
        1 => (some_path(), permission).prop_map(|(path, permission)| Operation::Permit(path, permission)),
        1 => (some_path(), recursion).prop_map(|(path, recursion)| Operation::Delete(path, recursion)),
        2 => (some_path(), some_path()).prop_map(|(from, to)| Operation::Rename(from, to)),
        2 => (some_path(), "[ab]{1,2}", "[ab]{0,2}").prop_map(|(path, old, new)| Operation::Edit(path, old, new)),
        2 => some_path().prop_map(Operation::Look),
    ]
}

/// Runs an operation and returns its result in a form that is the same on every backend.
fn run(fs: &mut dyn Filesystem, operation: &Operation) -> Result<String, &'static str> {
    let code = |error: FsError| error.code().as_str();
    match operation {
        Operation::Write(path, text, mode) => {
            let written = fs.write(path, text, *mode, NOW).map_err(code)?;
            Ok(format!("{} {} {}", written.path, written.bytes, written.hash))
        }
        Operation::Mkdir(path) => fs.mkdir(path, NOW).map(|()| String::new()).map_err(code),
        Operation::Symlink(path, target) => {
            fs.symlink(path, target.as_bytes(), NOW).map(|()| String::new()).map_err(code)
        }
        Operation::Permit(path, permission) => {
            fs.set_permission(path, *permission, NOW).map(|()| String::new()).map_err(code)
        }
        Operation::Delete(path, recursion) => fs.delete(path, *recursion).map(|count| count.to_string()).map_err(code),
        Operation::Rename(from, to) => fs.rename(from, to, NOW).map(|()| String::new()).map_err(code),
        Operation::Edit(path, old, new) => {
            let arguments =
                json!({"path": path.to_string(), "old_string": old, "new_string": new, "replace_all": true});
            let reply = call(fs, FileTool::Edit, &arguments);
            reply.outcome.map(|result| result.to_string()).map_err(|error| error.code)
        }
        Operation::Look(path) => look(fs, path).map_err(code),
    }
}

fn look(fs: &dyn Filesystem, path: &WorkspacePath) -> Result<String, FsError> {
    let stat = fs.stat(path)?;
    let listed = fs.list(path, 3).map(|listing| {
        let names: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
        format!("{names:?} of {}", listing.total)
    });
    let listed = listed.unwrap_or_else(|error| error.code().to_string());
    Ok(format!("{:?} {} {:?} {} {listed}", stat.kind, stat.size, stat.permission, fs.resolve(path)?))
}

fn searches(fs: &dyn Filesystem) -> String {
    let (hidden, ignoring) = (Hidden::Included, Ignoring::Nothing);
    let glob = GlobQuery { path: path("/"), pattern: "**/a*".to_owned(), hidden, ignoring, limit: 5 };
    let grep = GrepQuery {
        path: path("/"),
        pattern: "ab".to_owned(),
        glob: None,
        file_type: None,
        mode: GrepMode::Content { before: 0, after: 0 },
        span: LineSpan::One,
        hidden,
        ignoring,
        case: Case::Sensitive,
        limit: 5,
    };
    format!("{:?} {:?}", fs.glob(&glob).unwrap(), fs.grep(&grep).unwrap())
}

proptest! {
    #![proptest_config(sequences())]

    #[test]
    fn memory_and_disk_agree(operations in vec(operation(), 1..(2 * SEQUENCE as usize))) {
        let mut memory = MemoryFs::new();
        let mut disk = disk();
        for operation in &operations {
            let before = memory.tree_hash().unwrap();
            let (here, there) = (run(&mut memory, operation), run(&mut *disk.fs, operation));
            prop_assert_eq!(&here, &there, "{:?}", operation);
            let after = memory.tree_hash().unwrap();
            prop_assert_eq!(after, disk.fs.tree_hash().unwrap(), "{:?}", operation);
            if here.is_err() {
                prop_assert_eq!(before, after, "{:?} failed and changed something", operation);
            }
        }
        prop_assert_eq!(searches(&memory), searches(&*disk.fs));
    }

    #[test]
    fn replayed_tool_calls_give_the_same_tree(operations in vec(operation(), 1..(2 * SEQUENCE as usize))) {
        let mut fs = MemoryFs::new();
        let mut replayed = MemoryFs::new();
        for operation in &operations {
            let reply = match operation {
                Operation::Write(path, content, mode) => {
                    let mode = format!("{mode:?}").to_lowercase();
                    call(&mut fs, FileTool::Write, &json!({"path": path.to_string(), "content": content, "mode": mode}))
                }
                Operation::Edit(path, old, new) => {
                    let arguments = json!({"path": path.to_string(), "old_string": old, "new_string": new});
                    call(&mut fs, FileTool::Edit, &arguments)
                }
                Operation::Delete(path, _) => call(&mut fs, FileTool::Rm, &json!({"path": path.to_string()})),
                _ => continue,
            };
            let stored = serde_json::to_string(&reply.changes).unwrap();
            for change in serde_json::from_str::<Vec<Change>>(&stored).unwrap() {
                replayed.apply(&change, NOW).unwrap();
            }
            prop_assert_eq!(fs.tree_hash().unwrap(), replayed.tree_hash().unwrap());
        }
        let listing = |fs: &MemoryFs| format!("{:?}", fs.list(&path("/"), 99).unwrap());
        prop_assert_eq!(listing(&fs), listing(&replayed));
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn edit_is_what_replace_does(content in "[aab\r\né]{0,40}", old in "[ab\né]{1,3}", new in "[ab\n]{0,3}") {
        let mut fs = MemoryFs::new();
        fs.write(&path("f"), &content, WriteMode::Create, NOW).unwrap();
        let count = content.matches(old.as_str()).count();
        let one = call(&mut fs, FileTool::Edit, &json!({"path": "f", "old_string": old, "new_string": new}));
        match count {
            1 => prop_assert_eq!(&one.outcome.unwrap()["replacements"], 1),
            0 => prop_assert_eq!(one.outcome.unwrap_err().code, "not_found"),
            _ => {
                prop_assert_eq!(one.outcome.unwrap_err().code, "ambiguous");
                prop_assert_eq!(fs.read_bytes(&path("f")).unwrap(), content.as_bytes());
                let all = json!({"path": "f", "old_string": old, "new_string": new, "replace_all": true});
                prop_assert_eq!(&call(&mut fs, FileTool::Edit, &all).outcome.unwrap()["replacements"], count);
            }
        }
        let expected = content.replace(&old, &new);
        prop_assert_eq!(fs.read_bytes(&path("f")).unwrap(), expected.as_bytes());
    }

    #[test]
    fn pages_put_together_are_the_file(content in "[ab\né𝄞]{0,60}", limit in 1..7usize) {
        let mut fs = MemoryFs::new();
        fs.write(&path("f"), &content, WriteMode::Create, NOW).unwrap();
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let page = call(&mut fs, FileTool::Read, &json!({"path": "f", "offset": offset, "limit": limit}));
            let page = page.outcome.unwrap();
            whole.push_str(page["content"].as_str().unwrap());
            offset += page["lines"].as_u64().unwrap();
            if page["truncated"] == false {
                prop_assert_eq!(&page["total_lines"], offset);
                break;
            }
        }
        prop_assert_eq!(whole, content);
    }

    #[test]
    fn names_of_any_bytes_have_a_text_that_parses_back(segments in vec(vec(any::<u8>(), 1..12), 0..5)) {
        if let Ok(path) = WorkspacePath::from_segments(segments.iter().map(Vec::as_slice)) {
            prop_assert_eq!(path.to_string().parse::<WorkspacePath>().unwrap(), path);
        }
    }

    #[test]
    fn whatever_parses_is_inside_and_parses_to_itself(text in r"[a./\\x5cf ]{0,20}|\PC{0,20}") {
        if let Ok(path) = text.parse::<WorkspacePath>() {
            prop_assert!(path.segments().all(|segment| !matches!(segment, b"" | b"." | b"..")));
            prop_assert_eq!(path.to_string().parse::<WorkspacePath>().unwrap(), path);
        }
    }

    #[test]
    fn a_damaged_archive_is_refused_whole_or_unpacked_whole(
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        format in prop_oneof![Just(ArchiveFormat::Tar), Just(ArchiveFormat::Zip), Just(ArchiveFormat::TarGz)],
    ) {
        let mut bytes = sample(format);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let mut fs = MemoryFs::new();
        let empty = fs.tree_hash().unwrap();
        let limits = ArchiveLimits::default();
        let root = WorkspacePath::root();
        if unpack(&mut Cursor::new(bytes), format, None, &limits, &mut fs, &root, NOW).is_err() {
            prop_assert_eq!(fs.tree_hash().unwrap(), empty);
        }
    }

    /// The literal prefilter and the lazily built expression must not change the result.
    #[test]
    fn grep_finds_what_the_expression_finds_in_each_line(
        parts in vec(fragment(), 1..5),
        text in "(ab|foo|ba|[a-c ]|é|\r?\n){0,30}",
        insensitive in any::<bool>(),
    ) {
        let pattern = parts.concat();
        let regex = Regex::builder().syntax(syntax::Config::new().case_insensitive(insensitive)).build(&pattern);
        let case = if insensitive { Case::Insensitive } else { Case::Sensitive };
        let mut fs = MemoryFs::new();
        fs.write(&path("f"), &text, WriteMode::Create, NOW).unwrap();
        let query = GrepQuery { case, ..grep_query(&pattern) };
        let (Ok(regex), Ok(found)) = (regex, fs.grep(&query)) else { return Ok(()) };
        let found: Vec<(u64, u64)> = found.matches.iter().map(|found| (found.line, found.column)).collect();
        let lines = text.split_inclusive('\n').map(|line| line.trim_end_matches(['\r', '\n']));
        let expected: Vec<(u64, u64)> = (1..)
            .zip(lines)
            .filter_map(|(number, line)| {
                let start = regex.find(line)?.start();
                Some((number, line[..start].chars().count() as u64 + 1))
            })
            .collect();
        prop_assert_eq!(found, expected, "{} in {:?}", pattern, text);
    }

    #[test]
    fn no_pattern_breaks_a_search(pattern in r"[ab*?/\[\]{}!,.\\-]{1,12}|\PC{0,12}") {
        let mut fs = MemoryFs::new();
        fs.write(&path("a/b"), "ab", WriteMode::Create, NOW).unwrap();
        // There is one file. A pattern finds it, finds nothing, or is refused with a reason.
        let found = |reply: Result<Value, ToolError>, key: &str| match reply {
            Ok(result) => {
                let found = result[key].as_array().unwrap().clone();
                prop_assert!(found.iter().all(|found| found == "a" || found == "a/b" || found["path"] == "a/b"), "{:?}", found);
                Ok(())
            }
            Err(error) => {
                prop_assert_eq!(error.code, "invalid_argument");
                prop_assert!(!error.message.is_empty());
                Ok(())
            }
        };
        found(call(&mut fs, FileTool::Glob, &json!({"pattern": pattern})).outcome, "paths")?;
        found(call(&mut fs, FileTool::Grep, &json!({"pattern": pattern})).outcome, "matches")?;
        found(call(&mut fs, FileTool::Grep, &json!({"pattern": "ab", "glob": pattern})).outcome, "matches")?;
        prop_assert_eq!(fs.read_bytes(&path("a/b")).unwrap(), &b"ab"[..]);
    }
}

/// A part of an expression, with or without a literal that every match contains.
fn fragment() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        Just("ab"),
        Just("foo"),
        Just("a"),
        Just("é"),
        Just(r"\w+"),
        Just(r"\s"),
        Just("[a-b]*"),
        Just("(?:ab|o)"),
        Just("(ba)+"),
        Just("(?:foo)?"),
        Just("^"),
        Just("$"),
        Just(r"\b"),
        Just("."),
        Just("(?i)ab"),
        Just("b{1,2}"),
    ];
    plain.prop_map(str::to_owned)
}

fn grep_query(pattern: &str) -> GrepQuery {
    GrepQuery {
        path: WorkspacePath::root(),
        pattern: pattern.to_owned(),
        glob: None,
        file_type: None,
        mode: GrepMode::Content { before: 0, after: 0 },
        span: LineSpan::One,
        hidden: Hidden::Included,
        ignoring: Ignoring::Nothing,
        case: Case::Sensitive,
        limit: 2_000,
    }
}

fn sample(format: ArchiveFormat) -> Vec<u8> {
    let mut fs = MemoryFs::new();
    for (name, text) in [("a", "text"), ("d/b", "more text"), ("d/e/c", "")] {
        fs.write(&path(name), text, WriteMode::Create, NOW).unwrap();
    }
    fs.symlink(&path("l"), b"d/b", NOW).unwrap();
    let mut tar = Vec::new();
    export_tar(&fs, &WorkspacePath::root(), &mut tar).unwrap();
    match format {
        ArchiveFormat::TarGz => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
            std::io::Write::write_all(&mut encoder, &tar).unwrap();
            encoder.finish().unwrap()
        }
        ArchiveFormat::Zip => {
            let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
            for name in ["a", "d/b"] {
                writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
                std::io::Write::write_all(&mut writer, b"text").unwrap();
            }
            writer.finish().unwrap().into_inner()
        }
        ArchiveFormat::Tar | ArchiveFormat::TarZst => tar,
    }
}
