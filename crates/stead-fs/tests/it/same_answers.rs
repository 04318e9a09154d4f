//! Generated calls of every file tool give the same answers in memory and on disk.
//!
//! `STEAD_FS_CALLS` sets the number of calls (default 2,000).

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Map, Value, json};
use stead_core::config::{Preset, ToolLimits};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{Filesystem, Limits};

use crate::harness::{NOW, disk, memory};

/// Average number of calls in one sequence.
const SEQUENCE: u32 = 40;

fn sequences() -> Config {
    let calls = std::env::var("STEAD_FS_CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000);
    Config { cases: (calls / SEQUENCE).max(1), failure_persistence: None, ..Config::default() }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop_oneof![Just("a"), Just("b"), Just("a.b"), Just(".h"), Just("caf\u{e9}"), Just("..")].prop_map(str::to_owned),
        1 => (75usize..90, prop_oneof![Just("x"), Just("\u{e9}")]).prop_map(|(count, text)| text.repeat(count)),
        1 => (250usize..260).prop_map(|count| "y".repeat(count)),
        1 => prop_oneof![Just(" a "), Just("a\u{0}b"), Just("\\xff"), Just("\u{7}"), Just("")].prop_map(str::to_owned),
    ]
}

fn some_path() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => vec(name(), 0..4).prop_map(|names| names.join("/")),
        1 => (15usize..18).prop_map(|depth| vec!["d"; depth].join("/")),
        1 => (63usize..66).prop_map(|depth| vec!["e"; depth].join("/")),
    ]
}

fn content() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[ab\n\r\u{e9}]{0,12}",
        1 => (0usize..1_500).prop_map(|lines| "ab\n".repeat(lines)),
        1 => (1_000usize..1_500).prop_map(|length| "\u{e9}".repeat(length)),
        1 => Just("a\u{0}b".to_owned()),
    ]
}

fn argument(name: &'static str) -> BoxedStrategy<Option<(&'static str, Value)>> {
    let value = match name {
        "path" | "source" | "destination" => some_path().prop_map(Value::from).boxed(),
        "content" | "new_string" => content().prop_map(Value::from).boxed(),
        "old_string" | "insert_text" => "[ab\n]{0,3}".prop_map(Value::from).boxed(),
        "pattern" => {
            prop_oneof![Just("a"), Just("**/*"), Just("*"), Just("["), Just("b+")].prop_map(Value::from).boxed()
        }
        "glob" => prop_oneof![Just("*.b"), Just("a/**"), Just("[")].prop_map(Value::from).boxed(),
        "mode" => {
            prop_oneof![Just("create"), Just("overwrite"), Just("append"), Just("x")].prop_map(Value::from).boxed()
        }
        "paths" => vec(some_path(), 0..4).prop_map(Value::from).boxed(),
        "edits" => {
            let edit = ("[ab\n]{0,3}", content()).prop_map(|(old, new)| json!({"old_string": old, "new_string": new}));
            vec(edit, 0..3).prop_map(Value::from).boxed()
        }
        "type" => prop_oneof![Just("py"), Just("rust"), Just("none")].prop_map(Value::from).boxed(),
        "output_mode" => {
            prop_oneof![Just("content"), Just("files"), Just("count"), Just("x")].prop_map(Value::from).boxed()
        }
        "offset" | "limit" | "insert_line" | "tail" | "byte_offset" | "byte_limit" | "context" => {
            prop_oneof![0i64..6, Just(-1), Just(i64::MAX)].prop_map(Value::from).boxed()
        }
        "replace_all" | "hidden" | "gitignore" | "ignore_case" | "case_sensitive" | "multiline" => {
            any::<bool>().prop_map(Value::from).boxed()
        }
        _ => Just(json!("sha256:0")).boxed(),
    };
    let usual = ["path", "source", "destination", "content", "old_string", "new_string", "pattern", "edits"];
    let often = if usual.contains(&name) { 12 } else { 1 };
    prop_oneof![often => value.prop_map(move |value| Some((name, value))), 1 => Just(None)].boxed()
}

fn some_call() -> impl Strategy<Value = (FileTool, Value)> {
    let names = |tool: FileTool| -> &'static [&'static str] {
        match tool {
            FileTool::Ls => &["path", "offset", "limit"],
            FileTool::Read => &["path", "paths", "offset", "limit", "tail", "byte_offset", "byte_limit"],
            FileTool::Write => &["path", "content", "mode"],
            FileTool::Edit => &["path", "old_string", "new_string", "replace_all"],
            FileTool::Glob => &["pattern", "path", "hidden", "gitignore", "offset", "limit"],
            FileTool::Grep => &[
                "pattern",
                "path",
                "glob",
                "type",
                "output_mode",
                "context",
                "case_sensitive",
                "ignore_case",
                "multiline",
                "hidden",
                "offset",
                "limit",
            ],
            FileTool::Rm => &["path", "if_match"],
            FileTool::Move | FileTool::Copy => &["source", "destination"],
            FileTool::Mkdir | FileTool::Stat => &["path"],
            FileTool::MultiEdit => &["path", "edits"],
        }
    };
    let tool = prop_oneof![
        6 => Just(FileTool::Write),
        3 => Just(FileTool::Read),
        2 => Just(FileTool::Ls),
        2 => Just(FileTool::Edit),
        2 => Just(FileTool::Glob),
        2 => Just(FileTool::Grep),
        1 => Just(FileTool::Rm),
        1 => Just(FileTool::Move),
        1 => Just(FileTool::Copy),
        1 => Just(FileTool::Mkdir),
        1 => Just(FileTool::Stat),
        1 => Just(FileTool::MultiEdit),
    ];
    tool.prop_flat_map(move |tool| {
        let given: Vec<_> = names(tool).iter().map(|name| argument(name)).collect();
        given.prop_map(move |given| {
            let arguments: Map<String, Value> =
                given.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect();
            (tool, Value::Object(arguments))
        })
    })
}

/// Makes a call and returns its answer without what a backend alone knows: versions and times.
fn answer(fs: &mut dyn Filesystem, tool: FileTool, arguments: &Value, limits: &Limits) -> Value {
    let reply = tools::call(fs, Call { tool, arguments, limits, now_millis: NOW });
    let mut outcome = match reply.outcome {
        Ok(result) => json!({"result": result, "message": reply.message}),
        Err(error) => json!({"code": error.code, "message": error.message, "hint": error.hint}),
    };
    forget(&mut outcome);
    outcome
}

fn forget(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::Object(fields) => {
            let directory = fields.get("kind") == Some(&json!("directory"));
            fields.retain(|name, _| {
                !(["version", "mtime", "created_at"].contains(&name.as_str()) || directory && name == "size")
            });
            fields.values_mut().for_each(forget);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(sequences())]

    #[test]
    fn memory_and_disk_answer_alike(calls in vec(some_call(), 1..2 * SEQUENCE as usize), open in any::<bool>()) {
        let preset = if open { Preset::Open } else { Preset::Wink };
        let limits = Limits::from(&ToolLimits::of(preset).for_call(None));
        // Small limits make the cuts frequent.
        let limits = Limits { output_bytes: 2_048, write_chars: limits.write_chars.min(3_000), ..limits };
        let (mut memory, mut disk) = (memory(), disk());
        for (tool, arguments) in &calls {
            let expected = answer(&mut *memory.fs, *tool, arguments, &limits);
            prop_assert_eq!(&answer(&mut *disk.fs, *tool, arguments, &limits), &expected, "{} {}", tool, arguments);
        }
        prop_assert_eq!(memory.fs.tree_hash().unwrap(), disk.fs.tree_hash().unwrap());
    }
}
