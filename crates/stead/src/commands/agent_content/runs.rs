//! `stead runs …`: runs and steps of a session, and tool calls for a run.

use serde_json::{Map, Value, json};
use stead_api::List;
use stead_api::run::{self as api, BoundAnswer, Run};

use crate::client::segment;
use crate::commands::execution::tool::arguments;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::{self, cell};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RunsCommand {
    /// Start a run and print its id
    Start(Start),
    /// Take a step and print the request for the model
    Step(Step),
    /// Call a tool as the run's model would, with the same checks
    Call(Call),
    /// List a session's runs
    Ls {
        /// The session's id
        session: String,
    },
    /// Mark a run as completed
    Complete {
        /// The session's id
        session: String,
        /// The run's id
        run: String,
    },
    /// Cancel a run
    Cancel {
        /// The session's id
        session: String,
        /// The run's id
        run: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    /// The session's id
    session: String,
    /// Model provider [default: the session's]
    #[arg(long)]
    provider: Option<String>,
    /// Model [default: the session's]
    #[arg(long)]
    model: Option<String>,
    /// Message of the user
    #[arg(long, value_name = "TEXT")]
    input: Option<String>,
    /// Prompt pack of the content, instead of its default
    #[arg(long, value_name = "NAME")]
    prompt_pack: Option<String>,
    /// A tool catalog of the content, or a built-in one
    #[arg(long, value_name = "NAME")]
    tool_catalog: Option<String>,
    /// Content version to use for the whole run
    #[arg(long, value_name = "VERSION")]
    workspace_version: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Step {
    /// The session's id
    session: String,
    /// The run's id
    run: String,
    /// New messages since the last step, as a JSON array
    #[arg(long, value_name = "JSON")]
    messages: Option<String>,
    /// Format of the request: neutral, anthropic or openai
    #[arg(long, default_value = "neutral", value_parser = ["neutral", "anthropic", "openai"])]
    format: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Call {
    /// The session's id
    session: String,
    /// The run's id
    run: String,
    /// The tool's name in the run's catalog
    tool: String,
    /// An argument: name=text, or name:=JSON for numbers, true and false (repeatable)
    #[arg(short = 'a', long = "arg", value_name = "NAME=VALUE")]
    arg: Vec<String>,
    /// All arguments as a JSON object, or - to read them from standard input; --arg overrides them
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
}

fn at(session: &str, run: &str, below: &str) -> String {
    format!("/sessions/{}/runs/{}{below}", segment(session), segment(run))
}

impl RunsCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        match self {
            Self::Start(start) => {
                let run: Run = client.post(&format!("/sessions/{}/runs", segment(&start.session)), &start.body())?;
                out.either(&run, || out.line(&cell(&run.id)))
            }
            Self::Step(step) => step.run(context),
            Self::Call(call) => call.run(context),
            Self::Ls { session } => {
                let runs: List<Run> = client.get(&format!("/sessions/{}/runs", segment(session)))?;
                out.either(&runs, || {
                    let mut table = Table::new(&["run", "status", "steps", "provider", "model", "started"]);
                    for run in &runs.items {
                        table.row(&[
                            &cell(&run.id),
                            &cell(&run.status),
                            &run.steps.to_string(),
                            &cell(&run.provider),
                            &cell(&run.model),
                            &render::timestamp(&run.started_at),
                        ]);
                    }
                    out.table(&table)
                })
            }
            Self::Complete { session, run } => end(context, &at(session, run, "/complete")),
            Self::Cancel { session, run } => end(context, &at(session, run, "/cancel")),
        }
    }
}

fn end(context: &Context, path: &str) -> Result<(), Failure> {
    let run: Run = context.client()?.post(path, &json!({}))?;
    context.out.either(&run, || context.out.line(&format!("{} is {}", run.id, run.status)))
}

impl Start {
    fn body(&self) -> Value {
        let texts = [
            ("provider", &self.provider),
            ("model", &self.model),
            ("input", &self.input),
            ("prompt_pack", &self.prompt_pack),
            ("tool_catalog", &self.tool_catalog),
        ];
        let given =
            texts.iter().filter_map(|(name, text)| Some(((*name).to_owned(), Value::from(text.as_ref()?.clone()))));
        let mut body: Map<String, Value> = given.collect();
        if let Some(version) = self.workspace_version {
            body.insert("workspace_version".to_owned(), version.into());
        }
        body.into()
    }
}

impl Step {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let messages = match &self.messages {
            Some(text) => crate::json_input::parse(text, "--messages")?,
            None => json!([]),
        };
        let path = at(&self.session, &self.run, &format!("/steps?format={}", self.format));
        let step: api::Step = context.client()?.post(&path, &json!({"messages": messages}))?;
        // The request is for a program to send, so it is JSON in both output forms.
        if context.out.is_json() { context.out.json(&step) } else { context.out.json(&step.request) }
    }
}

impl Call {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let body = json!({"name": self.tool, "arguments": arguments(self.args.as_deref(), &self.arg)?});
        let answer: BoundAnswer = context.client()?.post(&at(&self.session, &self.run, "/tool-calls"), &body)?;
        if context.out.is_json() {
            context.out.json(&answer)?;
            if answer.ok {
                return Ok(());
            }
        }
        render::tool_answer(&context.out, &answer)
    }
}
