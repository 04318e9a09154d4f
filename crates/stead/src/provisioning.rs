//! Creates a session and shows the progress of its provisioning, which comes from its events.
//!
//! The session is requested twice with one idempotency key: at once, and then with a wait until it
//! is settled. So the answer is the same as without a terminal, and lost progress does no harm.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use stead_api::{Event, Session};
use stead_core::{Event as Known, Status};

use crate::client::{Client, ClientError, segment, watch};
use crate::failure::Failure;
use crate::output::Output;
use crate::output::progress::Progress;

/// Time for which a command waits without showing progress.
const QUIET: Duration = Duration::from_secs(1);
/// Attempts to find an interrupted session, and the pause between two of them.
const CLOSE_TRIES: u32 = 100;
const CLOSE_PAUSE: Duration = Duration::from_millis(100);

/// Creates a session and returns it when it is settled, or its state after `wait`.
pub(crate) fn create_session(
    out: &Output,
    client: &Client,
    body: &Value,
    key: &str,
    wait: Duration,
) -> Result<Session, ClientError> {
    let held = format!("/sessions?wait={}", wait.as_secs());
    if !out.is_watched() || wait.is_zero() {
        return client.create(&held, body, key, wait);
    }
    let begun: Session = client.create("/sessions?wait=0", body, key, Duration::ZERO)?;
    if begun.status != Status::Provisioning {
        return Ok(begun);
    }
    let progress = Progress::working(out, "making the session");
    let (watcher, session, shown) = (client.clone(), begun.id.to_string(), progress.clone());
    // The thread is not joined: it ends with the stream or with this program.
    std::thread::spawn(move || watch(&watcher, &session, |event| show_event(&shown, event)));
    let settled = client.create(&held, body, key, wait);
    progress.end();
    settled
}

/// Creates a session for this program, waits while it makes progress, and closes it if interrupted.
pub(crate) fn create_own_session(
    out: &Output,
    client: &Client,
    body: &Value,
    key: &str,
    patience: Duration,
) -> Result<Session, Failure> {
    let interrupt = Interrupt::closes(client, body, key)?;
    // Most sessions are settled in one request.
    let begun = client.create::<Session>(&format!("/sessions?wait={}", QUIET.as_secs()), body, key, QUIET);
    let mut session = match begun {
        Ok(session) => session,
        Err(error) => return Err(interrupt.settle().map_or_else(|| error.into(), Failure::exit)),
    };
    let _ = interrupt.session.set(session.id.to_string());
    let mut before = None;
    // Progress restarts the wait, because a large image takes time.
    while session.status == Status::Provisioning && session.provisioning != before {
        before = session.provisioning;
        session = create_session(out, client, body, key, patience)?;
    }
    match interrupt.settle() {
        Some(code) => Err(Failure::exit(code)),
        None => Ok(session),
    }
}

/// Handles signals while this program creates a session that only it uses.
struct Interrupt {
    state: Arc<AtomicU8>,
    /// Id of the session, once the first request is answered.
    session: Arc<OnceLock<String>>,
}

/// Stored instead of an exit code: the session is settled, so signals no longer close it.
const SETTLED: u8 = 1;

impl Interrupt {
    /// On a signal, closes the session of this request. The key finds it, even if the answer to the
    /// request is still on its path.
    fn closes(client: &Client, body: &Value, key: &str) -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |error: std::io::Error| Failure::new("cannot wait for signals").because(&error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (mut interrupt, mut terminate) = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
        };
        let (client, body, key) = (client.clone(), body.clone(), key.to_owned());
        let state = Arc::new(AtomicU8::new(0));
        let stored = state.clone();
        let session = Arc::<OnceLock<String>>::default();
        let known = session.clone();
        // The thread is not joined: it ends with the first signal or with this program.
        std::thread::spawn(move || {
            let code = runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => 128 + 2,
                    _ = terminate.recv() => 128 + 15,
                }
            });
            if stored.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                close(&client, &known, &body, &key);
            }
        });
        Ok(Self { state, session })
    }

    /// Stops handling signals. Returns the exit code if a signal came before.
    fn settle(self) -> Option<u8> {
        self.state.compare_exchange(0, SETTLED, Ordering::SeqCst, Ordering::SeqCst).err()
    }
}

/// Closes the session of a request, which ends the request that waits for it.
///
/// The server refuses the key while a request with it is held, so this tries for longer than
/// [`QUIET`], until the id is known. Errors after that mean that there is no session.
fn close(client: &Client, known: &OnceLock<String>, body: &Value, key: &str) {
    for _ in 0..CLOSE_TRIES {
        let by_key = || client.create::<Session>("/sessions?wait=0", body, key, Duration::ZERO).ok();
        if let Some(id) = known.get().cloned().or_else(|| Some(by_key()?.id.to_string())) {
            let _ = client.delete::<Session>(&format!("/sessions/{}", segment(&id)));
            return;
        }
        std::thread::sleep(CLOSE_PAUSE);
    }
}

fn show_event(progress: &Progress, event: &Event) {
    match event.known() {
        Some(Known::ProvisionStarted { provider, .. }) => {
            progress.set_message(&format!("making a workspace with {provider}"))
        }
        Some(Known::InitStepStarted { action, .. }) => progress.set_message(&action.replace('_', " ")),
        Some(
            Known::InitStepProgress { stage, percent, detail, .. }
            | Known::ProvisionProgress { stage, percent, detail, .. },
        ) => progress.stage(&stage, percent, &detail),
        Some(Known::SetupOutputReceived { chunks, omitted, .. }) => {
            if omitted > 0 {
                progress.print(&format!("… {omitted} bytes omitted …"));
            }
            chunks.iter().for_each(|chunk| progress.print(&chunk.text));
        }
        Some(Known::ProvisionFailed { provider, .. }) => progress.set_message(&format!("{provider} failed")),
        _ => {}
    }
}
