//! F2: generated calls of every file tool give the same answers in a box as in memory.
//!
//! `STEAD_ROW_CALLS` sets the number of calls per preset (default 80). `stead-fs` compares many
//! more without a server.

use serde_json::{Value, json};

use crate::rows::{Files, on_all};

/// A generator of numbers, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    fn path(&mut self) -> String {
        let names = ["a", "b", "a.b", ".h", "caf\u{e9}", "..", " a ", "\\xff", "a\u{7}"].map(str::to_owned);
        let long = ["x".repeat(81), "\u{e9}".repeat(128), "y".repeat(256), vec!["d"; 17].join("/")];
        let depth = self.below(3) + 1;
        let name = |numbers: &mut Self| match numbers.below(12) {
            0 => numbers.one_of(&long),
            1..=7 => names[numbers.below(3)].clone(),
            _ => numbers.one_of(&names),
        };
        (0..depth).map(|_| name(self)).collect::<Vec<_>>().join("/")
    }

    fn content(&mut self) -> String {
        match self.below(5) {
            0 => "ab\n".repeat(self.below(1_500)),
            1 => "\u{e9}".repeat(self.below(1_500)),
            _ => "ab\r\nb\u{2713}\na".chars().take(self.below(9)).collect(),
        }
    }

    fn call(&mut self) -> (&'static str, Value) {
        let path = self.path();
        match self.below(12) {
            0..=4 => {
                let mode = self.one_of(&["create", "overwrite", "append"]);
                ("write", json!({"path": path, "content": self.content(), "mode": mode}))
            }
            5 => ("read", json!({"path": path, "offset": self.below(3)})),
            6 => ("read", json!({"path": path, "limit": self.below(3)})),
            7 => ("ls", json!({"path": path, "offset": self.below(2)})),
            8 => ("ls", json!({"limit": self.below(4)})),
            9 => {
                let (old, new) = (self.one_of(&["a", "b\n", ""]), self.one_of(&["", "b", "\u{e9}"]));
                ("edit", json!({"path": path, "old_string": old, "new_string": new, "replace_all": self.below(2) == 0}))
            }
            10 => ("grep", json!({"pattern": self.one_of(&["a", "b+", "[", ""]), "offset": self.below(3)})),
            _ => match self.below(2) {
                0 => ("glob", json!({"pattern": self.one_of(&["**/*", "*", "["]), "offset": self.below(3)})),
                _ => ("rm", json!({"path": path})),
            },
        }
    }
}

/// Removes what only one provider knows: versions, times, and sizes of directories.
fn forget(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::Object(fields) => {
            let directory = fields.get("kind") == Some(&json!("directory"));
            let own = ["version", "mtime", "created_at", "call_id", "seq", "duration_ms"];
            fields.retain(|name, _| !(own.contains(&name.as_str()) || directory && name == "size"));
            fields.values_mut().for_each(forget);
        }
        _ => {}
    }
}

fn f2_generated_calls_answer_like_memory(files: Files) {
    let server = files.server();
    let count = std::env::var("STEAD_ROW_CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(80);
    for preset in ["wink", "open"] {
        let session = |name: &str, provider: &str| {
            let limits = json!({"preset": preset, "output_bytes": 2_048});
            let id = format!("{preset}-{name}");
            server.agent_type(&id, json!({"enabled": true, "provider": provider, "limits": limits}));
            server.session(json!({"agent_type": id}))
        };
        let (tested, model) = (session("tested", files.provider()), session("model", "memory"));
        let mut numbers = Numbers(42);
        for number in 0..count {
            let (tool, arguments) = numbers.call();
            let [answer, expected] = [&tested, &model].map(|session| {
                let mut answer = server.tool(session, tool, arguments.clone());
                forget(&mut answer);
                answer
            });
            assert_eq!(answer, expected, "call {number} in preset {preset}: {tool} {arguments}");
        }
    }
}

on_all!(f2_generated_calls_answer_like_memory);
