//! Git without trust: mirrors that only the server writes, checkouts made from them, and packs
//! exchanged with agents.
//!
//! The server never runs git in a directory that an agent can write. It fetches into its own bare
//! mirrors ([`Mirrors`]) and writes a checkout from a mirror into a private directory
//! ([`Checkout`]). It receives an agent's commits as a pack, which it checks in a quarantine before
//! a push ([`Mirrors::push`]). Hooks, filters, templates, system and user config, helpers,
//! redirects and all protocols but the requested one are disabled ([`command`]).
//!
//! A credential reaches only the git process that talks to its host, over a socket. It never
//! appears in an argument list, an environment, a file of ours, a log or an error
//! ([`remote::credential`]).

mod blocking;
mod checkout;
mod command;
mod error;
mod exchange;
mod git_messages;
mod lfs;
mod local;
mod mirror;
mod remote;

pub use checkout::{Author, Checkout, Written};
pub use error::GitError;
pub use exchange::{Accepted, ForPush, Lfs, Onto, Pack};
pub use git_messages::Cause;
pub use lfs::{FILTER, FILTER_PATH, LfsFile, LfsObject, Upload};
pub use mirror::collect::{HeldRepository, MirrorUse, Retention};
pub use mirror::{Mirrors, Resolved, Settings, Source};
pub use remote::credential::{Credential, Login, Secret};
pub use remote::progress::Progress;
pub use remote::refs::Target;
pub use remote::{Loan, LoanRefused, Purpose, Watch};
