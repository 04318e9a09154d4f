//! Runs the grammars in a separate process.
//!
//! A grammar is a generated state machine in C with hand-written scanners, and the repository
//! controls its input. So the grammars run in a child process with no environment, two pipes as its
//! only file descriptors, limits on memory, time and descriptors, and a seccomp filter that allows
//! only reading, computing and writing. A fault costs the symbols of one file.
//!
//! Protocol: the request is one byte for the grammar, four bytes for the length, and the source.
//! The answer is four bytes for the length, and the symbols as JSON or `null`. A child that crashes
//! or times out on a file is replaced.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::{Symbol, extract};
use crate::language::Grammar;
use crate::survey::File;

/// The first argument that makes this program a worker.
pub const WORKER_ARGUMENT: &str = "parse-symbols";

const MEMORY: u64 = 1 << 30;
const CPU_SECONDS: u64 = 60;
/// Timeout for one file. Only a broken child reaches it, because the parser limits its own steps.
const PATIENCE: Duration = Duration::from_secs(20);
const MOST_SOURCE: u32 = 1 << 20;
const MOST_ANSWER: u32 = 1 << 20;
const TRIES: u32 = 2;
/// After this many dead workers, the remaining files are skipped.
const MOST_DEATHS: u32 = 32;

/// Extracts the symbols of each file; `None` for a file that cannot be parsed. An error means that
/// no worker could be started. Blocks.
pub(super) fn extract(program: &Path, files: &[&File]) -> io::Result<Vec<Option<Vec<Symbol>>>> {
    let mut worker = Worker::start(program)?;
    let mut deaths = 0;
    let mut extracted = Vec::with_capacity(files.len());
    for file in files {
        let mut symbols = None;
        // A second attempt distinguishes a file that kills every worker from a worker that died for
        // another reason.
        for _ in 0..TRIES {
            if deaths == MOST_DEATHS {
                break;
            }
            match worker.ask(file) {
                Ok(answer) => {
                    symbols = answer;
                    break;
                }
                Err(_) => {
                    deaths += 1;
                    worker = Worker::start(program)?;
                }
            }
        }
        extracted.push(symbols);
    }
    Ok(extracted)
}

struct Worker {
    child: Child,
    input: ChildStdin,
    answers: std::sync::mpsc::Receiver<io::Result<Vec<u8>>>,
}

impl Worker {
    fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(WORKER_ARGUMENT).env_clear().current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a child without its pipes"));
        };
        let (send, answers) = channel();
        // Reads until the pipe closes, which happens when the child has ended.
        std::thread::Builder::new().name("symbols".to_owned()).spawn(move || {
            let mut output = output;
            loop {
                let answer = read_answer(&mut output);
                let failed = answer.is_err();
                if send.send(answer).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { child, input, answers })
    }

    fn ask(&mut self, file: &File) -> io::Result<Option<Vec<Symbol>>> {
        let (Some(grammar), Some(source)) = (file.language.and_then(|language| language.grammar), &file.content) else {
            return Ok(None);
        };
        let length = u32::try_from(source.len()).map_err(io::Error::other)?;
        self.input.write_all(&[grammar as u8])?;
        self.input.write_all(&length.to_le_bytes())?;
        self.input.write_all(source)?;
        self.input.flush()?;
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => serde_json::from_slice(&answer?).map_err(io::Error::other),
            Err(RecvTimeoutError::Timeout) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker has no state that could be lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_answer(output: &mut ChildStdout) -> io::Result<Vec<u8>> {
    let length = read_length(output)?;
    if length > MOST_ANSWER {
        return Err(io::Error::other("an answer that is too long"));
    }
    let mut answer = vec![0; length as usize];
    output.read_exact(&mut answer)?;
    Ok(answer)
}

fn read_length(from: &mut impl Read) -> io::Result<u32> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    Ok(u32::from_le_bytes(length))
}

/// Runs the child process: drops its privileges, then answers requests until its input ends.
pub fn serve_worker() -> io::Result<()> {
    give_up()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let mut grammar = [0];
        if input.read(&mut grammar)? == 0 {
            return Ok(());
        }
        let length = read_length(&mut input)?;
        if length > MOST_SOURCE {
            return Err(io::Error::other("a source that is too long"));
        }
        let mut source = vec![0; length as usize];
        input.read_exact(&mut source)?;
        let symbols = Grammar::from_number(grammar[0]).and_then(|grammar| extract::extract(grammar, &source));
        let mut answer = serde_json::to_vec(&symbols).map_err(io::Error::other)?;
        if answer.len() > MOST_ANSWER as usize {
            answer = b"null".to_vec();
        }
        let length = u32::try_from(answer.len()).map_err(io::Error::other)?;
        output.write_all(&length.to_le_bytes())?;
        output.write_all(&answer)?;
        output.flush()?;
    }
}

fn give_up() -> io::Result<()> {
    let limit = |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    limit(Resource::As, MEMORY)?;
    limit(Resource::Cpu, CPU_SECONDS)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Nofile, 3)?;
    let filter: BpfProgram = filter().map_err(io::Error::other)?;
    // Also sets no-new-privileges, which an unprivileged user needs to install a filter.
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

/// Builds the seccomp filter. Each rule says why the worker needs the call.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = [
        libc::SYS_read,           // the pipe
        libc::SYS_write,          // the pipe
        libc::SYS_brk,            // memory
        libc::SYS_mmap,           // memory
        libc::SYS_munmap,         // memory
        libc::SYS_mremap,         // memory
        libc::SYS_madvise,        // memory
        libc::SYS_mprotect,       // memory of a new arena
        libc::SYS_futex,          // locks of the standard library
        libc::SYS_getrandom,      // seeds of hash maps
        libc::SYS_clock_gettime,  // the parser's clock
        libc::SYS_sigaltstack,    // thread exit
        libc::SYS_rt_sigprocmask, // abort
        libc::SYS_rt_sigreturn,   // return from a signal handler
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        calls.into_iter().map(|call| (call, Vec::new())).collect();
    let here = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, here)?.try_into()
}
