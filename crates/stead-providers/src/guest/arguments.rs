//! The arguments of `bash` and `python`. Every refusal names the argument.

use std::collections::BTreeMap;

use serde_json::Value;
use stead_api::tool::command::{BASH_MAX_SECONDS, BashParameters, PYTHON_MAX_SECONDS, PythonParameters};
use stead_api::tool::parameters::Seconds;
use stead_core::config::ToolLimits;
use stead_core::plan::WORKSPACE_ROOT;

/// A parsed command.
pub(super) struct Command {
    /// The command or code as the agent wrote it.
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

pub(super) fn bash(arguments: &Value, limits: &ToolLimits) -> Result<Command, String> {
    let BashParameters { command, commands, cwd, env, stdin, timeout, capture_output } =
        BashParameters::read(arguments)?;
    let text = match (command, commands) {
        (Some(command), None) => command,
        (None, Some(commands)) => commands.join("\n"),
        (Some(_), Some(_)) => return Err("Give command or commands, not both.".to_owned()),
        (None, None) => return Err("command is required.".to_owned()),
    };
    check("command", &text, limits)?;
    let argv = ["/bin/bash", "-c", &text].map(str::to_owned).into();
    let timeout_ms = clamped(timeout, BASH_MAX_SECONDS);
    Ok(Command { text, argv, cwd: inside(cwd), env: env.0, stdin, timeout_ms, capture: capture(capture_output) })
}

pub(super) fn python(arguments: &Value, limits: &ToolLimits) -> Result<Command, String> {
    let PythonParameters { code: text, cwd, env, stdin, timeout, capture_output } = PythonParameters::read(arguments)?;
    check("code", &text, limits)?;
    let argv = ["python3", "-c", &text].map(str::to_owned).into();
    let timeout_ms = clamped(timeout, PYTHON_MAX_SECONDS);
    Ok(Command { text, argv, cwd: inside(cwd), env: env.0, stdin, timeout_ms, capture: capture(capture_output) })
}

fn check(name: &str, text: &str, limits: &ToolLimits) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("{name} must not be empty."));
    }
    if !text.is_ascii() || text.contains('\0') {
        return Err(format!("{name} must be ASCII; write other text to a file first."));
    }
    if text.len() as u64 > limits.command_chars {
        return Err(format!("{name} has {} characters, at most {} are allowed.", text.len(), limits.command_chars));
    }
    Ok(())
}

/// Milliseconds. Out-of-range timeouts are clamped to the limit.
fn clamped(timeout: Seconds, max: f64) -> u64 {
    (timeout.0.clamp(1.0, max) * 1_000.0) as u64
}

fn inside(cwd: String) -> String {
    if cwd.starts_with('/') { cwd } else { format!("{WORKSPACE_ROOT}/{cwd}") }
}

fn capture(kept: bool) -> Capture {
    if kept { Capture::Kept } else { Capture::Dropped }
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
        assert_eq!(
            refusal(json!({"command": "a", "env": {"A": 1}})),
            "env must be an object of at most 64 short strings."
        );
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
