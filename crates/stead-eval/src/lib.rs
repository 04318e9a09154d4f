//! Embedded Python evaluation.
//!
//! Evaluates short Python code over a few files for at most five seconds. Either all of its writes
//! are applied or none. The interpreter runs in a separate process, [`WORKER`], that has access
//! only to its socket and is killed if it does not end. So no code can block or crash the program
//! that evaluates it. [`Evaluator`] is the interface; the caller provides the files as
//! [`EvalFiles`].
//!
//! ```no_run
//! use stead_eval::{EvalParams, Evaluator, NoFiles};
//!
//! let evaluator = Evaluator::new("target/debug/stead-eval-worker");
//! let code = "total = sum(n * n for n in range(10))\nprint('done')\nstatistics.mean([1, 2, total])";
//! let evaluation = evaluator.evaluate(&EvalParams::code(code), &mut NoFiles)?;
//! assert!(evaluation.succeeded());
//! assert_eq!(evaluation.result.value_repr.as_deref(), Some("96"));
//! assert_eq!(evaluation.result.globals["total"], "285");
//! # Ok::<(), stead_eval::EvalError>(())
//! ```

mod error;
mod evaluation;
mod evaluator;
mod files;
mod params;
pub mod protocol;
mod seed;
mod worker;
mod worker_slots;

pub use error::EvalError;
pub use evaluation::{Evaluation, REVIEW};
pub use evaluator::{Evaluator, WORKER};
pub use files::{EvalFiles, FileRefusal, NoFiles};
pub use params::{
    EvalFileRead, EvalFileWrite, EvalParams, EvalResult, MOST_CODE, MOST_GLOBALS, MOST_OUTPUT, WriteMode,
};
pub use protocol::Ending;
