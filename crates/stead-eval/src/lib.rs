//! Embedded Python evaluation.
//!
//! A little Python over a few files, for at most five seconds, all of its writes or none. The interpreter runs in a process of its
//! own, [`WORKER`], that can touch nothing but its socket and is killed when it does not end: no code can hold up or bring down the
//! program that evaluates it. [`Evaluator`] is the whole interface; the files are the caller's, as [`EvalFiles`].
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
mod evaluator;
mod files;
mod params;
pub mod protocol;
mod seed;
mod turns;
mod worker;

pub use error::EvalError;
pub use evaluator::{Evaluation, Evaluator, REVIEW, WORKER};
pub use files::{EvalFiles, FileRefusal, NoFiles};
pub use params::{
    EvalFileRead, EvalFileWrite, EvalParams, EvalResult, MOST_CODE, MOST_GLOBALS, MOST_OUTPUT, WriteMode,
};
pub use protocol::Ending;
