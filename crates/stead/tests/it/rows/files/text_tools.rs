//! F3, F6, F16: further forms of `read` and `grep`, and text that is not UTF-8, over HTTP.

use serde_json::{Value, json};

use super::tools::{bytes, fails, works};
use crate::rows::{Files, on_all, put, writer};

fn f3_read_of_several_files_the_last_lines_and_a_range_of_bytes(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "a", "one\ntwé\nthree\n".as_bytes());
    put(&server, &session, "d/b?mkdir=1", b"four");
    let read = |arguments: Value| works(&server, &session, "read", arguments);
    let both = read(json!({"paths": ["a", "none", "d/b"]}));
    assert_eq!(both["files"][0]["content"], "one\ntwé\nthree\n");
    assert_eq!(both["files"][0]["hash"], read(json!({"path": "a"}))["hash"]);
    assert_eq!(both["files"][1]["error"]["code"], "not_found");
    assert_eq!((&both["files"][2]["path"], &both["files"][2]["content"]), (&json!("d/b"), &json!("four")));
    let last = read(json!({"path": "a", "tail": 2}));
    assert_eq!(
        (&last["content"], &last["offset"], &last["total_lines"]),
        (&json!("twé\nthree\n"), &json!(1), &json!(3))
    );
    // The é has the bytes 6 and 7.
    let range = read(json!({"path": "a", "byte_offset": 4, "byte_limit": 4}));
    assert_eq!(
        (&range["content"], &range["byte_offset"], &range["bytes"], &range["total_bytes"], &range["truncated"]),
        (&json!("twé"), &json!(4), &json!(4), &json!(15), &json!(true))
    );
    let inside = read(json!({"path": "a", "byte_offset": 7, "byte_limit": 100}));
    assert_eq!((&inside["content"], &inside["byte_offset"]), (&json!("\nthree\n"), &json!(8)));
    for mixed in [
        json!({"path": "a", "paths": ["a"]}),
        json!({"path": "a", "tail": 1, "offset": 1}),
        json!({"path": "a", "byte_offset": 1, "limit": 1}),
        json!({"paths": []}),
    ] {
        assert_eq!(fails(&server, &session, "read", mixed).0, "invalid_argument");
    }
}

fn f6_grep_answers_as_ripgrep_does(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "a.py", b"one\nneedle\nthree\n");
    put(&server, &session, "src/b.rs?mkdir=1", b"// Needle\nlet needle = 1;\n// needle\n");
    let grep = |more: Value| {
        let mut arguments = json!({"pattern": "needle"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        works(&server, &session, "grep", arguments)
    };
    assert_eq!(grep(json!({"output_mode": "files"})), json!({"files": ["a.py", "src/b.rs"], "truncated": false}));
    let counts = grep(json!({"output_mode": "count", "case_sensitive": false, "type": "rust"}));
    assert_eq!(counts, json!({"counts": [{"path": "src/b.rs", "count": 3}], "truncated": false}));
    assert_eq!(
        grep(json!({"context": 1, "glob": "*.py"}))["matches"],
        json!([{"path": "a.py", "line": 2, "column": 1, "text": "needle", "before": ["one"], "after": ["three"]}])
    );
    let over = grep(json!({"pattern": r"one\nneedle", "multiline": true}));
    assert_eq!(over["matches"][0]["text"], "one\nneedle");
    let cut = grep(json!({"output_mode": "files", "limit": 1}));
    assert_eq!(cut, json!({"files": ["a.py"], "truncated": true, "next": {"offset": 1}}));
    let (code, message) = fails(&server, &session, "grep", json!({"pattern": "x", "type": "nonsense"}));
    assert!(code == "invalid_argument" && message.contains("nonsense"), "{message}");
}

fn f16_one_rule_says_what_is_text(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let wide = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        [0xFEFF].into_iter().chain("café\n".encode_utf16()).flat_map(bytes).collect()
    };
    for (content, encoding) in [
        ("café\n".as_bytes().to_vec(), "utf-8"),
        (b"\xEF\xBB\xBFcaf\xC3\xA9\n".to_vec(), "utf-8"),
        (b"caf\xE9\n".to_vec(), "latin-1"),
        (wide(u16::to_le_bytes), "utf-16le"),
        (wide(u16::to_be_bytes), "utf-16be"),
    ] {
        put(&server, &session, "f", &content);
        let read = works(&server, &session, "read", json!({"path": "f"}));
        assert_eq!((&read["content"], &read["encoding"]), (&json!("café\n"), &json!(encoding)));
        let found = works(&server, &session, "grep", json!({"pattern": "caf.$"}));
        assert_eq!(found["matches"][0]["text"], "café", "{encoding}");
        // An edit there and back gives the same bytes.
        for (old, new) in [("caf", "th"), ("th", "caf")] {
            let edit = json!({"path": "f", "old_string": old, "new_string": new});
            assert_eq!(works(&server, &session, "edit", edit)["encoding"], encoding);
        }
        assert_eq!(bytes(&server, &session, "f"), content, "{encoding}");
    }
    put(&server, &session, "f", b"caf\xE9\n");
    let edit = |old: &str, new: &str| json!({"path": "f", "old_string": old, "new_string": new});
    let (code, message) = fails(&server, &session, "edit", edit("caf", "→"));
    assert!(code == "encoding" && message.contains("latin-1") && message.contains("U+2192"), "{message}");
    assert_eq!(bytes(&server, &session, "f"), b"caf\xE9\n");
    put(&server, &session, "f", b"caf\xE9\0");
    assert_eq!(works(&server, &session, "read", json!({"path": "f"}))["binary"], true);
    assert_eq!(works(&server, &session, "grep", json!({"pattern": "caf"}))["matches"], json!([]));
    assert_eq!(fails(&server, &session, "edit", edit("caf", "x")).0, "binary");
}

fn f16_appended_text_has_the_encoding_of_the_file(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let append = |text: &str| json!({"path": "f", "content": text, "mode": "append"});
    let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
    };
    for (before, after, encoding) in [
        (b"caf\xE9\n".to_vec(), b"caf\xE9\nth\xE9\n".to_vec(), json!("latin-1")),
        (wide("café\n", u16::to_le_bytes), wide("café\nthé\n", u16::to_le_bytes), json!("utf-16le")),
        (wide("café\n", u16::to_be_bytes), wide("café\nthé\n", u16::to_be_bytes), json!("utf-16be")),
        (b"\xEF\xBB\xBFa\n".to_vec(), b"\xEF\xBB\xBFa\nth\xC3\xA9\n".to_vec(), Value::Null),
        ("café\n".as_bytes().to_vec(), "café\nthé\n".as_bytes().to_vec(), Value::Null),
        (Vec::new(), "thé\n".as_bytes().to_vec(), Value::Null),
        (b"\xE9\0".to_vec(), b"\xE9\0th\xC3\xA9\n".to_vec(), Value::Null),
    ] {
        put(&server, &session, "f", &before);
        let written = works(&server, &session, "write", append("thé\n"));
        assert_eq!(written["encoding"], encoding, "{written}");
        assert_eq!(bytes(&server, &session, "f"), after, "{encoding}");
    }
    // ASCII needs no other bytes in Latin-1, but it does in UTF-16.
    put(&server, &session, "f", &wide("a\n", u16::to_le_bytes));
    works(&server, &session, "write", append("b\n"));
    assert_eq!(bytes(&server, &session, "f"), wide("a\nb\n", u16::to_le_bytes));
    put(&server, &session, "f", b"caf\xE9\n");
    let (code, message) = fails(&server, &session, "write", append("→"));
    assert!(code == "encoding" && message.contains("latin-1") && message.contains("U+2192"), "{message}");
    assert_eq!(bytes(&server, &session, "f"), b"caf\xE9\n");
}

on_all!(
    f3_read_of_several_files_the_last_lines_and_a_range_of_bytes,
    f6_grep_answers_as_ripgrep_does,
    f16_one_rule_says_what_is_text,
    f16_appended_text_has_the_encoding_of_the_file,
);
