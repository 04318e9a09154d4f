//! The arguments of `bash` and `python`: hostile until read by name and type. Every refusal names the argument.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use stead_core::config::ToolLimits;
use stead_core::plan::WORKSPACE_ROOT;

/// A command to run, or why there is none.
pub(super) struct Command {
    /// As the agent wrote it.
    pub(super) text: String,
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    pub(super) env: BTreeMap<String, String>,
    pub(super) stdin: Option<String>,
    pub(super) timeout_ms: u64,
    pub(super) capture: Capture,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    Kept,
    Dropped,
}

const MOST_VARIABLES: usize = 64;

pub(super) fn bash(arguments: &Value, limits: &ToolLimits) -> Result<Command, String> {
    let names = ["command", "commands", "cwd", "env", "stdin", "timeout", "capture_output"];
    let given = Given::of(arguments, &names)?;
    let text = match (given.text("command")?, given.list("commands")?) {
        (Some(command), None) => command,
        (None, Some(commands)) => commands.join("\n"),
        (Some(_), Some(_)) => return Err("Give command or commands, not both.".to_owned()),
        (None, None) => return Err("command is required.".to_owned()),
    };
    let argv = ["/bin/bash", "-c", &text].map(str::to_owned).into();
    given.command("command", text, argv, limits, 30.0, 120.0)
}

pub(super) fn python(arguments: &Value, limits: &ToolLimits) -> Result<Command, String> {
    let given = Given::of(arguments, &["code", "cwd", "env", "stdin", "timeout", "capture_output"])?;
    let text = given.text("code")?.ok_or("code is required.")?;
    let argv = ["python3", "-c", &text].map(str::to_owned).into();
    given.command("code", text, argv, limits, 5.0, 5.0)
}

struct Given<'a>(Option<&'a Map<String, Value>>);

impl<'a> Given<'a> {
    fn of(arguments: &'a Value, names: &[&str]) -> Result<Self, String> {
        let values = match arguments {
            Value::Null => None,
            Value::Object(values) => Some(values),
            _ => return Err("arguments must be a JSON object.".to_owned()),
        };
        match values.into_iter().flat_map(Map::keys).find(|name| !names.contains(&name.as_str())) {
            Some(unknown) => {
                let unknown: String = unknown.chars().take(80).collect();
                Err(format!("Unknown argument '{unknown}'; the arguments are {}.", names.join(", ")))
            }
            None => Ok(Self(values)),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{name} must be a string.")),
        }
    }

    fn list(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let texts =
            value.as_array().and_then(|list| list.iter().map(|text| text.as_str().map(str::to_owned)).collect());
        texts.map(Some).ok_or_else(|| format!("{name} must be a list of strings."))
    }

    fn env(&self) -> Result<BTreeMap<String, String>, String> {
        let Some(value) = self.get("env") else { return Ok(BTreeMap::new()) };
        let values = value.as_object().ok_or("env must be an object of strings.")?;
        if values.len() > MOST_VARIABLES {
            return Err(format!("env has at most {MOST_VARIABLES} variables."));
        }
        let variable = |(name, value): (&String, &Value)| {
            let plain = !name.is_empty() && !name.contains(['=', '\0']) && name.len() <= 128;
            let value = value.as_str().filter(|value| !value.contains('\0') && value.len() <= 8_192);
            value.filter(|_| plain).map(|value| (name.clone(), value.to_owned()))
        };
        values
            .iter()
            .map(variable)
            .collect::<Option<_>>()
            .ok_or_else(|| "env must be an object of short strings.".to_owned())
    }

    fn command(
        &self,
        name: &str,
        text: String,
        argv: Vec<String>,
        limits: &ToolLimits,
        usual_seconds: f64,
        most_seconds: f64,
    ) -> Result<Command, String> {
        if text.trim().is_empty() {
            return Err(format!("{name} must not be empty."));
        }
        if !text.is_ascii() || text.contains('\0') {
            return Err(format!("{name} must be ASCII; write other text to a file first."));
        }
        if text.len() as u64 > limits.command_chars {
            return Err(format!("{name} has {} characters, at most {} are allowed.", text.len(), limits.command_chars));
        }
        let seconds = match self.get("timeout") {
            None => usual_seconds,
            // Asked for too much or too little, it gets what there is.
            Some(value) => value.as_f64().ok_or("timeout must be a number of seconds.")?.clamp(1.0, most_seconds),
        };
        let capture = match self.get("capture_output") {
            None | Some(Value::Bool(true)) => Capture::Kept,
            Some(Value::Bool(false)) => Capture::Dropped,
            Some(_) => return Err("capture_output must be true or false.".to_owned()),
        };
        let cwd = match self.text("cwd")? {
            None => WORKSPACE_ROOT.to_owned(),
            Some(path) if path.starts_with('/') => path,
            Some(path) => format!("{WORKSPACE_ROOT}/{path}"),
        };
        let (env, stdin) = (self.env()?, self.text("stdin")?);
        Ok(Command { text, argv, cwd, env, stdin, timeout_ms: (seconds * 1_000.0) as u64, capture })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(arguments: Value) -> String {
        bash(&arguments, &ToolLimits::default()).err().unwrap_or_default()
    }

    #[test]
    fn each_refusal_names_its_argument() {
        assert_eq!(refusal(json!({})), "command is required.");
        assert_eq!(refusal(json!({"command": "a", "commands": []})), "Give command or commands, not both.");
        assert_eq!(refusal(json!({"command": 1})), "command must be a string.");
        assert_eq!(
            refusal(json!({"command": "caf\u{e9}"})),
            "command must be ASCII; write other text to a file first."
        );
        assert_eq!(
            refusal(json!({"command": "x".repeat(5000)})),
            "command has 5000 characters, at most 4096 are allowed."
        );
        assert_eq!(refusal(json!({"command": "a", "env": {"A": 1}})), "env must be an object of short strings.");
        assert!(refusal(json!({"command": "a", "shell": "sh"})).starts_with("Unknown argument 'shell'"));
    }

    #[test]
    fn what_is_not_said_is_usual_and_what_is_too_much_is_cut() {
        let limits = ToolLimits::default();
        let command = bash(&json!({"commands": ["cd a", "ls"], "cwd": "b", "timeout": 9999}), &limits).ok().unwrap();
        assert_eq!(
            (command.text.as_str(), command.cwd.as_str(), command.timeout_ms),
            ("cd a\nls", "/workspace/b", 120_000)
        );
        let command = python(&json!({"code": "1", "timeout": 0}), &limits).ok().unwrap();
        assert_eq!(
            (command.cwd.as_str(), command.timeout_ms, command.argv[0].as_str()),
            ("/workspace", 1_000, "python3")
        );
    }
}
