//! Stead's HTTP API as types.
//!
//! Each type defines both the JSON form and the JSON Schema of a request or a response. The server
//! and every client use the same type, so that they cannot disagree. This crate performs no I/O and
//! depends only on `stead-core`.

pub mod agent_type;
pub mod audit;
pub mod content;
pub mod digest;
pub mod event;
pub mod exec;
pub mod file;
pub mod image;
pub mod list;
pub mod problem;
pub mod project;
pub mod provider;
pub mod request;
pub mod run;
pub mod schema;
pub mod session;
pub mod token;
pub mod tool;
pub mod usage;

pub use agent_type::AgentType;
pub use event::Event;
pub use exec::Exec;
pub use list::List;
pub use problem::{Code, FieldError, Parameters, Problem};
pub use project::secret;
pub use session::{Session, port};
