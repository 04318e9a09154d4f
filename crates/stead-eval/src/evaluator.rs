//! Runs evaluations: each takes a worker, exchanges messages with it, and ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::EvalError;
use crate::evaluation::{Evaluation, FileLog, conclude};
use crate::files::{EvalFiles, FileRefusal};
use crate::params::{EvalFileRead, EvalFileWrite, EvalParams};
use crate::protocol::{Ending, Order, Reply, Report, Say};
use crate::seed::Seed;
use crate::worker::{Silence, Worker};
use crate::worker_slots::{Owner, WorkerSlots};

/// File name of the worker program.
pub const WORKER: &str = "stead-eval-worker";
/// A worker stops the code after 5 seconds itself; if it does not, it is killed at this deadline.
const DEADLINE: Duration = Duration::from_millis(5_300);
/// Number of workers kept ready. The first evaluation starts the first one.
const READY: usize = 2;
/// Maximum number of ending workers that the background thread waits for.
const MOST_ENDING: usize = 8;
/// Maximum number of reads and writes in one evaluation.
const MOST_CALLS: usize = 1_000;
/// Exit code of a worker that ran out of memory.
const OUT_OF_MEMORY: i32 = 65;
/// Signal number of SIGXCPU: the worker exceeded its CPU time limit.
const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;

/// Evaluates Python, one worker process per evaluation. Cheap to clone; all clones share the ready
/// workers.
#[derive(Clone)]
pub struct Evaluator {
    shared: Arc<Shared>,
    owner: Option<Owner>,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator").field("program", &self.shared.program).finish_non_exhaustive()
    }
}

struct Shared {
    program: PathBuf,
    slots: WorkerSlots,
    /// Set by the first evaluation.
    seed: Mutex<Option<Seed>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: Vec<Worker>,
    /// Workers that have sent their report and are exiting.
    used: Vec<Worker>,
    refill: Refill,
}

/// State of the background thread that pre-starts workers.
#[derive(Default, PartialEq, Eq)]
enum Refill {
    #[default]
    Idle,
    UnderWay,
    /// No more workers are pre-started, because the program ends.
    Over,
}

impl Evaluator {
    /// Uses the worker program at this path. The file is looked up on first use.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let most_running = std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2).max(4);
        let shared = Shared {
            program: program.into(),
            slots: WorkerSlots::new(most_running),
            seed: Mutex::default(),
            state: Mutex::default(),
        };
        Self { shared: Arc::new(shared), owner: None }
    }

    /// Returns the same evaluator with its evaluations counted for an owner. One owner uses at most
    /// half of the workers.
    pub fn for_owner(&self, owner: &str) -> Self {
        Self { shared: self.shared.clone(), owner: Some(owner.into()) }
    }

    /// Uses the worker next to the running program, where the build puts it.
    pub fn beside_this_program() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        let here = program.parent().unwrap_or(Path::new(""));
        // Test programs are one directory deeper.
        let candidates = [here.join(WORKER), here.parent().unwrap_or(here).join(WORKER)];
        let found = candidates.iter().find(|path| path.is_file()).unwrap_or(&candidates[0]);
        Self::new(found)
    }

    /// Path of the worker program. The file may be missing.
    pub fn program(&self) -> &Path {
        &self.shared.program
    }

    /// Evaluates code. Blocks the thread until it is this evaluation's turn, and then for little
    /// more than five seconds at most.
    ///
    /// `files` is a working copy: publish it if [`Evaluation::succeeded`], drop it otherwise.
    pub fn evaluate(&self, params: &EvalParams, files: &mut dyn EvalFiles) -> Result<Evaluation, EvalError> {
        params.check()?;
        let mut log = FileLog::default();
        let mut reads = BTreeMap::new();
        for EvalFileRead { path } in &params.reads {
            let content = files.read(path).map_err(|refusal| EvalError::File { path: path.clone(), refusal })?;
            log.read(path);
            reads.insert(path.clone(), content);
        }
        let order = Order {
            code: params.code.clone(),
            globals: params.globals.clone(),
            reads,
            templates: params.writes.iter().map(|write| write.content.clone()).collect(),
        };
        let _slot = self.shared.slots.wait(self.owner.clone());
        let mut worker = self.take()?;
        let report = match converse(&mut worker, &order, files, &mut log) {
            Ok(report) => {
                self.after(Some(worker));
                report
            }
            Err(silence) => {
                // The worker may still run: kill it now.
                drop(worker);
                self.after(None);
                silent(silence)?
            }
        };
        let refused = match report.ending {
            Ending::Completed => write_declared(params, &report, files, &mut log)?,
            _ => None,
        };
        let evaluation = conclude(report, log);
        Ok(match refused {
            Some(refusal) => evaluation.refuse(refusal),
            None => evaluation,
        })
    }

    fn take(&self) -> Result<Worker, EvalError> {
        loop {
            let ready = self.shared.lock().ready.pop();
            let Some(mut worker) = ready else { return self.shared.grow() };
            if worker.alive() {
                return Ok(worker);
            }
        }
    }

    /// Ends the ready workers and pre-starts no more. Call it when the program ends.
    pub fn retire(&self) {
        let mut state = self.shared.lock();
        state.refill = Refill::Over;
        let gone = (std::mem::take(&mut state.ready), std::mem::take(&mut state.used));
        drop(state);
        drop(gone);
        *self.shared.lock_seed() = None;
    }

    /// Starts background work after an evaluation: forks missing workers and waits for the used one
    /// to exit, so that the caller does not have to.
    fn after(&self, used: Option<Worker>) {
        let mut state = self.shared.lock();
        let left_to_it = state.refill != Refill::Over && state.used.len() < MOST_ENDING;
        let (used, waited_for) = if left_to_it { (used, None) } else { (None, used) };
        state.used.extend(used);
        let begin = state.refill == Refill::Idle && !state.is_in_order();
        if begin {
            state.refill = Refill::UnderWay;
        }
        drop(state);
        drop(waited_for);
        if !begin {
            return;
        }
        let weak = Arc::downgrade(&self.shared);
        std::thread::spawn(move || {
            // The loop also ends when the last evaluator is dropped, which ends the workers.
            while let Some(shared) = weak.upgrade() {
                if shared.put_in_order() {
                    return;
                }
            }
        });
    }
}

impl State {
    fn is_in_order(&self) -> bool {
        self.used.is_empty() && self.ready.len() >= READY
    }
}

impl Shared {
    /// Does one step of background work. Returns true if nothing is left to do.
    fn put_in_order(&self) -> bool {
        let lacking = self.lock().ready.len() < READY;
        let grown = lacking.then(|| self.grow());
        let used = std::mem::take(&mut self.lock().used);
        drop(used);
        let mut state = self.lock();
        if state.refill == Refill::Over {
            return true;
        }
        let failed = matches!(grown, Some(Err(_)));
        state.ready.extend(grown.and_then(Result::ok));
        let over = failed || state.is_in_order();
        if over {
            state.refill = Refill::Idle;
        }
        over
    }

    /// Forks a worker from the current seed, or from a new one.
    fn grow(&self) -> Result<Worker, EvalError> {
        let mut seed = self.lock_seed();
        if let Some(worker) = seed.as_mut().and_then(|seed| seed.grow().ok()) {
            return Ok(worker);
        }
        // The seed is dead or was never started.
        let mut started = Seed::start(&self.program)?;
        let grown = started.grow().map_err(|source| EvalError::Spawn { path: self.program.clone(), source });
        // Checked under the seed's lock: `retire` sets the state first and then clears the seed, so
        // no seed survives it.
        let keep = grown.is_ok() && self.lock().refill != Refill::Over;
        *seed = keep.then_some(started);
        grown
    }

    fn lock_seed(&self) -> MutexGuard<'_, Option<Seed>> {
        // A seed that was interrupted in the middle of a request fails at the next one and is
        // replaced.
        self.seed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under this lock is one assignment or moves whole workers, so a panic cannot
        // leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn converse(
    worker: &mut Worker,
    order: &Order,
    files: &mut dyn EvalFiles,
    log: &mut FileLog,
) -> Result<Report, Silence> {
    let deadline = Instant::now() + DEADLINE;
    worker.send(order, deadline)?;
    let mut calls = 0;
    loop {
        let reply = match worker.receive(deadline)? {
            Say::Done(report) => return Ok(*report),
            _ if calls == MOST_CALLS => Reply::Refused {
                code: "too_many".to_owned(),
                message: format!("At most {MOST_CALLS} reads and writes in one evaluation."),
            },
            Say::Read { path } => match files.read(&path) {
                Ok(text) => {
                    log.read(&path);
                    Reply::Text { text }
                }
                Err(refusal) => Reply::Refused { code: refusal.code, message: refusal.message },
            },
            Say::Write { path, content, mode } => match files.write(&path, &content, mode) {
                Ok(()) => {
                    let characters = content.chars().count() as u64;
                    log.writes.push(EvalFileWrite { path, content, mode });
                    Reply::Written { characters }
                }
                Err(refusal) => Reply::Refused { code: refusal.code, message: refusal.message },
            },
        };
        calls += 1;
        worker.send(&reply, deadline)?;
    }
}

/// Writes the declared files. Returns the first refusal.
fn write_declared(
    params: &EvalParams,
    report: &Report,
    files: &mut dyn EvalFiles,
    log: &mut FileLog,
) -> Result<Option<FileRefusal>, EvalError> {
    if report.contents.len() != params.writes.len() {
        return Err(EvalError::Worker { reason: "its report does not contain all declared writes".to_owned() });
    }
    for (write, content) in params.writes.iter().zip(&report.contents) {
        if let Err(refusal) = files.write(&write.path, content, write.mode) {
            return Ok(Some(refusal.at(&write.path)));
        }
        log.writes.push(EvalFileWrite { content: content.clone(), ..write.clone() });
    }
    Ok(None)
}

/// Converts the end of a worker without a report: a timeout and a lack of memory are results, the
/// rest are errors.
fn silent(silence: Silence) -> Result<Report, EvalError> {
    let (ending, stderr) = match silence {
        Silence::TimedOut | Silence::Exited { signal: Some(SIGXCPU), .. } => {
            (Ending::TimedOut, "TimeoutError: Execution timed out.")
        }
        // SIGKILL comes from the kernel's OOM killer. The hard CPU limit also sends it, but SIGXCPU
        // ends the worker a second earlier.
        Silence::Exited { code: Some(OUT_OF_MEMORY), .. } | Silence::Exited { signal: Some(SIGKILL), .. } => {
            (Ending::OutOfMemory, "MemoryError: the evaluation used more memory than it may.")
        }
        Silence::Exited { code, signal } => {
            let reason = match (code, signal) {
                (Some(code), _) => format!("it ended with exit code {code}"),
                (None, Some(signal)) => format!("it ended by signal {signal}"),
                (None, None) => "it ended".to_owned(),
            };
            return Err(EvalError::Worker { reason });
        }
        Silence::Nonsense => return Err(EvalError::Worker { reason: "it sent an invalid message".to_owned() }),
    };
    Ok(Report {
        ending,
        value_repr: None,
        stdout: String::new(),
        stderr: format!("{stderr}\n"),
        globals: BTreeMap::new(),
        too_long: Vec::new(),
        not_finite: Vec::new(),
        contents: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NoFiles;

    #[test]
    fn a_seed_that_dies_is_replaced() {
        let evaluator = Evaluator::beside_this_program();
        let mut known = Vec::new();
        for _ in 0..3 {
            for _ in 0..4 {
                let evaluation = evaluator.evaluate(&EvalParams::code("1 + 1"), &mut NoFiles);
                assert_eq!(
                    evaluation.map_err(|error| error.to_string()).map(|it| it.result.value_repr),
                    Ok(Some("2".to_owned()))
                );
            }
            let seed = evaluator.shared.lock_seed().as_ref().map(Seed::pid);
            assert!(seed.is_some() && !known.contains(&seed), "{seed:?} after {known:?}");
            known.push(seed);
            if let Some(pid) = seed.flatten() {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap_or_default();
            }
            // Drop the pre-started workers.
            evaluator.shared.lock().ready.clear();
        }
        evaluator.retire();
        assert!(evaluator.shared.lock_seed().is_none());
    }
}
