//! Git without trust: mirrors that only the server writes, checkouts made from them, packs that cross the wall.
//!
//! The server never runs git in a directory an agent can write. It fetches into bare mirrors of its own ([`Mirrors`]), writes a
//! checkout from a mirror into a directory nobody else has seen yet ([`Checkout`]), and takes an agent's commits as a pack that is judged in
//! quarantine before it is pushed ([`Mirrors::push`]). Hooks, filters, templates, system and user settings, helpers, redirects and
//! every protocol but the one asked for are off for all of it ([`command`]).
//!
//! A credential reaches the one git that talks to its host, over a socket, and nothing else: not an argument list, an environment, a
//! file of ours, a log or an error ([`credential`]).

mod base;
mod blocking;
mod checkout;
mod collect;
mod command;
mod credential;
mod error;
mod exchange;
mod index;
mod known;
mod left_out;
mod lfs;
mod local;
mod mirror;
mod network;
mod progress;
mod refs;
mod resolve;
mod submodules;
mod tidy;

pub use checkout::{Author, Checkout, Written};
pub use collect::{MirrorUse, Retention};
pub use credential::{Credential, Secret};
pub use error::GitError;
pub use exchange::{Accepted, ForPush, Lfs, Onto, Pack};
pub use lfs::{FILTER, FILTER_PATH, LfsFile, LfsObject, Upload};
pub use mirror::{Mirrors, Resolved, Settings, Source};
pub use network::{Loan, LoanRefused, Purpose, Watch};
pub use progress::Progress;
pub use refs::Target;
