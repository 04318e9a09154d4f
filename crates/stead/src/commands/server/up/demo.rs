//! The demo: the steps of a client over HTTP, with the command for each.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_api::session::replay::Replay;
use stead_api::session::workspace::Workspace;
use stead_api::tool::ToolAnswer;
use stead_api::{Code, Session};
use stead_core::Status;

use super::{EXAMPLE, print_line};
use crate::client::{Client, ClientError, segment};
use crate::commands::sessions::replay;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Mark;
use crate::render::{self, cell};
use crate::session_request::SessionRequest;

const SHOWN_EVENTS: u64 = 8;
const WAIT: u64 = 30;

/// Says if the server keeps running after the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Afterwards {
    Running,
    Stopped,
}

struct Tour<'a> {
    context: &'a Context,
    client: &'a Client,
    session: String,
}

pub(super) fn run(context: &Context, client: &Client, afterwards: Afterwards) -> Result<(), Failure> {
    let tour = begin(context, client)?;
    tour.heading("2. Its tools")?;
    tour.call(
        "write",
        &json!({"path": "notes/hello.txt", "content": "Hello from Stead.\nEvery step is in the journal.\n"}),
    )?;
    tour.call("read", &json!({"path": "notes/hello.txt"}))?;
    tour.call("ls", &json!({"path": "/notes"}))?;
    tour.call("grep", &json!({"pattern": "journal"}))?;
    tour.heading("3. A tool the agent type does not have")?;
    tour.call_refused()?;
    tour.heading("4. The journal")?;
    tour.events()?;
    tour.heading("5. The proof: fold the journal again and compare with the live state")?;
    let report = tour.replay()?;
    tour.heading("6. The end")?;
    tour.close()?;
    let value = json!({
        "url": client.url(), "home": context.config.home.path(), "agent_type": EXAMPLE,
        "session": tour.session, "replay": report,
    });
    context.out.either(&value, || what_next(context, afterwards))
}

fn begin<'a>(context: &'a Context, client: &'a Client) -> Result<Tour<'a>, Failure> {
    let mut tour = Tour { context, client, session: String::new() };
    tour.heading("1. A session")?;
    tour.command("session create --agent-type example")?;
    let started = Instant::now();
    let key = uuid::Uuid::now_v7().to_string();
    let body = SessionRequest::plain(EXAMPLE);
    let session: Session = client.create(&format!("/sessions?wait={WAIT}"), &body, &key, Duration::from_secs(WAIT))?;
    if session.status != Status::Active {
        let why = session.failure.map_or_else(|| session.status.to_string(), |failure| failure.message);
        return Err(Failure::new(format!("the session did not become active: {why}")));
    }
    tour.session = session.id.to_string();
    let took = started.elapsed().as_millis();
    let made = session.workspace.map(|Workspace { policy, provider, .. }| {
        let provider = cell(&provider);
        format!(": policy {} (from the {} layer), provider {provider}", policy.policy, policy.source)
    });
    tour.good(&format!("{} is active after {took} ms{}", tour.session, made.unwrap_or_default()))?;
    Ok(tour)
}

impl Tour<'_> {
    fn heading(&self, text: &str) -> Result<(), Failure> {
        if self.context.out.is_json() { Ok(()) } else { self.context.out.heading(&format!("\n{text}")) }
    }

    fn command(&self, text: &str) -> Result<(), Failure> {
        if self.context.out.is_json() { Ok(()) } else { self.context.out.command(&format!("stead {text}")) }
    }

    fn good(&self, text: &str) -> Result<(), Failure> {
        print_line(self.context, Mark::Good, text)
    }

    fn path(&self, rest: &str) -> String {
        format!("/sessions/{}{rest}", segment(&self.session))
    }

    fn call(&self, tool: &str, arguments: &Value) -> Result<(), Failure> {
        let shown: Vec<String> = arguments
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("--arg {name}={}", quoted(&cell(value))))
            .collect();
        self.command(&format!("tool call {} {tool} {}", self.session, shown.join(" ")))?;
        let answer: ToolAnswer = self.client.post(&self.path(&format!("/tools/{tool}")), arguments)?;
        if self.context.out.is_json() && answer.ok {
            return Ok(());
        }
        render::tool_answer(&self.context.out, &answer)
    }

    fn call_refused(&self) -> Result<(), Failure> {
        self.command(&format!("tool call {} git --arg command=push", self.session))?;
        match self.client.post::<ToolAnswer>(&self.path("/tools/git"), &json!({"command": "push"})) {
            Err(ClientError::Refused(problem)) if problem.code == Code::ToolNotEnabled => {
                print_line(self.context, Mark::Bad, &format!("refused with {}: {}", problem.status, problem.detail))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(Failure::new("git was not refused: the agent type `example` was changed to allow it")
                .hint("`stead agent-type get example` shows it")),
        }
    }

    fn events(&self) -> Result<(), Failure> {
        self.command(&format!("events {}", self.session))?;
        let after = self.client.get::<Session>(&self.path(""))?.seq.saturating_sub(SHOWN_EVENTS);
        let listing = self.client.list(&self.path(&format!("/events?after={after}")), 500)?;
        if self.context.out.is_json() {
            return Ok(());
        }
        self.context.out.table(&render::event_table(&listing.items))
    }

    fn replay(&self) -> Result<Replay, Failure> {
        self.command(&format!("replay {}", self.session))?;
        let report = self.client.get(&self.path("/replay"))?;
        replay::judge(&self.context.out, &report)?;
        Ok(report)
    }

    fn close(&self) -> Result<(), Failure> {
        self.command(&format!("session close {}", self.session))?;
        self.client.delete::<Session>(&self.path(""))?;
        self.good(&format!("{} is closed; its journal stays", self.session))
    }
}

/// Quotes a text for a shell if necessary.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if !text.contains(['\n', '\'', '\\']) {
        return format!("'{text}'");
    }
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    format!("$'{escaped}'")
}

pub(super) fn what_next(context: &Context, afterwards: Afterwards) -> Result<(), Failure> {
    let (out, stead) = (&context.out, context.config.program());
    out.heading("\nWhat to do next")?;
    if afterwards == Afterwards::Stopped {
        out.line("Start the server and leave it running:")?;
        out.command(&format!("{stead} up"))?;
    }
    out.line("In another terminal:")?;
    out.command(&format!("{stead} session create --agent-type {EXAMPLE}"))?;
    out.command(&format!("{stead} tool call SESSION write --arg path=a.txt --arg content=hello"))?;
    out.command(&format!("{stead} shell SESSION"))?;
    out.command(&format!("{stead} events SESSION --follow"))?;
    out.command(&format!("{stead} replay SESSION"))?;
    out.line("One command on a copy of this directory, and what it changed:")?;
    out.command(&format!("{stead} run --dir . -- ls"))?;
    out.line("Make an agent type of your own, and check this machine:")?;
    out.command(&format!("{stead} agent-type get {EXAMPLE} --workspace-config"))?;
    out.command(&format!("{stead} doctor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_can_be_copied_into_a_shell() {
        assert_eq!(quoted("notes/hello.txt"), "notes/hello.txt");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("a\nb"), r"$'a\nb'");
        assert_eq!(quoted("it's"), r"$'it\'s'");
        assert_eq!(quoted(""), "''");
    }
}
