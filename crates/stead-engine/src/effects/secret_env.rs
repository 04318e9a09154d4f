//! References to secrets in environment variables: who may use them, and what the box sees instead.

use serde_json::{Map, Value};
use stead_core::env::Env;
use stead_core::identity::Tenant;
use stead_core::spec::SessionSpec;
use stead_core::{Name, Rejection, SessionId};

use crate::effects::secret_vault::{SecretUser, find_usable, open};
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Replaces references by the placeholders of the session. The box never gets a value.
pub(crate) fn with_placeholders(engine: &Engine, session: SessionId, env: Env) -> Env {
    env.with_placeholders(|name| engine.secrets().placeholder(session, name))
}

/// Refuses secrets that the session may not use, or that cannot be opened now.
pub(crate) async fn check<'a>(
    engine: &Engine,
    spec: &SessionSpec,
    names: impl Iterator<Item = &'a Name>,
) -> Result<(), OpError> {
    let agent_type_tenant = Tenant::of(spec.agent_type_project.as_ref());
    let user = SecretUser {
        project: spec.project.as_ref(),
        agent_type: &spec.agent_type,
        agent_type_tenant: &agent_type_tenant,
    };
    for name in names {
        let Some(found) = find_usable(engine, &user, name).await? else {
            let reason = "there is none of this name for the agent type";
            let (name, agent_type) = (name.clone(), spec.agent_type.clone());
            return Err(Rejection::SecretNotUsable { name, agent_type, reason }.into());
        };
        open(engine, &found).await?;
    }
    Ok(())
}

/// Does both for the argument `env` of a tool call.
pub(crate) async fn in_arguments(
    engine: &Engine,
    session: &OpenSession,
    mut arguments: Value,
) -> Result<Value, OpError> {
    let references = arguments.get_mut("env").and_then(Value::as_object_mut).map(references).unwrap_or_default();
    if references.is_empty() {
        return Ok(arguments);
    }
    let state = session.state().await.session.ok_or(OpError::Contended)?;
    check(engine, &state.spec, references.iter().map(|(_, name)| name)).await?;
    for (variable, name) in references {
        arguments["env"][variable] = engine.secrets().placeholder(session.id(), &name).to_string().into();
    }
    Ok(arguments)
}

/// Returns the variables that are well-formed references. The tool refuses every other object.
fn references(env: &mut Map<String, Value>) -> Vec<(String, Name)> {
    let reference = |value: &Value| {
        let fields = value.as_object().filter(|fields| fields.len() == 1)?;
        fields.get("secret")?.as_str()?.parse::<Name>().ok()
    };
    env.iter().filter_map(|(variable, value)| Some((variable.clone(), reference(value)?))).collect()
}
