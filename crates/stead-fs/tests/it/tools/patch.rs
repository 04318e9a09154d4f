//! Other forms of `edit`: inserted lines, and atomic patches over several files.

use serde_json::{Value, json};
use stead_fs::tools::FileTool::Edit;
use stead_fs::tools::{self, Call};
use stead_fs::{Filesystem, Limits, Permission};

use crate::harness::{NOW, err, fill, message, ok, on_every_backend, path};

on_every_backend!(
    lines_are_inserted,
    what_cannot_be_inserted,
    a_patch_adds_updates_moves_and_deletes,
    places_are_found_as_models_copy_them,
    bytes_that_stay_are_kept,
    all_or_nothing,
    what_is_no_patch,
    one_file_under_two_names,
    a_long_list_of_files_is_cut,
);

fn text(fs: &dyn Filesystem, name: &str) -> String {
    String::from_utf8(fs.read_bytes(&path(name)).unwrap().to_vec()).unwrap()
}

fn patch(body: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")})
}

fn lines_are_inserted(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "a\nb\n")]);
    let arguments = json!({"path": "f", "insert_line": 1, "insert_text": "x"});
    assert_eq!(message(fs, Edit, &arguments), "Inserted after line 1 of f.");
    assert_eq!(text(fs, "f"), "a\nx\nb\n");
    let result = ok(fs, Edit, &json!({"file_path": "/f", "insert_line": 0, "insert_text": "y\n"}));
    assert_eq!((&result["path"], text(fs, "f").as_str()), (&json!("f"), "y\na\nx\nb\n"));
}

fn what_cannot_be_inserted(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "a\n"), ("bin", "a\0b")]);
    for (arguments, code) in [
        (json!({"path": "f", "insert_line": 2, "insert_text": "x"}), "invalid_argument"),
        (json!({"path": "f", "insert_line": -1, "insert_text": "x"}), "invalid_argument"),
        (json!({"path": "f", "insert_line": "1", "insert_text": "x"}), "invalid_argument"),
        (json!({"path": "f", "insert_text": "x"}), "invalid_argument"),
        (json!({"path": "f", "insert_line": 1}), "invalid_argument"),
        (json!({"path": "f", "insert_line": 1, "insert_text": "x", "old_string": "a"}), "invalid_argument"),
        (json!({"path": "f", "insert_line": 1, "insert_text": "x".repeat(48_001)}), "too_large"),
        (json!({"path": "f", "insert_line": 1, "insert_text": "\0"}), "binary"),
        (json!({"path": "bin", "insert_line": 1, "insert_text": "x"}), "binary"),
        (json!({"path": "none", "insert_line": 0, "insert_text": "x"}), "not_found"),
        (json!({"path": "../f", "insert_line": 0, "insert_text": "x"}), "invalid_argument"),
    ] {
        assert_eq!(err(fs, Edit, &arguments).code, code, "{arguments}");
    }
}

fn a_patch_adds_updates_moves_and_deletes(fs: &mut dyn Filesystem) {
    fill(
        fs,
        &[
            ("src/a.py", "import os\n\ndef a():\n    return 1\n\ndef b():\n    return 1\n"),
            ("old", "x\n"),
            ("run", "go\n"),
        ],
    );
    fs.set_permission(&path("run"), Permission::Executable, NOW).unwrap();
    let body = "*** Add File: new/deep.txt\n+one\n+\n+two\n*** Update File: src/a.py\n@@ def b():\n-    return 1\n+    return 2\n\
        *** Delete File: old\n*** Update File: run\n*** Move to: bin/run\n@@\n-go\n+gone";
    let told = message(fs, Edit, &patch(body));
    assert_eq!(told, "Success. Updated the following files:\nA new/deep.txt\nM src/a.py\nD old\nM run -> bin/run");
    assert_eq!(text(fs, "new/deep.txt"), "one\n\ntwo\n");
    assert_eq!(text(fs, "src/a.py"), "import os\n\ndef a():\n    return 1\n\ndef b():\n    return 2\n");
    assert!(fs.stat(&path("old")).is_err() && fs.stat(&path("run")).is_err());
    assert_eq!(text(fs, "bin/run"), "gone\n");
    assert_eq!(fs.stat(&path("bin/run")).unwrap().permission, Permission::Executable);
}

fn places_are_found_as_models_copy_them(fs: &mut dyn Filesystem) {
    let given = "class A:\n    def e(self):  \n        pass\n\nclass B:\n    def f(self):\n        pass\n";
    fill(fs, &[("f", given), ("end", "x\ny\nx\n"), ("append", "a\n")]);
    // Several `@@` markers select one place. Trailing blanks are ignored when matching, and
    // unchanged lines keep them.
    ok(fs, Edit, &patch("*** Update File: f\n@@ class A:\n     def e(self):\n-        pass\n+        return 1"));
    ok(fs, Edit, &patch("*** Update File: f\n@@ class B:\n@@     def f(self):\n-        pass\n+        return 2"));
    let expected = "class A:\n    def e(self):  \n        return 1\n\nclass B:\n    def f(self):\n        return 2\n";
    assert_eq!(text(fs, "f"), expected);
    ok(fs, Edit, &patch("*** Update File: end\n@@\n-x\n+z\n*** End of File"));
    assert_eq!(text(fs, "end"), "x\ny\nz\n");
    ok(fs, Edit, &patch("*** Update File: append\n@@\n+b"));
    assert_eq!(text(fs, "append"), "a\nb\n");
    // Two places in one file, in order.
    ok(fs, Edit, &patch("*** Update File: end\n@@\n-x\n+1\n@@\n-z\n+3"));
    assert_eq!(text(fs, "end"), "1\ny\n3\n");
}

fn bytes_that_stay_are_kept(fs: &mut dyn Filesystem) {
    fill(fs, &[("crlf", "a\r\nb\r\nc"), ("mixed", "a\nb\r\nc\n"), ("open", "a\nb")]);
    ok(fs, Edit, &patch("*** Update File: crlf\n a\n-b\n+B\n+B2"));
    assert_eq!(text(fs, "crlf"), "a\r\nB\r\nB2\r\nc");
    ok(fs, Edit, &patch("*** Update File: mixed\n-a\n+A"));
    assert_eq!(text(fs, "mixed"), "A\r\nb\r\nc\n");
    ok(fs, Edit, &patch("*** Update File: open\n b\n+c"));
    assert_eq!(text(fs, "open"), "a\nb\nc\n");
}

/// The last operation is refused, so none takes effect (`err` compares the tree).
fn all_or_nothing(fs: &mut dyn Filesystem) {
    fill(fs, &[("a", "1\n"), ("b", "2\n"), ("d/x", "3\n"), ("bin", "a\0b")]);
    for (last, code) in [
        ("*** Update File: b\n-nothing\n+x", "not_found"),
        ("*** Update File: none\n-2\n+x", "not_found"),
        ("*** Update File: bin\n-a\n+x", "binary"),
        ("*** Update File: b\n*** Move to: a\n-2\n+x", "exists"),
        ("*** Update File: b\n*** Move to: d\n-2\n+x", "exists"),
        ("*** Add File: b\n+x", "exists"),
        ("*** Add File: b/c\n+x", "not_directory"),
        ("*** Add File: ../out\n+x", "invalid_argument"),
        ("*** Add File: /\n+x", "invalid_argument"),
        ("*** Delete File: d", "is_directory"),
        ("*** Delete File: none", "not_found"),
        ("*** Add File: new/below\n+x", "invalid_argument"),
        ("*** Update File: a\n-1\n+2", "invalid_argument"),
    ] {
        let body = format!("*** Add File: new\n+x\n*** Update File: a\n-1\n+one\n{last}");
        assert_eq!(err(fs, Edit, &patch(&body)).code, code, "{last}");
    }
}

fn what_is_no_patch(fs: &mut dyn Filesystem) {
    fill(fs, &[("a", "1\n")]);
    let whole = |text: &str| json!({"patch": text});
    for arguments in [
        whole(""),
        whole("*** Begin Patch"),
        whole("*** Begin Patch\n*** End Patch"),
        whole("*** Update File: a\n-1\n+2"),
        whole("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"),
        patch("*** Update File: a"),
        patch("*** Update File: a\n@@ 1"),
        patch("*** Update File: a\nx"),
        patch("*** Update File:\n-1\n+2"),
        patch("*** Add File: n\nx"),
        patch("*** Delete File: a\n-1"),
        patch("*** Update File: a\n-1\n*** End of File\n+2"),
        patch("hello\n*** Delete File: a"),
        json!({"patch": 1}),
        json!({"patch": "x", "path": "a"}),
    ] {
        assert_eq!(err(fs, Edit, &arguments).code, "invalid_argument", "{arguments}");
    }
    assert_eq!(err(fs, Edit, &whole(&"x".repeat(48_001))).code, "too_large");
}

fn one_file_under_two_names(fs: &mut dyn Filesystem) {
    fill(fs, &[("a", "1\n2\n")]);
    fs.symlink(&path("l"), b"a", NOW).unwrap();
    let both = patch("*** Update File: a\n-1\n+one\n*** Update File: l\n-2\n+two");
    assert_eq!(err(fs, Edit, &both).code, "invalid_argument");
    ok(fs, Edit, &patch("*** Update File: l\n-2\n+two"));
    assert_eq!(text(fs, "a"), "1\ntwo\n");
}

fn a_long_list_of_files_is_cut(fs: &mut dyn Filesystem) {
    let limits = Limits { output_bytes: 600, ..Limits::default() };
    let body: Vec<String> = (0..20).map(|number| format!("*** Add File: file{number:02}\n+x")).collect();
    let arguments = patch(&body.join("\n"));
    let reply = tools::call(fs, Call { tool: Edit, arguments: &arguments, limits: &limits, now_millis: NOW });
    let result = reply.outcome.unwrap();
    let shown = result["files"].as_array().unwrap().len();
    assert!((1..20).contains(&shown) && result["truncated"] == true, "{result}");
    assert!(reply.message.ends_with(&format!("\nand {} more files", 20 - shown)), "{}", reply.message);
    assert_eq!(fs.list(&path("/"), 99).unwrap().total, 20);
}
