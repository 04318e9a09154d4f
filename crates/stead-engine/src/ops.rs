//! All operations, one file each.
//!
//! An operation is `#[boxed]`: it returns a boxed future. The compiler generates the code of an
//! `async fn` in the crate that awaits it. Without the box, that is the server, which then compiles
//! everything that an operation awaits, down to the database driver, on every build.

mod content;
mod files;
mod journal;
mod registry;
mod sessions;
mod tools;

pub use crate::content::mcp::{Notice, Notices};
pub(crate) use async_recursion::async_recursion as boxed;
pub use content::digest::{DigestName, DigestSource, FoundDigest, digest, generate_digest, set_digest};
pub use content::prompt::{DigestPart, prompt};
pub use content::push_content::{Faulty, NewVersion, content_of_archive, push_content};
pub use content::run::{RunView, StepReply, end_run, run, runs, start_run, start_step, step};
pub(crate) use content::sync_content::read as read_sync;
pub use content::sync_content::{SyncRequest, apply_content, sync_content};
pub use content::versions::{
    ContentChange, ContentVersion, content_diff, content_files, content_version, content_versions, contents,
    open_content_file,
};
pub use files::blame::{Blame, Deeds, Wrote, blame};
pub(crate) use files::blob::may_read_blob;
pub use files::blob::{open_blob, put_blob};
pub use files::export_tar::{TarStream, export_tar};
pub use files::operate_files::{Operated, operate_files};
pub use files::put_file::{PutFile, PutTarget, put_file, unpack_archive};
pub use files::read_files::{DiffScope, DiffTime, Opened, diff, open_path, open_path_within};
pub use files::rewind::{CheckpointView, checkpoints, rewind};
pub use files::snapshot::{create_snapshot, restore_snapshot, snapshots};
pub use journal::audit::{AuditLines, audit, export_audit};
pub use journal::events::{EventPage, events};
pub use journal::export_journal::{JournalLines, export_journal, state_at};
pub use journal::replay::{Difference, ReplayReport, replay};
pub use journal::replay_against::{AgainstReport, Changed, Other, replay_against};
pub(crate) use registry::access::session_tenant;
pub use registry::access::{principal_of, record_access_denied, session_location};
pub(crate) use registry::agent_type::all_agent_types;
pub use registry::agent_type::{
    agent_type, agent_types, create_agent_type, delete_agent_type, replace_agent_type, set_workspace_config,
};
pub use registry::document::Page;
pub(crate) use registry::image::{all_images, images_of, remove_images_of};
pub use registry::image::{image, images, import_image, remove_image};
pub(crate) use registry::platform::PLATFORM;
pub use registry::platform::{begin_platform, platform, set_platform};
pub use registry::pool::pool;
pub use registry::project::{
    Deletion, DeletionProgress, delete_project, project, project_deletion, projects, set_project,
};
pub use registry::providers::{ProviderReport, providers};
pub use registry::quota::{Reserved, effective_quotas, quotas, reserved, set_quotas};
pub(crate) use registry::secret::stored_secret;
pub use registry::secret::{SecretView, rekey_secrets, remove_secret, secret, secrets, set_secret};
pub use registry::setup_results::{KeptSetup, remove_setup_result, setup_results};
pub(crate) use registry::setup_results::{fitting as fitting_setup_result, remove_setup_results_of};
pub use registry::token::{IssuedToken, create_token, revoke_token, rotate_token, token, tokens};
pub use sessions::change_network::{grant_network, narrow_network};
pub use sessions::clone_session::{CloneOrder, Isolation, clone_session};
pub use sessions::close_session::close_session;
pub use sessions::create_session::{Idempotency, create_session};
pub use sessions::network::{SessionNetworkView, session_network};
pub use sessions::pause_session::{pause_session, resume_session};
pub use sessions::plan_session::{Outlook, SessionPlan, SetupForecast, plan_session};
pub use sessions::port::{check_port, listening_ports, open_port};
pub use sessions::session::{SessionList, SessionPage, session, session_counts, sessions, wait_settled};
pub use sessions::update_session::{NewEnd, update_session};
pub use sessions::usage::{SessionUsage, Usage, session_usage, usage};
pub use sessions::usage_history::usage_history;
pub use tools::call_bound_tool::{BoundReply, CallLink, call_bound_tool};
pub use tools::call_tool::{ToolReply, call_tool, call_tool_until};
pub use tools::exec::{ExecView, exec, execs, feed_exec, kill_exec, resize_exec, signal_exec, start_exec};
pub use tools::exec_output::exec_output;
pub use tools::follow_exec::{ExecNews, ExecReader, follow_exec};
pub use tools::offered::{
    ContentResource, OfferedTool, content_resource, content_resources, offered_tools, prompt_pack, prompt_packs,
};
