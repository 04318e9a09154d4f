//! F2: generated calls of every tool give the same answers on every provider.
//!
//! `STEAD_ROW_CALLS` sets the number of calls, half of them in each preset (default 160).
//! `cargo xtask nightly` sets 2,000. `stead-fs` compares many more without a server.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stead_core::tool::ToolName;
use stead_testkit::{TestServer, until};

use crate::rows::{Files, build_init, on_boxes};

/// Tools whose answers may differ between two providers, each with the reason.
const LISTED: &[(ToolName, &str, &str)] =
    &[(ToolName::Git, "podman", "the image of the tests has no git, and a native box has the host's")];

/// Number of calls of each tool that even a short run makes.
const LEAST: usize = 3;

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

    fn edit(&mut self) -> Value {
        let (old, new) = (self.one_of(&["a", "b\n", ""]), self.one_of(&["", "b", "\u{e9}"]));
        json!({"old_string": old, "new_string": new, "replace_all": self.below(2) == 0})
    }

    /// A command that every shell answers alike.
    fn command(&mut self) -> String {
        let simple = [
            "echo a",
            "echo \u{2713}; echo b >&2; exit 3",
            "pwd; echo $HOME",
            "cat a b",
            "ls -A | sort",
            "printf 'x%.0s' $(seq 4000)",
            "wc -l",
            "id -u; umask",
            "no-such-program",
            "printf 'a\\377b'",
            "kill -9 $$",
        ];
        match self.below(14) {
            0 => String::new(),
            1 => format!("echo {}", "y".repeat(4_100)),
            // Only a box has commands, so none of them changes the workspace.
            2 => format!("mkdir -p /tmp/c && echo {} > /tmp/c/made && cat /tmp/c/made", self.below(3)),
            _ => self.one_of(&simple).to_owned(),
        }
    }

    /// Arguments of a call of this tool. The value `"$id"` stands for the latest command in the
    /// background.
    fn arguments(&mut self, tool: ToolName) -> Value {
        let path = self.path();
        match tool {
            ToolName::Write => {
                let mode = self.one_of(&["create", "overwrite", "append", "x"]);
                json!({"path": path, "content": self.content(), "mode": mode})
            }
            ToolName::Read => match self.below(5) {
                0 => json!({"path": path, "offset": self.below(3)}),
                1 => json!({"path": path, "limit": self.below(3)}),
                2 => json!({"path": path, "tail": self.below(3)}),
                3 => json!({"path": path, "byte_offset": self.below(5), "byte_limit": self.below(9)}),
                _ => json!({"paths": [path, self.path(), "a"]}),
            },
            ToolName::Ls => match self.below(2) {
                0 => json!({"path": path, "offset": self.below(2)}),
                _ => json!({"limit": self.below(4)}),
            },
            ToolName::Edit => {
                let mut arguments = self.edit();
                arguments["path"] = path.into();
                arguments
            }
            ToolName::MultiEdit => {
                let edits: Vec<_> = (0..self.below(3)).map(|_| self.edit()).collect();
                json!({"path": path, "edits": edits})
            }
            ToolName::Grep => {
                let (pattern, shown) =
                    (self.one_of(&["a", "b+", "[", ""]), self.one_of(&["content", "files", "count"]));
                json!({"pattern": pattern, "output_mode": shown, "offset": self.below(3), "context": self.below(2)})
            }
            ToolName::Glob => json!({"pattern": self.one_of(&["**/*", "*", "["]), "offset": self.below(3)}),
            ToolName::Rm | ToolName::Mkdir | ToolName::Stat => json!({"path": path}),
            ToolName::Move | ToolName::Copy => json!({"source": path, "destination": self.path()}),
            ToolName::Eval => match self.below(4) {
                0 => json!({"code": "write_text('a', 'from eval', 'overwrite'); 1 + 1"}),
                1 => json!({"code": "len(vfs_reads['a'])", "reads": [{"path": "a"}]}),
                2 => json!({"code": "x = 2", "writes": [{"path": path, "content": "{x}"}]}),
                _ => json!({"code": self.one_of(&["1 / 0", "print('a'); [1, 2]", "foo('a')", "read_text('b')"])}),
            },
            ToolName::Bash => match self.below(8) {
                0 => json!({"command": "echo out; echo err >&2; exit 4", "background": true}),
                1 => json!({"command": "sleep 300", "background": true}),
                2 => json!({"commands": [self.command(), self.command()]}),
                3 => json!({"command": self.command(), "cwd": self.one_of(&["/workspace/a", "/tmp", "/nowhere"])}),
                4 => json!({"command": "cat; echo $V", "stdin": "text", "env": {"V": "v"}, "timeout": self.below(3)}),
                5 => json!({"command": self.command(), "capture_output": false}),
                _ => json!({"command": self.command()}),
            },
            ToolName::Shell => match self.below(6) {
                0 => json!({"restart": true}),
                1 => json!({"command": "cd /tmp; v=1; f() { echo f$v; }"}),
                2 => json!({"command": "pwd; echo $v; f"}),
                _ => json!({"command": self.command()}),
            },
            ToolName::BashOutput => json!({"id": self.one_of(&["$id", "$id", "exec_none"])}),
            ToolName::BashKill => json!({"id": self.one_of(&["$id", "exec_none"])}),
            ToolName::Python => json!({"code": self.one_of(&["print(1 + 1)", "import sys; sys.exit(3)", "1 / 0"])}),
            ToolName::Git => json!({"command": self.one_of(&["status", "log", "push", "frob"])}),
        }
    }

    fn tool(&mut self) -> ToolName {
        match self.below(3) {
            // Without enough files the other calls find nothing.
            0 => ToolName::Write,
            _ => self.one_of(ToolName::ALL),
        }
    }
}

/// Removes what only one provider knows: versions, times, ids, sizes of directories.
fn forget(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::Object(fields) => {
            let directory = fields.get("kind") == Some(&json!("directory"));
            let own = ["version", "mtime", "created_at", "call_id", "seq", "duration_ms", "id", "exec"];
            fields.retain(|name, _| !(own.contains(&name.as_str()) || directory && name == "size"));
            // A box may end for a checkpoint, and the next call restores its shell.
            if fields.get("origin") == Some(&json!("restored")) {
                fields.insert("origin".to_owned(), json!("running"));
            }
            fields.values_mut().for_each(forget);
        }
        _ => {}
    }
}

/// A session under test, and its latest command in the background.
struct Tested {
    provider: &'static str,
    session: Value,
    background: String,
    /// True if that command only ends when it is killed.
    endless: bool,
}

impl Tested {
    fn call(&mut self, server: &TestServer, tool: ToolName, arguments: &Value) -> Value {
        let mut arguments = arguments.clone();
        if arguments["id"] == "$id" {
            arguments["id"] = self.background.clone().into();
        }
        let path = format!("/sessions/{}/tools/{tool}", self.session["id"].as_str().unwrap());
        let send = || {
            let reply = server.client().post(&path, arguments.clone());
            json!({"status": reply.status, "body": reply.json()})
        };
        let mut answer = send();
        if let (ToolName::Bash, Some(id)) = (tool, answer["body"]["result"]["id"].as_str()) {
            id.clone_into(&mut self.background);
            self.endless = arguments["command"] == "sleep 300";
        }
        self.endless &= tool != ToolName::BashKill || arguments["id"] == "exec_none";
        // The moment at which output arrives is not part of the comparison.
        if tool == ToolName::BashOutput && answer["body"]["ok"] == true {
            answer = until("the end of a short command", || {
                Some(send()).filter(|answer| self.endless || answer["body"]["result"]["status"] != "running")
            });
            merge_chunks(&mut answer["body"]["result"]);
        }
        let own = self.background.clone();
        forget(&mut answer);
        if own.is_empty() { answer } else { serde_json::from_str(&answer.to_string().replace(&own, "$id")).unwrap() }
    }

    fn listed(&self, tool: ToolName) -> bool {
        LISTED.iter().any(|(listed, provider, _)| *listed == tool && *provider == self.provider)
    }
}

/// Replaces the chunks of an output by the text of each stream.
fn merge_chunks(page: &mut Value) {
    let mut streams: BTreeMap<String, String> = BTreeMap::new();
    for chunk in page["chunks"].as_array().into_iter().flatten() {
        *streams.entry(chunk["stream"].as_str().unwrap().to_owned()).or_default() += chunk["data"].as_str().unwrap();
    }
    page["chunks"] = json!(streams);
    page.as_object_mut().unwrap().remove("after");
}

fn f2_generated_calls_answer_alike_on_every_provider(files: Files) {
    let server = files.server();
    let count: usize = std::env::var("STEAD_ROW_CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(160);
    let mut providers = vec!["memory", "native"];
    providers.extend((files == Files::Container).then_some("podman"));
    build_init();
    let mut made: BTreeMap<ToolName, usize> = BTreeMap::new();
    let mut differences = Vec::new();
    for (preset, seed) in [("wink", 42), ("open", 43)] {
        let mut tested: Vec<Tested> = providers
            .iter()
            .map(|provider| {
                let id = format!("{preset}-{provider}");
                let limits = json!({"preset": preset, "output_bytes": 2_048});
                server.agent_type(&id, json!({"enabled": true, "provider": provider, "limits": limits}));
                let session = server.session(json!({"agent_type": id}));
                Tested { provider, session, background: String::new(), endless: false }
            })
            .collect();
        let mut numbers = Numbers(seed);
        let mut due: Vec<ToolName> = ToolName::ALL.iter().copied().cycle().take(ToolName::ALL.len() * LEAST).collect();
        for number in 0..count.div_ceil(2) {
            // Every second call is of a tool that is due, so that a short run has all of them.
            let tool = if number % 2 == 0 { due.pop() } else { None }.unwrap_or_else(|| numbers.tool());
            let arguments = numbers.arguments(tool);
            *made.entry(tool).or_default() += 1;
            let at = format!("call {number} in preset {preset}: {tool} {arguments}");
            let answers: Vec<Value> = tested.iter_mut().map(|tested| tested.call(&server, tool, &arguments)).collect();
            // Invalid arguments are the same error with and without a box.
            let refused = answers[0]["body"]["error"]["code"] == "tool_unavailable";
            let expected = &answers[usize::from(tool.needs_box() && refused)];
            for (tested, answer) in tested.iter().zip(&answers).skip(1).filter(|(tested, _)| !tested.listed(tool)) {
                if answer != expected {
                    differences.push(format!("{} at {at}:\n{answer}\n{expected}", tested.provider));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} of {made:?} calls differ:\n{}", differences.len(), differences.join("\n"));
    for tool in ToolName::ALL {
        assert!(made.get(tool).copied().unwrap_or_default() >= LEAST, "too few calls of {tool}: {made:?}");
    }
}

on_boxes!(f2_generated_calls_answer_alike_on_every_provider);
