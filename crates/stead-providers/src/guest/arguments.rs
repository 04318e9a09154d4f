//! The arguments of `bash` and `python`. Every refusal names the argument.

use std::collections::BTreeMap;

use serde_json::Value;
use stead_api::tool::command::{BashParameters, PythonParameters};
use stead_api::tool::shell::ShellParameters;
use stead_box::protocol::ShellBegin;
use stead_core::config::{CallLimits, Charset};
use stead_core::plan::WORKSPACE_ROOT;

/// A parsed command.
#[derive(Debug, Clone)]
pub struct Command {
    /// The command or code as the agent wrote it.
    pub text: String,
    pub(super) language: Language,
    pub argv: Vec<String>,
    pub cwd: String,
    pub env: BTreeMap<String, String>,
    pub stdin: Option<String>,
    pub timeout_ms: u64,
    pub(super) capture: Capture,
}

impl Command {
    /// Returns the command for a result, without the end of a long one: the caller has it whole.
    pub fn brief(&self, limits: &CallLimits) -> String {
        super::command::brief(&self.text, limits)
    }
}

/// The language of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Shell,
    Python,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    Kept,
    Dropped,
}

/// Reads the arguments of `bash`. `background` is the caller's concern.
pub fn bash(arguments: &Value, limits: &CallLimits) -> Result<Command, String> {
    let BashParameters { command, commands, cwd, env, stdin, timeout, capture_output, background: _ } =
        BashParameters::read(arguments)?;
    let text = match (command, commands) {
        (Some(command), None) => command,
        (None, Some(commands)) => commands.join("\n"),
        (Some(_), Some(_)) => return Err("Give command or commands, not both.".to_owned()),
        (None, None) => return Err("command is required.".to_owned()),
    };
    check("command", &text, limits)?;
    let argv = ["/bin/bash", "-c", &text].map(str::to_owned).into();
    let (timeout_ms, capture) = (timeout.millis(), capture(capture_output));
    Ok(Command { text, language: Language::Shell, argv, cwd: inside(cwd), env: env.0, stdin, timeout_ms, capture })
}

pub(super) fn python(arguments: &Value, limits: &CallLimits) -> Result<Command, String> {
    let PythonParameters { code: text, cwd, env, stdin, timeout, capture_output } = PythonParameters::read(arguments)?;
    check("code", &text, limits)?;
    let argv = ["python3", "-c", &text].map(str::to_owned).into();
    let (timeout_ms, capture) = (timeout.millis(), capture(capture_output));
    Ok(Command { text, language: Language::Python, argv, cwd: inside(cwd), env: env.0, stdin, timeout_ms, capture })
}

/// A command for the persistent shell.
pub(super) struct ShellCall {
    pub(super) command: Option<String>,
    pub(super) begin: ShellBegin,
    pub(super) timeout_ms: u64,
}

pub(super) fn shell(arguments: &Value, limits: &CallLimits) -> Result<ShellCall, String> {
    let ShellParameters { command, restart, timeout } = ShellParameters::read(arguments)?;
    match &command {
        Some(command) => check("command", command, limits)?,
        None if restart => {}
        None => return Err("command is required, unless restart is true.".to_owned()),
    }
    let begin = if restart { ShellBegin::Restart } else { ShellBegin::Continue };
    Ok(ShellCall { command, begin, timeout_ms: timeout.millis() })
}

fn check(name: &str, text: &str, limits: &CallLimits) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("{name} must not be empty."));
    }
    if limits.charset == Charset::Ascii && !text.is_ascii() {
        return Err(format!("{name} must be ASCII; write other text to a file first."));
    }
    if text.contains('\0') {
        return Err(format!("{name} must not contain a NUL character."));
    }
    if text.len() as u64 > limits.command_bytes {
        let (length, unit, most) = (text.len(), limits.charset.unit(), limits.command_bytes);
        return Err(format!("{name} has {length} {unit}, at most {most} are allowed."));
    }
    Ok(())
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
    use stead_core::config::{Preset, ToolLimits};

    fn refusal(arguments: Value) -> String {
        bash(&arguments, &CallLimits::default()).err().unwrap_or_default()
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
        assert_eq!(refusal(json!({"command": "a\u{0}b"})), "command must not contain a NUL character.");
    }

    #[test]
    fn the_preset_open_takes_utf8_and_counts_bytes() {
        let open = ToolLimits::of(Preset::Open).for_call(None);
        assert!(bash(&json!({"command": "echo \u{2713}"}), &open).is_ok());
        assert!(bash(&json!({"command": "x".repeat(131_071)}), &open).is_ok());
        let refusal = bash(&json!({"command": "\u{e9}".repeat(65_536)}), &open).err().unwrap();
        assert_eq!(refusal, "command has 131072 bytes, at most 131071 are allowed.");
    }

    #[test]
    fn absent_arguments_have_defaults_and_a_timeout_has_a_range() {
        let limits = CallLimits::default();
        for timeout in [json!(0), json!(121), json!(1.5), json!(-1), json!("10"), json!(1e300)] {
            let refused = bash(&json!({"command": "a", "timeout": timeout}), &limits).err().unwrap();
            assert_eq!(refused, "timeout must be a whole number of seconds from 1 to 120.");
        }
        let refused = python(&json!({"code": "1", "timeout": 6}), &limits).err().unwrap();
        assert_eq!(refused, "timeout must be a whole number of seconds from 1 to 5.");
        let command = bash(&json!({"commands": ["cd a", "ls"], "cwd": "b", "timeout": 120}), &limits).ok().unwrap();
        assert_eq!(
            (command.text.as_str(), command.cwd.as_str(), command.timeout_ms),
            ("cd a\nls", "/workspace/b", 120_000)
        );
        let command = python(&json!({"code": "1", "timeout": 1.0}), &limits).ok().unwrap();
        assert_eq!(
            (command.cwd.as_str(), command.timeout_ms, command.argv[0].as_str()),
            ("/workspace", 1_000, "python3")
        );
    }
}
