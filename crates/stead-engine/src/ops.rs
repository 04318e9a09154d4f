//! Every operation, one file each. This page is their list.

mod agent_type;
mod audit;
mod call_tool;
mod close_session;
mod create_session;
mod document;
mod events;
mod plan_session;
mod platform;
mod project;
mod providers;
mod replay;
mod session;

pub use agent_type::{agent_type, agent_types, create_agent_type, delete_agent_type, set_workspace_config};
pub use audit::audit;
pub use call_tool::{ToolReply, call_tool};
pub use close_session::close_session;
pub use create_session::{Idempotency, create_session};
pub use document::Page;
pub use events::events;
pub use plan_session::plan_session;
pub use platform::{platform, set_platform};
pub use project::{project, set_project};
pub use providers::{ProviderReport, providers};
pub use replay::{Difference, ReplayReport, replay};
pub use session::{SessionPage, session, sessions, wait_settled};
