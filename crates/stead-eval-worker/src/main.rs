//! `stead-eval-worker`: evaluates Python, one process per evaluation.
//!
//! `stead_eval::Evaluator` starts this program with a socket as standard input and output. The
//! first process initialises the interpreter and becomes the seed (`seed`), which forks one worker
//! per evaluation. A worker gives up its privileges before it receives code (`confine`), waits for
//! one order, checks the code (`gate`), runs it (`interpreter`), reports the outcome and exits.

mod confine;
mod fork;
mod gate;
mod host_calls;
mod interpreter;
mod link;
mod names;
mod rewrite;
mod seed;
mod traceback;

use std::process::ExitCode;

use interpreter::Interpreter;
use link::Link;
use seed::Grown;
use stead_eval::protocol::Order;

#[global_allocator]
static ALLOCATOR: monty_alloc::LimitedAllocator = monty_alloc::LimitedAllocator;

fn main() -> ExitCode {
    let Some(interpreter) = Interpreter::prepare() else { return ExitCode::from(70) };
    if rustix::thread::set_no_new_privs(true).is_err() {
        return ExitCode::from(71);
    }
    match seed::grow() {
        Ok(Grown::Worker) => work(interpreter),
        Ok(Grown::Seed) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(72),
    }
}

/// One evaluation.
fn work(mut interpreter: Interpreter) -> ExitCode {
    if confine::confine().is_err() {
        return ExitCode::from(71);
    }
    interpreter.rehearse();
    let mut link = Link::new();
    // The evaluator closes the socket when it needs no further worker.
    let Some(order) = link.receive::<Order>() else { return ExitCode::SUCCESS };
    if confine::limit_memory().is_err() {
        return ExitCode::from(71);
    }
    let report = interpreter.run(&order, &mut link);
    if link.report(report) { ExitCode::SUCCESS } else { ExitCode::from(74) }
}
