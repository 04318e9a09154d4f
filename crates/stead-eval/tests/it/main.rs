//! Evaluation through the public interface: a real worker, compared with the machine's `python3`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod conformance;
mod files;
mod gate;
mod hostile;

use stead_eval::{EvalParams, Evaluation, Evaluator, NoFiles};

/// An evaluator with the worker that `cargo xtask eval-worker` puts beside the tests.
pub(crate) fn evaluator() -> Evaluator {
    Evaluator::beside_this_program()
}

#[track_caller]
pub(crate) fn evaluate(code: &str) -> Evaluation {
    evaluator().evaluate(&EvalParams::code(code), &mut NoFiles).unwrap_or_else(|error| panic!("{code}: {error}"))
}
