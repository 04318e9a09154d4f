//! The flags that describe a session, shared by `session create` and `plan`.

use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::json_input;

#[derive(Debug, clap::Args)]
pub(crate) struct SessionRequest {
    /// The agent type of the session
    #[arg(short, long, value_name = "ID")]
    agent_type: String,
    /// Project of the session
    #[arg(short, long, value_name = "ID")]
    project: Option<String>,
    /// The task as JSON: a file, or - for standard input; the flags below override it
    #[arg(long, value_name = "FILE")]
    task_file: Option<String>,
    /// The task's id, for your own reference
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    /// Prompt of the task
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The task's repository
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Branch, tag or commit to start from
    #[arg(long, value_name = "REF")]
    branch: Option<String>,
    /// Branch to compare the work with
    #[arg(long, value_name = "REF")]
    base_branch: Option<String>,
    /// Pull request of the task
    #[arg(long, value_name = "NUMBER")]
    pull_request: Option<u64>,
    /// Source of the workspace's files: git, mount, empty, bundle, or a JSON object
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Environment variable for the workspace (repeatable)
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Environment variable that gets the placeholder of a secret; repeatable
    #[arg(long = "secret", value_name = "NAME=SECRET")]
    secrets: Vec<String>,
    /// Content of the session with an optional version; by default the newest
    #[arg(long, value_name = "NAME[@VERSION]")]
    content: Option<String>,
    /// Your own JSON object, kept with the session
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

impl SessionRequest {
    /// The request for a session with only an agent type.
    pub(crate) fn plain(agent_type: &str) -> Value {
        json!({"agent_type": agent_type})
    }

    /// The request body with the given flags. The server validates it.
    pub(crate) fn body(&self) -> Result<Value, Failure> {
        let mut body = Map::from_iter([("agent_type".to_owned(), self.agent_type.clone().into())]);
        set(&mut body, "project", self.project.clone());
        if let Some(content) = &self.content {
            body.insert("content".to_owned(), content_binding(content)?);
        }
        let task = self.task()?;
        if !task.is_empty() {
            body.insert("task".to_owned(), task.into());
        }
        if let Some(text) = &self.metadata {
            body.insert("metadata".to_owned(), json_input::parse(text, "--metadata")?);
        }
        Ok(body.into())
    }

    fn task(&self) -> Result<Map<String, Value>, Failure> {
        let mut task = match &self.task_file {
            None => Map::new(),
            Some(file) => match json_input::read_file(file)? {
                Value::Object(task) => task,
                _ => return Err(Failure::usage(format!("{file} does not hold a JSON object"))),
            },
        };
        set(&mut task, "id", self.task_id.clone());
        set(&mut task, "prompt", self.prompt.clone());
        let mut context = part(&mut task, "context")?;
        set(&mut context, "repository_url", self.repo.clone());
        set(&mut context, "branch", self.branch.clone());
        set(&mut context, "base_branch", self.base_branch.clone());
        set(&mut context, "pull_request_number", self.pull_request);
        put_back(&mut task, "context", context);
        if let Some(policy) = &self.policy {
            let object = policy.trim_start().starts_with('{');
            let value = if object { json_input::parse(policy, "--policy")? } else { policy.clone().into() };
            task.insert("workspace_policy".to_owned(), value);
        }
        let mut env = part(&mut task, "env")?;
        for pair in &self.env {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--env must be NAME=VALUE, not {pair:?}")))?;
            env.insert(name.to_owned(), value.into());
        }
        for pair in &self.secrets {
            let (name, secret) = pair
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--secret must be NAME=SECRET, not {pair:?}")))?;
            env.insert(name.to_owned(), serde_json::json!({"secret": secret}));
        }
        put_back(&mut task, "env", env);
        Ok(task)
    }
}

fn content_binding(text: &str) -> Result<Value, Failure> {
    let Some((name, version)) = text.split_once('@') else { return Ok(json!({"workspace": text})) };
    let wrong = |_| Failure::usage(format!("--content must be NAME[@VERSION], not {text:?}"));
    Ok(json!({"workspace": name, "version": version.parse::<u64>().map_err(wrong)?}))
}

fn set(fields: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Takes the object with this name out of the task, or creates one.
fn part(task: &mut Map<String, Value>, name: &str) -> Result<Map<String, Value>, Failure> {
    match task.remove(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(Failure::usage(format!("the task's {name} is not a JSON object"))),
    }
}

fn put_back(task: &mut Map<String, Value>, name: &str, fields: Map<String, Value>) {
    if !fields.is_empty() {
        task.insert(name.to_owned(), fields.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        request: SessionRequest,
    }

    fn body(args: &[&str]) -> Result<Value, String> {
        let line = CommandLine::try_parse_from([&["x"], args].concat()).map_err(|error| error.to_string())?;
        line.request.body().map_err(|failure| failure.sentence)
    }

    #[test]
    fn only_what_was_given_is_sent() {
        assert_eq!(body(&["-a", "coder"]).unwrap(), json!({"agent_type": "coder"}));
        let given = [
            "-a",
            "coder",
            "-p",
            "web",
            "--repo",
            "https://h/r",
            "--pull-request",
            "7",
            "-e",
            "A=b=c",
            "--policy",
            "git",
        ];
        assert_eq!(
            body(&given).unwrap(),
            json!({"agent_type": "coder", "project": "web", "task": {
                "context": {"repository_url": "https://h/r", "pull_request_number": 7},
                "workspace_policy": "git", "env": {"A": "b=c"}}})
        );
        let object = body(&["-a", "c", "--policy", r#"{"type":"empty"}"#]).unwrap();
        assert_eq!(object["task"]["workspace_policy"], json!({"type": "empty"}));
    }

    #[test]
    fn flags_go_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("task.json");
        std::fs::write(&file, r#"{"id":"t1","context":{"branch":"old","base_branch":"main"},"env":{"A":"1"}}"#)
            .unwrap();
        let file = file.display().to_string();
        assert_eq!(
            body(&["-a", "c", "--task-file", &file, "--branch", "new", "-e", "B=2"]).unwrap()["task"],
            json!({"id": "t1", "context": {"branch": "new", "base_branch": "main"}, "env": {"A": "1", "B": "2"}})
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(body(&["-a", "c", "-e", "novalue"]).unwrap_err(), "--env must be NAME=VALUE, not \"novalue\"");
        assert_eq!(body(&["-a", "c", "--policy", "{"]).unwrap_err(), "--policy is not JSON");
        assert!(body(&[]).unwrap_err().contains("--agent-type"));
    }
}
