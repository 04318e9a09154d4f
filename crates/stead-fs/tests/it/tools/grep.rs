//! The forms of `grep` that ripgrep's users expect, on every backend.

use serde_json::{Value, json};
use stead_fs::Filesystem;
use stead_fs::tools::FileTool::Grep;

use crate::harness::{err, fill, message, ok, on_every_backend};

fn tree(fs: &mut dyn Filesystem) {
    fill(
        fs,
        &[
            ("a.py", "one\nneedle two\nthree\nneedle four\nfive\nsix\n"),
            ("b.rs", "fn needle() {\n}\n"),
            ("d/c.pyi", "NEEDLE\n"),
            ("notes.txt", "nothing\n"),
        ],
    );
}

fn grep(fs: &mut dyn Filesystem, more: Value) -> Value {
    let mut arguments = json!({"pattern": "needle"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ok(fs, Grep, &arguments)
}

fn files_and_counts(fs: &mut dyn Filesystem) {
    tree(fs);
    assert_eq!(grep(fs, json!({"output_mode": "files"})), json!({"files": ["a.py", "b.rs"], "truncated": false}));
    assert_eq!(
        grep(fs, json!({"output_mode": "count", "case_sensitive": false})),
        json!({
            "counts": [{"path": "a.py", "count": 2}, {"path": "b.rs", "count": 1}, {"path": "d/c.pyi", "count": 1}],
            "truncated": false,
        })
    );
    assert_eq!(
        grep(fs, json!({"output_mode": "files", "limit": 1})),
        json!({"files": ["a.py"], "truncated": true, "next": {"offset": 1}})
    );
    assert_eq!(grep(fs, json!({"output_mode": "files", "offset": 1})), json!({"files": ["b.rs"], "truncated": false}));
    assert_eq!(
        grep(fs, json!({"output_mode": "count", "path": "a.py"}))["counts"],
        json!([{"path": "a.py", "count": 2}])
    );
    let said = message(fs, Grep, &json!({"pattern": "needle", "output_mode": "files", "limit": 1}));
    assert_eq!(said, "Found matches in 1 file under / for 'needle'. There are more: call grep again with offset 1.");
}

fn every_next_call_is_accepted(fs: &mut dyn Filesystem) {
    let text: String = (0..12_100).map(|number| format!("needle {number}\n")).collect();
    fs.write(&crate::harness::path("many"), &text, stead_fs::WriteMode::Overwrite, crate::harness::NOW).unwrap();
    let (mut found, mut offset) = (0, 0);
    // Bounded: each page has at least one match.
    for _ in 0..12_100 {
        let page = grep(fs, json!({"path": "many", "offset": offset}));
        found += page["matches"].as_array().unwrap().len();
        match page["next"]["offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert!((10_001..=12_100).contains(&found), "{found}");
}

fn lines_around_a_match(fs: &mut dyn Filesystem) {
    tree(fs);
    let around = |fs: &mut dyn Filesystem, more: Value| {
        let found = grep(fs, more)["matches"].as_array().unwrap().clone();
        found.iter().map(|one| (one["line"].clone(), one["before"].clone(), one["after"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(
        around(fs, json!({"context": 1, "path": "a.py"})),
        [(json!(2), json!(["one"]), json!(["three"])), (json!(4), json!(["three"]), json!(["five"]))]
    );
    assert_eq!(
        around(fs, json!({"before": 3, "after": 2, "path": "a.py"})),
        [
            (json!(2), json!(["one"]), json!(["three", "needle four"])),
            (json!(4), json!(["one", "needle two", "three"]), json!(["five", "six"])),
        ]
    );
    assert_eq!(around(fs, json!({"context": 1, "before": 0, "path": "b.rs"})), [(json!(1), json!([]), json!(["}"]))]);
    assert_eq!(grep(fs, json!({"path": "b.rs"}))["matches"][0].get("before"), None, "only on request");
}

fn types_are_ripgreps(fs: &mut dyn Filesystem) {
    tree(fs);
    let files = |fs: &mut dyn Filesystem, more: Value| {
        let mut more = more;
        more["output_mode"] = "files".into();
        more["ignore_case"] = true.into();
        grep(fs, more)["files"].clone()
    };
    assert_eq!(files(fs, json!({"type": "py"})), json!(["a.py", "d/c.pyi"]));
    assert_eq!(files(fs, json!({"type": "rust"})), json!(["b.rs"]));
    assert_eq!(files(fs, json!({"type": "py", "glob": "*.pyi"})), json!(["d/c.pyi"]));
    let error = err(fs, Grep, &json!({"pattern": "x", "type": "nonsense"}));
    assert_eq!(error.code, "invalid_argument");
    assert!(error.message.starts_with("Unknown file type \"nonsense\""), "{}", error.message);
}

fn a_match_may_cover_lines(fs: &mut dyn Filesystem) {
    tree(fs);
    let found = ok(fs, Grep, &json!({"pattern": r"two\nthree", "multiline": true, "context": 1}));
    assert_eq!(
        found["matches"],
        json!([{
            "path": "a.py", "line": 2, "column": 8, "text": "needle two\nthree",
            "before": ["one"], "after": ["needle four"],
        }])
    );
    assert_eq!(ok(fs, Grep, &json!({"pattern": "o.*o", "multiline": true}))["matches"], json!([]));
    let all = ok(fs, Grep, &json!({"pattern": "(?s)two.*four", "multiline": true, "output_mode": "count"}));
    assert_eq!(all["counts"], json!([{"path": "a.py", "count": 1}]));
    assert_eq!(err(fs, Grep, &json!({"pattern": r"two\nthree"})).code, "invalid_argument");
}

fn contradictions_are_refused(fs: &mut dyn Filesystem) {
    tree(fs);
    for (arguments, text) in [
        (json!({"case_sensitive": true, "ignore_case": true}), "ignore_case and case_sensitive contradict"),
        (json!({"output_mode": "lines"}), "output_mode must be one of content, files, count."),
        (json!({"output_mode": "files", "context": 1}), "context, before and after are for output_mode content."),
        (json!({"context": 101}), "context must be at most 100 lines."),
        (json!({"before": -1}), "before must be non-negative."),
    ] {
        let mut arguments = arguments;
        arguments["pattern"] = "x".into();
        let error = err(fs, Grep, &arguments);
        assert!(error.code == "invalid_argument" && error.message.starts_with(text), "{}", error.message);
    }
    assert_eq!(grep(fs, json!({"case_sensitive": true, "path": "d"}))["matches"], json!([]));
}

/// The lines around overlapping matches are limited in memory, at the same match every time.
fn lines_around_matches_are_bounded(fs: &mut dyn Filesystem) {
    let text = format!("needle {}\n", "x".repeat(900)).repeat(200);
    for name in ["a", "b", "c"] {
        fill(fs, &[(name, &text)]);
    }
    // About 180 kB around each match, so 16 MiB are fewer than 150 matches.
    for path in ["a", "/"] {
        let at = |offset: u64| json!({"pattern": "needle", "path": path, "context": 100, "offset": offset});
        let page = ok(fs, Grep, &at(50));
        assert_eq!((&page["matches"][0]["line"], &page["truncated"]), (&json!(51), &json!(true)));
        assert_eq!(page["matches"][0]["after"].as_array().unwrap().len(), 100);
        let error = err(fs, Grep, &at(199));
        assert_eq!(error.code, "invalid_argument");
        assert!(error.message.ends_with("with this many lines around each match."), "{}", error.message);
        assert_eq!(err(fs, Grep, &at(199)), error);
        let alone = ok(fs, Grep, &json!({"pattern": "needle", "path": path, "offset": 199}));
        assert_eq!(alone["matches"][0]["line"], 200);
    }
    assert_eq!(grep(fs, json!({"path": "a", "offset": 300}))["matches"], json!([]));
}

on_every_backend!(
    files_and_counts,
    every_next_call_is_accepted,
    lines_around_a_match,
    types_are_ripgreps,
    a_match_may_cover_lines,
    contradictions_are_refused,
    lines_around_matches_are_bounded,
);
