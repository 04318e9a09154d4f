//! One git process: its whole environment, and all settings that restrict it.
//!
//! The server's git sees no user or system config, no terminal and no ssh agent. It runs in its own
//! process group, which is killed on a timeout or when its caller stops waiting. The kernel kills
//! it when the server dies.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::error::GitError;
use crate::git_messages::{Cause, cause_of};

/// Maximum size of git's standard output in memory.
const MOST_OUTPUT: usize = 64 << 20;
/// Number of bytes kept from the end of git's messages.
const KEPT_MESSAGES: usize = 8 << 10;

/// Settings for every git of the server. Each closes a risk.
const SETTINGS: &[&str] = &[
    // No helper programs.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.askPass=",
    "core.sshCommand=ssh",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    // No other network destinations.
    "http.followRedirects=false",
    "http.proxy=",
    "transfer.bundleURI=false",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "push.recurseSubmodules=no",
    // No malicious objects and names.
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    // Allow old, harmless errors that are common in real histories.
    "fetch.fsck.zeroPaddedFilemode=warn",
    "fetch.fsck.badTimezone=warn",
    "fetch.fsck.missingSpaceBeforeDate=warn",
    "fetch.fsck.missingSpaceBeforeEmail=warn",
    "fetch.fsck.missingEmail=warn",
    "fetch.fsck.missingNameBeforeEmail=warn",
    "protocol.version=2",
    "index.version=2",
    "advice.detachedHead=false",
];

/// The memory that each git process may allocate. Git unpacks commits, trees and tags in memory,
/// where an object of a few megabytes on disk may take gigabytes. Mapped packs do not count.
const MEMORY: u64 = 2 << 30;

/// The failure of a git process.
#[derive(Debug)]
pub(crate) enum GitFailure {
    Spawn(std::io::Error),
    Timeout,
    /// Its output, or a file that it wrote, exceeded the limit.
    TooLarge,
    /// The end of git's own messages.
    Failed {
        messages: String,
    },
}

/// A git command to run.
pub(crate) struct Git<'a> {
    /// The directory of the mirrors. Git uses it as home directory and reads `gitconfig` there.
    pub(crate) mirrors_directory: &'a Path,
    /// Maximum size of a file that git writes.
    pub(crate) most_bytes: u64,
    memory: u64,
    command: Vec<OsString>,
    settings: Vec<String>,
    env: Vec<(&'static str, OsString)>,
    directory: Option<PathBuf>,
    input: Input,
    output: Option<File>,
}

enum Input {
    Nothing,
    Bytes(Vec<u8>),
    File(File),
}

impl<'a> Git<'a> {
    pub(crate) fn new(mirrors_directory: &'a Path, most_bytes: u64) -> Self {
        Self {
            mirrors_directory,
            most_bytes,
            memory: MEMORY,
            command: Vec::new(),
            settings: Vec::new(),
            env: vec![("GIT_ALLOW_PROTOCOL", "none".into())],
            directory: None,
            input: Input::Nothing,
            output: None,
        }
    }

    /// Sets the repository. Without it git searches for none.
    pub(crate) fn on(mut self, git_dir: &Path) -> Self {
        self.env.push(("GIT_DIR", git_dir.into()));
        self
    }

    pub(crate) fn work_tree(mut self, directory: &Path) -> Self {
        self.env.push(("GIT_WORK_TREE", directory.into()));
        self.directory = Some(directory.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.into()));
        self
    }

    pub(crate) fn setting(mut self, setting: impl Into<String>) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Sets the memory limit in bytes.
    pub(crate) fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<T: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.command.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    pub(crate) fn input_file(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    /// Writes git's standard output to a file instead of returning it.
    pub(crate) fn output(mut self, file: File) -> Self {
        self.output = Some(file);
        self
    }

    fn command(&self) -> Command {
        let mut arguments: Vec<OsString> = Vec::new();
        if launcher() {
            let limit = format!("--fsize={}", self.most_bytes);
            let memory = format!("--data={}", self.memory);
            arguments
                .extend(["setpriv", "--pdeathsig", "KILL", "prlimit", "--core=0", &limit, &memory].map(OsString::from));
        }
        arguments.push("git".into());
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            arguments.extend(["-c".into(), setting.into()]);
        }
        arguments.extend(self.command.iter().cloned());
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).env_clear().process_group(0).kill_on_drop(true);
        command.current_dir(self.directory.as_deref().unwrap_or(self.mirrors_directory));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
        for (name, value) in [
            ("HOME", self.mirrors_directory.as_os_str()),
            ("XDG_CONFIG_HOME", self.mirrors_directory.as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
            ("GIT_CONFIG_GLOBAL", self.mirrors_directory.join("gitconfig").as_os_str()),
            ("GIT_ATTR_NOSYSTEM", OsStr::new("1")),
            ("GIT_TERMINAL_PROMPT", OsStr::new("0")),
            ("SSH_ASKPASS_REQUIRE", OsStr::new("never")),
            ("GIT_PROTOCOL_FROM_USER", OsStr::new("0")),
            ("GIT_NO_REPLACE_OBJECTS", OsStr::new("1")),
            ("GIT_NO_LAZY_FETCH", OsStr::new("1")),
            ("GIT_OPTIONAL_LOCKS", OsStr::new("0")),
            ("GIT_CEILING_DIRECTORIES", OsStr::new("/")),
            ("LC_ALL", OsStr::new("C")),
        ] {
            command.env(name, value);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs git until it exits. `on_message` gets its messages as they arrive.
    pub(crate) async fn run(
        mut self,
        limit: Duration,
        mut on_message: impl FnMut(&[u8]),
    ) -> Result<Vec<u8>, GitFailure> {
        let mut command = self.command();
        let bytes = match std::mem::replace(&mut self.input, Input::Nothing) {
            Input::Nothing => {
                command.stdin(Stdio::null());
                None
            }
            Input::File(file) => {
                command.stdin(Stdio::from(file));
                None
            }
            Input::Bytes(bytes) => {
                command.stdin(Stdio::piped());
                Some(bytes)
            }
        };
        match self.output.take() {
            Some(file) => command.stdout(Stdio::from(file)),
            None => command.stdout(Stdio::piped()),
        };
        command.stderr(Stdio::piped());
        let mut child = command.spawn().map_err(GitFailure::Spawn)?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let (Some(mut stdin), Some(bytes)) = (stdin, bytes) {
                // If git does not read all input, its own message gives the reason.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, &bytes).await;
            }
        };
        let work = async {
            let (output, messages, ()) = tokio::join!(gather(stdout), read_messages(stderr, &mut on_message), feed);
            (output, messages, child.wait().await)
        };
        let (output, messages, status) = tokio::time::timeout(limit, work).await.map_err(|_| GitFailure::Timeout)?;
        drop(group);
        let status = status.map_err(GitFailure::Spawn)?;
        let mut messages = String::from_utf8_lossy(&messages).into_owned();
        if let (Some(output), false) = (&output, status.success()) {
            // A push prints rejected branches and the reasons on standard output.
            messages += &String::from_utf8_lossy(&output[..output.len().min(KEPT_MESSAGES)]);
        }
        match (output, status.success()) {
            (Some(output), true) => Ok(output),
            (None, true) => Err(GitFailure::TooLarge),
            // SIGXFSZ, of git itself or of its child process.
            _ if std::os::unix::process::ExitStatusExt::signal(&status) == Some(25)
                || cause_of(&messages) == Some(Cause::FileTooLarge) =>
            {
                Err(GitFailure::TooLarge)
            }
            _ => Err(GitFailure::Failed { messages }),
        }
    }

    /// Runs a git that uses no network, so that any failure is git's own.
    pub(crate) async fn local(self, doing: &'static str, limit: Duration) -> Result<Vec<u8>, GitError> {
        let most_bytes = self.most_bytes;
        self.run(limit, |_| ()).await.map_err(|failure| failure.error(doing, limit, most_bytes))
    }
}

impl GitFailure {
    pub(crate) fn error(self, doing: &'static str, limit: Duration, most_bytes: u64) -> GitError {
        match self {
            Self::Spawn(error) => GitError::Spawn(error),
            Self::Timeout => GitError::Timeout { doing, seconds: limit.as_secs() },
            Self::TooLarge => GitError::TooLarge { limit: most_bytes },
            Self::Failed { messages } => {
                GitError::Failed { doing, reason: reason(&messages), cause: cause_of(&messages) }
            }
        }
    }
}

/// Extracts git's error lines, without control characters.
pub(crate) fn reason(messages: &str) -> String {
    let is_error = |line: &&str| {
        ["fatal:", "error:", "remote:", "ssh:", "!"].iter().any(|start| line.starts_with(start))
            || ["denied", "refused", "failed", "timed out"].iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = messages.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut chosen: Vec<&str> = lines.iter().copied().filter(is_error).collect();
    if chosen.is_empty() {
        chosen = lines.iter().rev().take(2).rev().copied().collect();
    }
    let text: String = chosen.join("; ").chars().filter(|c| !c.is_control()).take(800).collect();
    if text.is_empty() { "git gave no reason".to_owned() } else { text }
}

/// Kills a whole process group on drop.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that the group has already exited. The group id cannot have been
            // reused, because its leader has not been reaped yet.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn gather(from: Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(from) = from {
        let _ = from.take(MOST_OUTPUT as u64 + 1).read_to_end(&mut all).await;
    }
    (all.len() <= MOST_OUTPUT).then_some(all)
}

async fn read_messages(from: Option<impl AsyncRead + Unpin>, on_message: &mut impl FnMut(&[u8])) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return kept };
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        on_message(&piece[..count]);
        kept.extend_from_slice(&piece[..count]);
        if kept.len() > 2 * KEPT_MESSAGES {
            kept.drain(..kept.len() - KEPT_MESSAGES);
        }
    }
    kept
}

/// Returns true if this system has `setpriv` and `prlimit`, which kill git with the server and
/// limit what it writes.
fn launcher() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        let probe = ["--pdeathsig", "KILL", "prlimit", "--core=0", "true"];
        let there = std::process::Command::new("setpriv")
            .args(probe)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !there {
            tracing::warn!(
                "setpriv or prlimit is missing: a git outlives a server that is killed, and its files are not limited"
            );
        }
        there
    })
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_reason_is_gits_own_and_harmless() {
        let messages = "Cloning\nremote: no such\u{1b}[31m thing\nfatal: repository 'x' not found\n";
        assert_eq!(reason(messages), "remote: no such[31m thing; fatal: repository 'x' not found");
        assert_eq!(reason("one\ntwo\nthree"), "two; three");
        assert_eq!(reason(""), "git gave no reason");
    }
}
