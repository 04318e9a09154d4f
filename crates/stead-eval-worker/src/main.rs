//! `stead-eval-worker`: one Python evaluation, then gone.
//!
//! Started by `stead_eval::Evaluator` with a socket as standard input and output and nothing else. It makes the interpreter ready, once, and is then what
//! workers grow from (`seed`): for each evaluation a copy of the process, which gives up everything a process can do before it hears of any code
//! (`confine`), waits for its one order, judges the code (`gate`), runs it (`interpreter`), says how it ended, and ends.

mod confine;
mod fork;
mod gate;
mod interpreter;
mod link;
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
    // The socket closes when nobody needs a worker any more.
    let Some(order) = link.receive::<Order>() else { return ExitCode::SUCCESS };
    if confine::limit_memory().is_err() {
        return ExitCode::from(71);
    }
    let report = interpreter.run(&order, &mut link);
    if link.report(report) { ExitCode::SUCCESS } else { ExitCode::from(74) }
}
