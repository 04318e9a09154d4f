//! Every operation, one file each. This page is their list.

mod agent_type;
mod audit;
mod blob;
mod call_tool;
mod clone_session;
mod close_session;
mod create_session;
mod document;
mod events;
mod operate_files;
mod plan_session;
mod platform;
mod project;
mod providers;
mod read_files;
mod replay;
mod session;
mod snapshot;

pub use agent_type::{agent_type, agent_types, create_agent_type, delete_agent_type, set_workspace_config};
pub use audit::audit;
pub use blob::{open_blob, put_blob};
pub use call_tool::{ToolReply, call_tool};
pub use clone_session::{Isolation, clone_session};
pub use close_session::close_session;
pub use create_session::{Idempotency, create_session};
pub use document::Page;
pub use events::events;
pub use operate_files::operate_files;
pub use plan_session::plan_session;
pub use platform::{platform, set_platform};
pub use project::{project, set_project};
pub use providers::{ProviderReport, providers};
pub use read_files::{diff, export_tar, list_files, open_file};
pub use replay::{Difference, ReplayReport, replay};
pub use session::{SessionPage, session, session_counts, sessions, wait_settled};
pub use snapshot::{create_snapshot, restore_snapshot, snapshots};
