//! `stead tool call SESSION TOOL`

use std::time::Duration;

use serde_json::{Map, Value};
use stead_api::tool::ToolAnswer;

use crate::client::segment;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::{json_input, render};

/// Longest call that the client waits for, in seconds.
const MOST_SECONDS: f64 = 600.0;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ToolCommand {
    /// Call a tool; `stead tools` lists them with their parameters
    Call(Call),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Call {
    /// The session's id
    session: String,
    /// The tool's name
    tool: String,
    /// An argument: name=text, or name:=JSON for numbers, true and false (repeatable)
    #[arg(short = 'a', long = "arg", value_name = "NAME=VALUE")]
    arg: Vec<String>,
    /// All arguments as a JSON object, or - to read them from standard input; --arg overrides them
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
}

impl ToolCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Self::Call(call) = self;
        let path = format!("/sessions/{}/tools/{}", segment(&call.session), segment(&call.tool));
        let arguments = arguments(call.args.as_deref(), &call.arg)?;
        let answer: ToolAnswer = context.client()?.post_for(&path, &arguments, duration(&call.tool, &arguments))?;
        if context.out.is_json() {
            context.out.json(&answer)?;
            if answer.ok {
                return Ok(());
            }
        }
        // A failed tool sets the exit code in both output forms.
        render::tool_answer(&context.out, &answer).map_err(|failure| advise(failure, &call.arg))
    }
}

/// Returns how long the server may work on a call before it answers. The server ends a command at
/// the call's own timeout.
fn duration(tool: &str, arguments: &Value) -> Duration {
    let given = arguments.get("timeout").and_then(Value::as_f64).map(|seconds| seconds.clamp(0.0, MOST_SECONDS));
    match (given, tool) {
        (Some(seconds), _) => Duration::from_secs_f64(seconds),
        // A transfer takes as long as the remote.
        (None, "git") => Duration::from_secs_f64(MOST_SECONDS),
        (None, _) => Duration::from_secs(60),
    }
}

/// Adds a hint for the most likely mistake: a number or a boolean given as text.
fn advise(failure: Failure, arguments: &[String]) -> Failure {
    let looks_like_json =
        |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|v| v.is_number() || v.is_boolean());
    let mut pairs = arguments.iter().filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, text)| !name.ends_with(':') && looks_like_json(text)) {
        Some((name, text)) if failure.hint.is_none() && failure.kind() == Kind::Failed => {
            failure.hint(format!("{name} was sent as text; --arg {name}:={text} sends it as JSON"))
        }
        _ => failure,
    }
}

pub(in crate::commands) fn arguments(all: Option<&str>, single: &[String]) -> Result<Value, Failure> {
    let all = match all {
        None => Value::Object(Map::new()),
        Some("-") => json_input::read_file("-")?,
        Some(text) => json_input::parse(text, "--args")?,
    };
    let Value::Object(mut fields) = all else { return Err(Failure::usage("--args must be a JSON object")) };
    for pair in single {
        let wrong = || Failure::usage(format!("--arg must be NAME=TEXT or NAME:=JSON, not {pair:?}"));
        let (name, text) = pair.split_once('=').ok_or_else(wrong)?;
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => (name, json_input::parse(text, &format!("--arg {name}"))?),
            None => (name, text.into()),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        fields.insert(name.to_owned(), value);
    }
    Ok(fields.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(all: Option<&str>, single: &[&str]) -> Result<Value, String> {
        let single: Vec<String> = single.iter().map(ToString::to_string).collect();
        arguments(all, &single).map_err(|failure| failure.sentence)
    }

    #[test]
    fn arguments_are_text_unless_they_are_marked_as_json() {
        assert_eq!(read(None, &[]).unwrap(), json!({}));
        assert_eq!(read(None, &["path=a=b", "limit:=5", "x="]).unwrap(), json!({"path": "a=b", "limit": 5, "x": ""}));
        assert_eq!(read(Some(r#"{"a":1,"b":2}"#), &["b=c"]).unwrap(), json!({"a": 1, "b": "c"}));
    }

    #[test]
    fn a_call_may_take_as_long_as_its_timeout() {
        let seconds = |tool, arguments| duration(tool, &arguments).as_secs();
        assert_eq!(seconds("bash", json!({"command": "x", "timeout": 120})), 120);
        assert_eq!(seconds("bash", json!({"command": "x", "timeout": 1e300})), 600);
        assert_eq!(seconds("bash", json!({"timeout": "x"})), 60);
        assert_eq!(seconds("git", json!({})), 600);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(read(None, &["path"]).unwrap_err(), "--arg must be NAME=TEXT or NAME:=JSON, not \"path\"");
        assert_eq!(read(None, &["n:=x"]).unwrap_err(), "--arg n is not JSON");
        assert_eq!(read(Some("[1]"), &[]).unwrap_err(), "--args must be a JSON object");
    }
}
