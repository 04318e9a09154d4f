//! Every operation, one file each. This page is their list.

mod agent_type;
mod audit;
mod blob;
mod call_bound_tool;
mod call_tool;
mod clone_session;
mod close_session;
mod content;
mod create_session;
mod digest;
mod document;
mod events;
mod exec;
mod export_journal;
mod follow_exec;
mod operate_files;
mod plan_session;
mod platform;
mod pool;
mod project;
mod prompt;
mod providers;
mod push_content;
mod put_file;
mod read_files;
mod replay;
mod replay_against;
mod run;
mod session;
mod snapshot;
mod sync_content;

pub use agent_type::{agent_type, agent_types, create_agent_type, delete_agent_type, set_workspace_config};
pub use audit::audit;
pub use blob::{open_blob, put_blob};
pub use call_bound_tool::{BoundReply, call_bound_tool};
pub use call_tool::{ToolReply, call_tool, call_tool_until};
pub use clone_session::{Isolation, clone_session};
pub use close_session::close_session;
pub use content::{
    ContentChange, ContentVersion, content_diff, content_files, content_version, content_versions, contents,
    open_content_file,
};
pub use create_session::{Idempotency, create_session};
pub use digest::{DigestName, DigestSource, FoundDigest, digest, generate_digest, set_digest};
pub use document::Page;
pub use events::{EventPage, events};
pub use exec::{ExecView, exec, execs, feed_exec, kill_exec, resize_exec, signal_exec, start_exec};
pub use export_journal::{export_journal, state_at};
pub use follow_exec::{ExecNews, ExecReader, follow_exec};
pub use operate_files::{Operated, operate_files};
pub use plan_session::plan_session;
pub use platform::{platform, set_platform};
pub use pool::pool;
pub use project::{project, set_project};
pub use prompt::{DigestPart, prompt};
pub use providers::{ProviderReport, providers};
pub use push_content::{Faulty, content_of_archive, push_content};
pub use put_file::{Place, PutFile, put_file, unpack_archive};
pub use read_files::{Opened, diff, export_tar, open_path};
pub use replay::{Difference, ReplayReport, replay};
pub use replay_against::{AgainstReport, Changed, Other, replay_against};
pub use run::{RunView, StepReply, end_run, run, runs, start_run, start_step, step};
pub use session::{SessionList, SessionPage, session, session_counts, sessions, wait_settled};
pub use snapshot::{create_snapshot, restore_snapshot, snapshots};
pub(crate) use sync_content::read as read_sync;
pub use sync_content::{SyncRequest, apply_content, sync_content};
