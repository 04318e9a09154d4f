//! The `git` tool: the agent's repository is only ever touched by a git inside its box.
//!
//! What stays in the workspace is one git with the agent's words. What leaves or enters it goes through the server's mirror: a fetch brings a pack
//! in, a push takes a pack out, and the mirror speaks with the remote, which is always the session's own repository.

mod arguments;
mod exchange;
mod inside;

use std::pin::{Pin, pin};
use std::time::Duration;

use serde_json::{Value, json};
use stead_core::Status;
use stead_core::event::{Answer, Failure, ToolFailure};
use stead_providers::{Done, ToolDone, ToolOrder, Workspace};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::open_session::OpenSession;
use arguments::{Ask, Request};
use exchange::Exchange;
use inside::Inside;

/// How often a git in the box is told to end that may not have begun yet.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// Answers a call of the tool. One that fails is an answer too, and so is one that is cancelled or whose session ends: by then nothing
/// of it runs, in the box or beside the mirror.
pub(crate) async fn call(
    engine: &Engine,
    session: &OpenSession,
    workspace: &dyn Workspace,
    order: ToolOrder,
    cancelled: CancellationToken,
) -> ToolDone {
    let request = match Request::read(&order.arguments) {
        Ok(request) => request,
        Err(message) => return failed(&Failure::new("invalid_argument", message)),
    };
    let inside = Inside::new(workspace, &order);
    let mut work = pin!(perform(engine, session, &inside, request));
    let done = tokio::select! {
        done = &mut work => done,
        () = cancelled.cancelled() => end(&inside, work).await,
        () = over(session) => end(&inside, work).await,
    };
    match done {
        Ok(said) => answered(said),
        Err(failure) => failed(&failure),
    }
}

/// Ends what is under way. A git in the box is waited for; one of the mirror's ends when nobody waits for it any more.
async fn end(
    inside: &Inside<'_>,
    mut work: Pin<&mut impl Future<Output = Result<Said, Failure>>>,
) -> Result<Said, Failure> {
    inside.stop();
    while inside.is_running() {
        inside.kill().await;
        if let Ok(done) = tokio::time::timeout(CANCEL_AGAIN, &mut work).await {
            return done.and_then(|_| Err(inside::stopped()));
        }
    }
    Err(inside::stopped())
}

/// Returns when the session is no longer active.
async fn over(session: &OpenSession) {
    let mut watch = session.watch();
    while session.status().await == Status::Active {
        if watch.changed().await.is_err() {
            return;
        }
    }
}

/// What git said in the end, and how it ended.
struct Said {
    exit_code: i32,
    output: String,
    truncated: bool,
    timed_out: bool,
    more: Value,
}

async fn perform(
    engine: &Engine,
    session: &OpenSession,
    inside: &Inside<'_>,
    request: Request,
) -> Result<Said, Failure> {
    let exchange = Exchange::of(engine, session, inside).await?;
    match request.ask {
        Ask::Local { args } => {
            if let (Some(name), Some(exchange)) = (&request.wants, &exchange) {
                exchange.ensure(name).await?;
            }
            inside.say(args).await
        }
        remote => {
            let absent = || Failure::new("no_repository", "this session has no repository to speak with");
            let exchange = exchange.ok_or_else(absent)?;
            match remote {
                Ask::Clone => exchange.clone_here().await,
                Ask::Fetch { branch, history } => exchange.fetch(branch, history).await,
                Ask::Pull { branch, history } => exchange.pull(branch, history).await,
                Ask::Push { from, to, force } => exchange.push(from, to, force).await,
                Ask::Local { .. } => Err(absent()),
            }
        }
    }
}

fn answered(said: Said) -> ToolDone {
    let message = match (said.timed_out, said.exit_code) {
        (true, _) => "git took too long and was ended.".to_owned(),
        (_, 0) => "Done.".to_owned(),
        (_, code) => format!("git ended with exit code {code}."),
    };
    let mut result = json!({
        "exit_code": said.exit_code, "output": said.output, "truncated": said.truncated, "timed_out": said.timed_out,
    });
    if let (Some(result), Value::Object(more)) = (result.as_object_mut(), said.more) {
        result.extend(more);
    }
    ToolDone { answer: Answer { result: Some(result), error: None, message }, done: Done::nothing() }
}

fn failed(failure: &Failure) -> ToolDone {
    let error = ToolFailure { code: failure.code.clone(), message: failure.message.clone(), hint: None };
    let answer = Answer { result: None, error: Some(error), message: failure.message.clone() };
    ToolDone { answer, done: Done::nothing() }
}
