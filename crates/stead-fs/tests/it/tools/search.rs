//! `glob` and `grep`: the same answers on every backend, ordered by path.

use serde_json::{Value, json};
use stead_fs::tools::FileTool::{Glob, Grep, Ls, Read};
use stead_fs::{Filesystem, WriteMode};

use crate::harness::{err, fill, message, ok, on_every_backend, path};

on_every_backend!(
    glob_semantics,
    glob_is_sorted_capped_and_says_so,
    glob_hidden_and_ignored,
    grep_finds_lines,
    grep_filters,
    grep_refuses_bad_patterns,
    grep_skips_binary,
    grep_anchors_are_about_lines,
    grep_caps_the_same_lines_every_time,
    grep_one_file_and_long_lines,
    listings_refuse_arguments_that_they_do_not_use,
);

fn paths(fs: &mut dyn Filesystem, arguments: &Value) -> Vec<String> {
    let found = ok(fs, Glob, arguments);
    found["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect()
}

fn glob_semantics(fs: &mut dyn Filesystem) {
    fill(fs, &[("a.py", ""), ("src/b.py", ""), ("src/x/c.py", ""), ("src/x/d.rs", ""), ("a-b/e.py", "")]);
    assert_eq!(paths(fs, &json!({"pattern": "**/*.py"})), ["a-b/e.py", "a.py", "src/b.py", "src/x/c.py"]);
    assert_eq!(paths(fs, &json!({"pattern": "src/*.py"})), ["src/b.py"]);
    assert_eq!(paths(fs, &json!({"pattern": "*.py"})), ["a.py"]);
    assert_eq!(paths(fs, &json!({"pattern": "/src/**"})), ["src/b.py", "src/x/c.py", "src/x/d.rs"]);
    assert_eq!(paths(fs, &json!({"pattern": "**/x/*.{py,rs}"})), ["src/x/c.py", "src/x/d.rs"]);
    assert_eq!(paths(fs, &json!({"pattern": "x/*", "path": "/src"})), ["src/x/c.py", "src/x/d.rs"]);
    assert_eq!(paths(fs, &json!({"pattern": "nothing/*.py"})), [""; 0]);
    assert_eq!(paths(fs, &json!({"pattern": "src/x"})), [""; 0]);
    assert_eq!(message(fs, Glob, &json!({"pattern": "*.py"})), "Found 1 match under / for pattern '*.py'.");
    assert_eq!(err(fs, Glob, &json!({"pattern": " "})).message, "Pattern must not be empty.");
    assert!(err(fs, Glob, &json!({"pattern": "a[", "path": "/"})).message.starts_with("Invalid glob pattern: "));
    assert_eq!(err(fs, Glob, &json!({"pattern": "*", "path": "gone"})).code, "not_found");
    assert_eq!(err(fs, Glob, &json!({"pattern": "*", "path": "a.py"})).code, "not_directory");
}

fn glob_is_sorted_capped_and_says_so(fs: &mut dyn Filesystem) {
    let names: Vec<String> = (0..120).map(|number| format!("d{}/f{number:03}", number % 7)).collect();
    for name in &names {
        fill(fs, &[(name, "")]);
    }
    fill(fs, &[("d0.txt", ""), ("d0-x", "")]);
    let found = paths(fs, &json!({"pattern": "**"}));
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!((found.len(), &found), (122, &sorted));
    let cut = ok(fs, Glob, &json!({"pattern": "**", "limit": 5}));
    assert_eq!((&cut["truncated"], &cut["paths"]), (&json!(true), &json!(sorted[..5])));
    assert_eq!(ok(fs, Glob, &json!({"pattern": "**", "limit": 122}))["truncated"], false);
}

fn glob_hidden_and_ignored(fs: &mut dyn Filesystem) {
    fill(
        fs,
        &[
            (".gitignore", "*.log\n/target/\n!keep.log\n"),
            (".github/ci.yml", ""),
            (".git/config", ""),
            ("a.log", ""),
            ("keep.log", ""),
            ("target/x", ""),
            ("sub/.gitignore", "a.log\n!b.log\ntarget\n"),
            ("sub/a.log", ""),
            ("sub/b.log", ""),
            ("sub/target/y", ""),
            ("src/target/z", ""),
        ],
    );
    let all = paths(fs, &json!({"pattern": "**", "gitignore": true}));
    assert_eq!(all, ["keep.log", "src/target/z", "sub/b.log"]);
    assert_eq!(paths(fs, &json!({"pattern": "**/*.yml"})), [""; 0]);
    assert_eq!(paths(fs, &json!({"pattern": "**/*.yml", "hidden": true})), [".github/ci.yml"]);
    assert_eq!(paths(fs, &json!({"pattern": ".github/*"})), [".github/ci.yml"]);
    assert_eq!(paths(fs, &json!({"pattern": "*", "path": "sub", "gitignore": true})), ["sub/b.log"]);
    let hidden = paths(fs, &json!({"pattern": "**", "hidden": true, "gitignore": true}));
    assert_eq!(hidden, [".github/ci.yml", ".gitignore", "keep.log", "src/target/z", "sub/.gitignore", "sub/b.log"]);
    assert_eq!(paths(fs, &json!({"pattern": "*.log"})), ["a.log", "keep.log"]);
}

fn grep_finds_lines(fs: &mut dyn Filesystem) {
    fill(fs, &[("a.txt", "one\r\ntwo needle needle\r\n"), ("b/c.txt", "größe needle"), ("d.txt", "nothing")]);
    assert_eq!(
        ok(fs, Grep, &json!({"pattern": "needle"})),
        json!({"matches": [
            {"path": "a.txt", "line": 2, "column": 5, "text": "two needle needle"},
            {"path": "b/c.txt", "line": 1, "column": 7, "text": "größe needle"},
        ], "truncated": false})
    );
    assert_eq!(ok(fs, Grep, &json!({"pattern": "^one$"}))["matches"][0]["line"], 1);
    assert_eq!(message(fs, Grep, &json!({"pattern": "zzz"})), "Found 0 matches under / for 'zzz'.");
}

fn grep_filters(fs: &mut dyn Filesystem) {
    fill(fs, &[("a.py", "X"), ("s/b.py", "X"), ("s/c.rs", "x"), (".h/d.py", "X"), (".gitignore", "a.py\n")]);
    let files = |fs: &mut dyn Filesystem, arguments: Value| -> Vec<String> {
        let found = ok(fs, Grep, &arguments);
        found["matches"].as_array().unwrap().iter().map(|m| m["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(files(fs, json!({"pattern": "X", "glob": "*.py"})), ["a.py", "s/b.py"]);
    assert_eq!(files(fs, json!({"pattern": "X", "glob": "s/*"})), ["s/b.py"]);
    assert_eq!(files(fs, json!({"pattern": "x", "ignore_case": true})), ["a.py", "s/b.py", "s/c.rs"]);
    assert_eq!(files(fs, json!({"pattern": "X", "hidden": true})), [".h/d.py", "a.py", "s/b.py"]);
    assert_eq!(files(fs, json!({"pattern": "X", "gitignore": true})), ["s/b.py"]);
    assert_eq!(files(fs, json!({"pattern": "X", "path": "s"})), ["s/b.py"]);
}

fn grep_refuses_bad_patterns(fs: &mut dyn Filesystem) {
    fill(fs, &[("a", "x")]);
    for pattern in ["(", "[z-a]", "a{5000}{5000}{5000}", r"(?=x)", "a\nb"] {
        let error = err(fs, Grep, &json!({"pattern": pattern}));
        assert_eq!(error.code, "invalid_argument");
        assert!(error.message.starts_with("Invalid regular expression: "), "{}", error.message);
    }
    assert_eq!(err(fs, Grep, &json!({"pattern": ""})).message, "Pattern must not be empty.");
    assert_eq!(err(fs, Grep, &json!({"pattern": "x", "path": "gone"})).code, "not_found");
}

fn grep_skips_binary(fs: &mut dyn Filesystem) {
    fs.write_bytes(&path("bin"), b"needle\n\0\nneedle".to_vec().into(), WriteMode::Create, 0).unwrap();
    fs.write_bytes(&path("latin"), b"caf\xe9 needle\n".to_vec().into(), WriteMode::Create, 0).unwrap();
    let found = ok(fs, Grep, &json!({"pattern": "needle"}));
    assert_eq!(found["matches"].as_array().unwrap().len(), 1);
    assert_eq!(found["matches"][0]["path"], "latin");
}

fn grep_caps_the_same_lines_every_time(fs: &mut dyn Filesystem) {
    for number in 0..400 {
        let lines = "hit\nmiss\n".repeat(if number % 3 == 0 { 50 } else { 1 });
        fill(fs, &[(&format!("d{:02}/f{number:03}", number % 20), &lines)]);
    }
    let whole = ok(fs, Grep, &json!({"pattern": "hit", "limit": 2000}));
    assert_eq!(whole["truncated"], true);
    for _ in 0..20 {
        let part = ok(fs, Grep, &json!({"pattern": "hit", "limit": 777}));
        assert_eq!(part["truncated"], true);
        assert_eq!(part["matches"].as_array().unwrap()[..], whole["matches"].as_array().unwrap()[..777]);
    }
}

fn grep_one_file_and_long_lines(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", &format!("{}needle{}", "ä".repeat(5_000), "b".repeat(5_000))), ("g", "needle")]);
    let found = ok(fs, Grep, &json!({"pattern": "needle", "path": "f"}));
    let matches = found["matches"].as_array().unwrap();
    assert_eq!((matches.len(), &matches[0]["column"]), (1, &json!(5_001)));
    let text = matches[0]["text"].as_str().unwrap();
    assert!(text.contains("needle") && text.chars().count() <= 1_002, "{}", text.len());
}

fn grep_anchors_are_about_lines(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one two\ntwo one\r\none\n\ntwo"), ("large", &"a line\n".repeat(700_000))]);
    let lines = |fs: &mut dyn Filesystem, pattern: &str| -> Vec<u64> {
        let found = ok(fs, Grep, &json!({"pattern": pattern, "path": "f"}));
        found["matches"].as_array().unwrap().iter().map(|found| found["line"].as_u64().unwrap()).collect()
    };
    assert_eq!(lines(fs, "^one"), [1, 3]);
    assert_eq!(lines(fs, "one$"), [2, 3]);
    assert_eq!(lines(fs, "^two$"), [5]);
    assert_eq!(lines(fs, "^$"), [4]);
    // This file is not stored in one piece, so it is searched through a buffer.
    assert_eq!(ok(fs, Grep, &json!({"pattern": "^a line$", "path": "large"}))["truncated"], true);
}

fn listings_refuse_arguments_that_they_do_not_use(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/f", "x")]);
    for (tool, arguments, message) in [
        (Ls, json!({"path": "d", "depth": 1, "offset": 1}), "offset and depth are not for the same call."),
        (Ls, json!({"path": "d", "depth": 1, "limit": 1}), "limit and depth are not for the same call."),
        (Read, json!({"path": "d", "depth": 1, "tail": 1}), "tail and depth are not for the same call."),
        (Read, json!({"paths": ["d/f"], "depth": 1}), "paths and depth are not for the same call."),
        (
            Glob,
            json!({"pattern": "**", "directories": true, "offset": 1}),
            "offset and directories are not for the same call.",
        ),
        (
            Glob,
            json!({"pattern": "**", "directories": true, "gitignore": true}),
            "gitignore and directories are not for the same call.",
        ),
    ] {
        assert_eq!(err(fs, tool, &arguments).message, message);
    }
    ok(fs, Ls, &json!({"path": "d", "depth": 1, "hidden": true, "exclude": ["x"]}));
    ok(fs, Glob, &json!({"pattern": "**", "directories": true, "hidden": true, "exclude": ["x"], "limit": 1}));
    // The text editor's `view` sends these for a file or a directory.
    ok(fs, Read, &json!({"path": "d", "depth": 1, "offset": 0, "limit": 1}));
}
