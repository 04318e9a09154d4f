//! Runs commands in a session's box: start, read, feed, signal, resize, kill.

use std::time::Duration;

use stead_core::content::Refusal;
use stead_core::decide::may_read_execs;
use stead_core::exec::{Exec, ExecFailureCode, ExecOrder, ExecOutput, TerminalSize};
use stead_core::tool::ToolName;
use stead_core::{Actor, Command, Effect, Event, ExecId, Rejection, Resource, SessionId, may_use_exec};
use stead_providers::{ExecError, InputEnd, Workspace};

use crate::claim::Claims;
use crate::clock;
use crate::effects::exec_watch;
use crate::effects::guard::guard_op;
use crate::effects::secret_env;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::{Intent, OpenSession};
use crate::ops::Idempotency;
use crate::ops::boxed;
use crate::ops::files::operate_files::{keep_unnoticed_changes, refuse};

/// An exec. Once it has finished, it has the head and tail of each output stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecView {
    pub id: ExecId,
    pub session: SessionId,
    pub exec: Exec,
    pub output: Option<ExecOutput>,
}

/// Starts a command. Waits for it, unless it runs in the background. It continues if the caller
/// goes away.
#[boxed]
pub async fn start_exec(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    order: ExecOrder,
    idempotency: Option<Idempotency>,
) -> Result<ExecView, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.in_lane(id, async move { start(&work, &actor, id, order, idempotency).await }).await
}

pub(super) async fn start(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    order: ExecOrder,
    idempotency: Option<Idempotency>,
) -> Result<ExecView, OpError> {
    let background = order.spec.background;
    let claims = Claims::new("execs", id, actor, idempotency);
    let session = OpenSession::open(engine, id).await?;
    if let Some(made) = claims.made_before(engine, "exec").await? {
        let exec = made.parse().map_err(|_| OpError::NotFound { what: Resource::Exec, id: made })?;
        if !background {
            wait_for_end(engine, &session, exec, None).await?;
        }
        return view(engine, &session, exec).await;
    }
    let exec = ExecId::from_bits(clock::id_bits());
    if order.env.secrets().next().is_some()
        && let Some(state) = session.state().await.session
    {
        secret_env::check(engine, &state.spec, order.env.secrets()).await?;
    }
    let command = Command::Exec { exec, order: Box::new(order) };
    if session.workspace().is_some_and(|workspace| workspace.execs().is_none()) {
        // Report a policy refusal before "unsupported".
        stead_core::decide(&session.state().await, command, actor).map_err(OpError::from)?;
        return Err(unsupported(&session, actor).await);
    }
    keep_unnoticed_changes(engine, &session).await;
    match session.commit_claimed(command, actor, |_| claims.on("exec", exec)).await {
        Err(OpError::Rejected(rejection)) => Err(refuse(&session, ToolName::Bash, rejection, actor).await),
        Ok(intent) => {
            match guard_op(perform(engine, &session, intent)).await {
                Err(OpError::Panicked) => {
                    let (code, message) = (ExecFailureCode::Internal, OpError::Panicked.to_string());
                    let bug = ExecError::Refused { code, message };
                    exec_watch::settle(engine, &session, exec, Some(Err(bug))).await?;
                }
                performed => performed?,
            }
            if !background {
                wait_for_end(engine, &session, exec, None).await?;
            }
            view(engine, &session, exec).await
        }
        Err(error) => Err(error),
    }
}

async fn unsupported(session: &OpenSession, actor: &Actor) -> OpError {
    let (code, message) = ("exec_unsupported".to_owned(), ExecError::Unsupported.to_string());
    let refused = Event::ToolCallRefused { tool: ToolName::Bash, code, message, actor: actor.clone() };
    match session.record_refusal(refused).await {
        Ok(()) => ExecError::Unsupported.into(),
        Err(error) => error,
    }
}

async fn perform(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<(), OpError> {
    let Some(Effect::Exec { exec, order, output_bytes }) = intent.effect else { return Err(OpError::Contended) };
    let env = secret_env::with_placeholders(engine, session.id(), order.env.clone());
    let order = ExecOrder { env, ..*order };
    pause("exec.perform").await;
    let Some(workspace) = session.workspace() else { return Ok(()) };
    let execs = workspace.execs().ok_or(ExecError::Unsupported)?;
    if !order.spec.background {
        let ended = tokio::select! {
            ended = execs.run(exec, order, output_bytes) => ended,
            // The command continues without this server, and the next one records its end.
            () = engine.stopping().cancelled() => return Err(OpError::ShuttingDown),
        };
        return exec_watch::settle(engine, session, exec, Some(ended)).await;
    }
    match execs.start(exec, order, output_bytes).await {
        Ok(()) => exec_watch::watch(engine, session, exec),
        Err(error) => exec_watch::settle(engine, session, exec, Some(Err(error))).await?,
    }
    Ok(())
}

/// Returns when a command has ended, or after the timeout.
async fn wait_for_end(
    engine: &Engine,
    session: &OpenSession,
    exec: ExecId,
    patience: Option<Duration>,
) -> Result<(), OpError> {
    let mut watch = session.watch();
    let over = async {
        while session.exec(exec).await.is_some_and(|exec| exec.running()) {
            if watch.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = over => Ok(()),
        () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)), if patience.is_some() => Ok(()),
        () = engine.stopping().cancelled() => Err(OpError::ShuttingDown),
    }
}

/// Returns an exec. With `patience`, waits until it has ended or the time is over.
#[boxed]
pub async fn exec(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    patience: Option<Duration>,
) -> Result<ExecView, OpError> {
    let session = readable(engine, actor, id).await?;
    if patience.is_some() {
        wait_for_end(engine, &session, exec, patience).await?;
    }
    view(engine, &session, exec).await
}

pub(in crate::ops) async fn view(engine: &Engine, session: &OpenSession, id: ExecId) -> Result<ExecView, OpError> {
    let exec = session.exec(id).await.ok_or(Rejection::NoExec { exec: id })?;
    // The output is only in the journal, because the state would grow with it.
    let output = match exec.ended_seq {
        Some(seq) => match engine.store().events(session.id(), seq - 1, 1).await?.pop() {
            Some(stored) => match serde_json::from_str(&stored.payload) {
                Ok(Event::ExecFinished { output, .. }) => Some(output),
                _ => None,
            },
            None => None,
        },
        None => None,
    };
    Ok(ExecView { id, session: session.id(), exec, output })
}

/// All running execs and the latest ended ones, oldest first, without their output.
#[boxed]
pub async fn execs(engine: &Engine, actor: &Actor, id: SessionId) -> Result<Vec<ExecView>, OpError> {
    let state = readable(engine, actor, id).await?.state().await;
    let found = state.session.iter().flat_map(|session| session.execs.iter());
    Ok(found.map(|(exec, it)| ExecView { id: exec, session: id, exec: it.clone(), output: None }).collect())
}

/// Writes bytes to a command's standard input.
#[boxed]
pub async fn feed_exec(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    bytes: &[u8],
    end: InputEnd,
) -> Result<(), OpError> {
    let workspace = allowed(engine, actor, id, exec, ToolName::Bash).await?;
    Ok(boxed(&*workspace)?.feed(exec, bytes, end).await?)
}

/// Sends a signal to a command's process group.
#[boxed]
pub async fn signal_exec(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    signal: i32,
) -> Result<(), OpError> {
    let workspace = allowed(engine, actor, id, exec, ToolName::Bash).await?;
    Ok(boxed(&*workspace)?.signal(exec, signal).await?)
}

/// Resizes a command's terminal.
#[boxed]
pub async fn resize_exec(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    size: TerminalSize,
) -> Result<(), OpError> {
    let workspace = allowed(engine, actor, id, exec, ToolName::Bash).await?;
    Ok(boxed(&*workspace)?.resize(exec, size).await?)
}

/// Kills every process of a command, including processes it left behind. Idempotent.
#[boxed]
pub async fn kill_exec(engine: &Engine, actor: &Actor, id: SessionId, exec: ExecId) -> Result<(), OpError> {
    let session = OpenSession::open(engine, id).await?;
    let known = session.exec(exec).await.ok_or(Rejection::NoExec { exec })?;
    match allowed(engine, actor, id, exec, ToolName::BashKill).await {
        // The session is closing or closed, and its processes end with the box.
        Err(OpError::Rejected(Rejection::NotActive { .. })) if !known.running() => Ok(()),
        workspace => kill(engine, &session, &*workspace?, exec).await,
    }
}

/// Kills a command for an actor whose permission has been checked.
pub(super) async fn kill(
    engine: &Engine,
    session: &OpenSession,
    workspace: &dyn Workspace,
    exec: ExecId,
) -> Result<(), OpError> {
    let known = session.exec(exec).await.ok_or(Rejection::NoExec { exec })?;
    match boxed(workspace)?.kill(exec).await {
        Ok(()) => wait_for_end(engine, session, exec, Some(Duration::from_secs(10))).await,
        // The command ended long ago, and the box no longer knows it.
        Err(ExecError::Unknown { .. }) if !known.running() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn boxed(workspace: &dyn Workspace) -> Result<&dyn stead_providers::Execs, ExecError> {
    workspace.execs().ok_or(ExecError::Unsupported)
}

/// Returns the session if the actor may read its execs.
pub(super) async fn readable(engine: &Engine, actor: &Actor, id: SessionId) -> Result<OpenSession, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let allowed = session.state().await.session.map_or(Ok(()), |state| may_read_execs(&state, actor));
    match allowed {
        Ok(()) => Ok(session),
        Err(rejection) => Err(refuse(&session, ToolName::Bash, rejection, actor).await),
    }
}

/// Returns the workspace if the actor may do to this exec what `tool` does.
async fn allowed(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    tool: ToolName,
) -> Result<std::sync::Arc<dyn Workspace>, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let state = session.state().await;
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    match may_use_exec(state.session.as_ref().ok_or_else(missing)?, exec, tool, actor) {
        Ok(()) => session.workspace().ok_or_else(missing),
        Err(rejection @ (Rejection::ToolNotEnabled { .. } | Rejection::Content(Refusal::ToolNotVisible { .. }))) => {
            Err(refuse(&session, tool, rejection, actor).await)
        }
        Err(rejection) => Err(rejection.into()),
    }
}
