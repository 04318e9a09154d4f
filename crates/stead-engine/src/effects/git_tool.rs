//! The `git` tool. Only git processes inside the box touch the agent's repository.
//!
//! A local command runs one git in the box with the agent's arguments. Transfers go through the
//! server's mirror: a fetch copies a pack into the box, and a push copies a pack out of it. The
//! mirror talks to the remote, which is always the session's own repository.

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

/// Interval between attempts to kill a git in the box, which may not have started yet.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// Answers a call of the tool. Failures and cancelled calls are answers too, also when the session
/// ends. After the answer none of its processes runs, neither in the box nor beside the mirror.
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
        Ok(output) => answered(output),
        Err(failure) => failed(&failure),
    }
}

/// Ends the running work. Waits for a git in the box. A git of the mirror ends when its future is
/// dropped.
async fn end(
    inside: &Inside<'_>,
    mut work: Pin<&mut impl Future<Output = Result<GitOutput, Failure>>>,
) -> Result<GitOutput, Failure> {
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

/// The output of git and its exit status.
struct GitOutput {
    exit_code: i32,
    output: String,
    /// Number of bytes that git wrote.
    total: u64,
    truncated: bool,
    timed_out: bool,
    more: Value,
}

async fn perform(
    engine: &Engine,
    session: &OpenSession,
    inside: &Inside<'_>,
    request: Request,
) -> Result<GitOutput, Failure> {
    let exchange = Exchange::of(engine, session, inside).await?;
    match request.ask {
        Ask::Local { args } => {
            if let (Some(name), Some(exchange)) = (&request.wants, &exchange) {
                exchange.ensure(name).await?;
            }
            inside.run(args).await
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

fn answered(output: GitOutput) -> ToolDone {
    let mut message = match (output.timed_out, output.exit_code) {
        (true, _) => "git took too long and was ended.".to_owned(),
        (_, 0) => "Done.".to_owned(),
        (_, code) => format!("git ended with exit code {code}."),
    };
    if output.truncated {
        message.push_str(
            " The middle of the output is omitted: limit it, for example with a path or a number of commits.",
        );
    }
    let mut result = json!({
        "exit_code": output.exit_code, "output": output.output, "output_total": output.total,
        "truncated": output.truncated, "timed_out": output.timed_out,
    });
    if let (Some(result), Value::Object(more)) = (result.as_object_mut(), output.more) {
        result.extend(more);
    }
    ToolDone { answer: Answer { result: Some(result), error: None, message }, done: Done::nothing() }
}

fn failed(failure: &Failure) -> ToolDone {
    let error = ToolFailure { code: failure.code.clone(), message: failure.message.clone(), hint: None };
    let answer = Answer { result: None, error: Some(error), message: failure.message.clone() };
    ToolDone { answer, done: Done::nothing() }
}
