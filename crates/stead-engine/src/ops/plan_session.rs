//! What a session would be, without making it.

use stead_core::WorkspaceId;
use stead_core::request::SessionRequest;
use stead_core::spec::{Declared, SessionSpec, specify};

use super::{agent_type, platform, project};
use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;

/// Resolves a request against what is declared now. Changes nothing.
pub async fn plan_session(engine: &Engine, request: SessionRequest) -> Result<SessionSpec, OpError> {
    let agent_type = agent_type(engine, &request.agent_type).await?;
    let project = match &request.project {
        Some(id) => Some(project(engine, id).await?),
        None => None,
    };
    let platform = platform(engine).await?;
    let declared = Declared { agent_type: &agent_type, project: project.as_ref(), platform: &platform };
    let workspace = WorkspaceId::from_bits(clock::id_bits());
    Ok(specify(request, workspace, &declared, &engine.facts())?)
}
