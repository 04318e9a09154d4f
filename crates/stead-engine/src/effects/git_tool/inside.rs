//! The git processes of one call in the box, and their files there.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use stead_core::Timestamp;
use stead_core::config::CallLimits;
use stead_core::event::{Existing, Failure, Parents};
use stead_fs::Content;
use stead_providers::{Captured, FileOrder, GitOrder, GitRan, ToolOrder, Workspace};

use super::GitOutput;

const TIMEOUT_MS: u64 = 120_000;
/// Maximum size of the output of a git that the server runs for itself.
const ANSWER_BYTES: u64 = 1 << 20;

pub(super) struct Inside<'a> {
    workspace: &'a dyn Workspace,
    call: String,
    limits: CallLimits,
    now: Timestamp,
    number: AtomicU64,
    /// The git that is running in the box.
    running: Mutex<Option<String>>,
    stopped: AtomicBool,
}

/// The failure of a cancelled call.
pub(super) fn stopped() -> Failure {
    Failure::new("cancelled", "the call was cancelled; of a push that was under way only the remote knows")
}

impl<'a> Inside<'a> {
    pub(super) fn new(workspace: &'a dyn Workspace, order: &ToolOrder) -> Self {
        let (call, limits) = (order.call.to_string(), order.limits);
        let (running, stopped) = (Mutex::default(), AtomicBool::new(false));
        Self { workspace, call, limits, now: order.now, number: AtomicU64::new(0), running, stopped }
    }

    pub(super) fn call(&self) -> &str {
        &self.call
    }

    /// Prevents further gits from starting.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_running(&self) -> bool {
        self.current().is_some()
    }

    pub(super) async fn kill(&self) {
        if let Some(exec) = self.current()
            && let Some(git) = self.workspace.git()
        {
            git.kill(&exec).await;
        }
    }

    fn current(&self) -> Option<String> {
        // The value is set as a whole, so a panic elsewhere cannot corrupt it.
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, exec: Option<String>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = exec;
    }

    async fn git(&self, args: Vec<String>, input: Vec<u8>, output_bytes: u64) -> Result<GitRan, Failure> {
        let no_box = || Failure::new("tool_unavailable", "Tool 'git' needs a box, and this workspace has none.");
        let git = self.workspace.git().ok_or_else(no_box)?;
        let exec = format!("{}_{}", self.call, self.number.fetch_add(1, Ordering::Relaxed));
        self.set_current(Some(exec.clone()));
        if self.stopped.load(Ordering::SeqCst) {
            self.set_current(None);
            return Err(stopped());
        }
        let ran = git.run(GitOrder { exec, args, input, timeout_ms: TIMEOUT_MS, output_bytes }).await;
        self.set_current(None);
        ran.map_err(|error| error.to_failure())
    }

    /// Runs git with the agent's arguments. Its output is the answer, also if it fails.
    pub(super) async fn run(&self, args: Vec<String>) -> Result<GitOutput, Failure> {
        /// Room for the message and the fields that a transfer adds.
        const FIELDS: usize = 512;
        let ran = self.git(args, Vec::new(), self.limits.stream_bytes()).await?;
        let GitRan { exit_code, timed_out, stdout, stderr } = ran;
        let total = stdout.total.saturating_add(stderr.total);
        let [(stdout, less_stdout), (stderr, less_stderr)] = Captured::texts(&stdout, &stderr, &self.limits, FIELDS);
        let (output, truncated) = (stdout + &stderr, less_stdout || less_stderr);
        Ok(GitOutput { exit_code, output, total, truncated, timed_out, more: Value::Null })
    }

    /// Runs a query. `None` if git exits with an error.
    pub(super) async fn ask(&self, args: &[&str], input: &str) -> Result<Option<String>, Failure> {
        let args = args.iter().map(|word| (*word).to_owned()).collect();
        let ran = self.git(args, input.as_bytes().to_vec(), ANSWER_BYTES).await?;
        Ok((ran.exit_code == 0).then(|| String::from_utf8_lossy(&ran.stdout.bytes).trim().to_owned()))
    }

    /// Runs a command. If it fails, the error contains git's message.
    pub(super) async fn tell(&self, args: &[&str], input: &str) -> Result<String, Failure> {
        let words = args.iter().map(|word| (*word).to_owned()).collect();
        let ran = self.git(words, input.as_bytes().to_vec(), ANSWER_BYTES).await?;
        if ran.exit_code == 0 {
            return Ok(String::from_utf8_lossy(&ran.stdout.bytes).trim().to_owned());
        }
        let message = String::from_utf8_lossy(&ran.stderr.bytes);
        let message: String = message.trim().chars().take(800).collect();
        Err(Failure::new(
            "git_failed",
            format!("git {} failed in the workspace: {message}", args.first().unwrap_or(&"")),
        ))
    }

    pub(super) async fn put(&self, path: &str, mut content: File) -> Result<(), Failure> {
        let failed = |message: String| Failure::new("files_failed", message);
        let bytes = content.seek(std::io::SeekFrom::End(0)).and_then(|bytes| content.rewind().map(|()| bytes));
        let bytes = bytes.map_err(|error| failed(error.to_string()))?;
        let (path, existing, parents) = (path.to_owned(), Existing::Replace, Parents::Make);
        let order = FileOrder::Put { path, content, bytes, if_match: None, existing, parents };
        self.workspace.operate(order, self.now).await.map(drop).map_err(|error| failed(error.to_string()))
    }

    pub(super) async fn put_text(&self, path: &str, text: &str) -> Result<(), Failure> {
        let written = tempfile::tempfile().and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
        self.put(path, written.map_err(|error| Failure::new("files_failed", error.to_string()))?).await
    }

    /// Copies a file. A stream may have at most `most_bytes`. `None` if it cannot be opened.
    pub(super) async fn take(&self, path: &str, most_bytes: u64) -> Result<Option<File>, Failure> {
        let Ok(opened) = self.workspace.open(path).await else { return Ok(None) };
        let copied = tokio::task::spawn_blocking(move || {
            let mut file = tempfile::tempfile()?;
            match opened.content {
                Content::Bytes(bytes) => file.write_all(&bytes)?,
                Content::Stream { reader, size } if size <= most_bytes => {
                    std::io::copy(&mut reader.take(most_bytes), &mut file)?;
                }
                Content::Stream { .. } => return Err(std::io::Error::other("it is larger than the limit")),
            }
            file.rewind()?;
            Ok(file)
        });
        let interrupted = |_| Failure::new("interrupted", "the work was interrupted");
        let copied = copied.await.map_err(interrupted)?;
        copied.map(Some).map_err(|error| Failure::new("files_failed", format!("{path}: {error}")))
    }

    /// Returns true if there is a file of this size.
    pub(super) async fn holds(&self, path: &str, size: u64) -> bool {
        self.workspace.open(path).await.is_ok_and(|opened| match opened.content {
            Content::Bytes(bytes) => bytes.len() as u64 == size,
            Content::Stream { size: found, .. } => found == size,
        })
    }

    pub(super) async fn remove(&self, path: &str) {
        let order = FileOrder::Delete { path: path.to_owned(), if_match: None };
        // Best effort: a file that remains in the repository only takes space.
        let _ = self.workspace.operate(order, self.now).await;
    }
}
