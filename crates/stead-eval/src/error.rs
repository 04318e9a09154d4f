//! Errors of an evaluation without a result.

use std::path::PathBuf;

use crate::files::FileRefusal;

#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The parameters exceed the limits. Nothing ran.
    #[error("{message}")]
    Invalid { message: String },
    /// A declared read was refused. Nothing ran.
    #[error("{path}: {}", refusal.message)]
    File { path: String, refusal: FileRefusal },
    #[error(
        "the Python worker is missing: there is no {}; `cargo xtask demo` and `cargo xtask test` build it, `cargo xtask eval-worker` builds it alone",
        path.display()
    )]
    NoWorker { path: PathBuf },
    #[error("the Python worker {} could not be started", path.display())]
    Spawn {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The worker ended or violated the protocol. Nothing was written.
    #[error("the Python worker failed: {reason}")]
    Worker { reason: String },
}
