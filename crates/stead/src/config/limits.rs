//! `[limits]` of `stead.toml`: concurrency limits per token, per session and in total.

use std::time::Duration;

use serde::Deserialize;
use stead_server::ServerConfig;

use super::{Config, Merge, Setting};
use crate::failure::Failure;

macro_rules! limits {
    ($($field:ident = $variable:literal, $key:literal;)+) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct LimitTable {
            $($field: Option<u32>,)+
        }

        /// The table merged with the environment.
        #[derive(Debug, Default)]
        pub(super) struct LimitKeys {
            $($field: Option<Setting>,)+
        }

        /// The keys, with what was given.
        pub(super) fn keys(keys: &LimitKeys) -> impl Iterator<Item = (&'static str, Option<&Setting>)> {
            [$(($key, keys.$field.as_ref())),+].into_iter()
        }

        impl LimitKeys {
            pub(super) fn merge(merge: &Merge<'_>, table: &LimitTable) -> Result<Self, Failure> {
                Ok(Self {
                    $($field: merge.setting($variable, $key, table.$field.map(|number| number.to_string()))?,)+
                })
            }
        }
    };
}

limits! {
    connections = "STEAD_MAX_CONNECTIONS", "limits.connections";
    requests_per_session = "STEAD_MAX_REQUESTS_PER_SESSION", "limits.requests_per_session";
    requests_per_admin = "STEAD_MAX_REQUESTS_PER_ADMIN", "limits.requests_per_admin";
    calls_per_session = "STEAD_MAX_CALLS_PER_SESSION", "limits.calls_per_session";
    creations = "STEAD_MAX_CREATIONS", "limits.creations";
    mcp_sessions = "STEAD_MAX_MCP_SESSIONS", "limits.mcp_sessions";
    mcp_sessions_per_session = "STEAD_MAX_MCP_SESSIONS_PER_SESSION", "limits.mcp_sessions_per_session";
    mcp_idle_seconds = "STEAD_MCP_IDLE_SECONDS", "limits.mcp_idle_seconds";
    header_seconds = "STEAD_HEADER_SECONDS", "limits.header_seconds";
    body_seconds = "STEAD_BODY_SECONDS", "limits.body_seconds";
}

/// The operator's settings; `None` leaves the default.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) connections: Option<usize>,
    pub(crate) requests_per_session: Option<usize>,
    pub(crate) requests_per_admin: Option<usize>,
    pub(crate) calls_per_session: Option<usize>,
    pub(crate) creations: Option<usize>,
    pub(crate) mcp_sessions: Option<usize>,
    pub(crate) mcp_sessions_per_session: Option<usize>,
    pub(crate) mcp_idle: Option<Duration>,
    pub(crate) header: Option<Duration>,
    pub(crate) body: Option<Duration>,
}

impl Config {
    pub(super) fn limits(&self) -> Result<Limits, Failure> {
        let keys = &self.limits;
        let seconds = |setting| Ok::<_, Failure>(count(setting)?.map(|seconds| Duration::from_secs(seconds as u64)));
        Ok(Limits {
            connections: count(keys.connections.as_ref())?,
            requests_per_session: count(keys.requests_per_session.as_ref())?,
            requests_per_admin: count(keys.requests_per_admin.as_ref())?,
            calls_per_session: count(keys.calls_per_session.as_ref())?,
            creations: count(keys.creations.as_ref())?,
            mcp_sessions: count(keys.mcp_sessions.as_ref())?,
            mcp_sessions_per_session: count(keys.mcp_sessions_per_session.as_ref())?,
            mcp_idle: seconds(keys.mcp_idle_seconds.as_ref())?,
            header: seconds(keys.header_seconds.as_ref())?,
            body: seconds(keys.body_seconds.as_ref())?,
        })
    }
}

/// Reads a limit. Zero is an error, because it would refuse every request.
fn count(setting: Option<&Setting>) -> Result<Option<usize>, Failure> {
    let Some(Setting { value, source }) = setting else { return Ok(None) };
    match value.parse::<u32>() {
        Ok(number) if number > 0 => Ok(Some(number as usize)),
        _ => Err(Failure::new(format!("{source} must be a whole number of at least 1, not {value:?}"))),
    }
}

impl Limits {
    pub(crate) fn over(self, config: ServerConfig) -> ServerConfig {
        ServerConfig {
            max_connections: self.connections.unwrap_or(config.max_connections),
            max_requests_per_session: self.requests_per_session.unwrap_or(config.max_requests_per_session),
            max_requests_per_admin: self.requests_per_admin.unwrap_or(config.max_requests_per_admin),
            max_mcp_sessions: self.mcp_sessions.unwrap_or(config.max_mcp_sessions),
            max_mcp_sessions_per_session: self.mcp_sessions_per_session.unwrap_or(config.max_mcp_sessions_per_session),
            mcp_idle_timeout: self.mcp_idle.unwrap_or(config.mcp_idle_timeout),
            header_timeout: self.header.unwrap_or(config.header_timeout),
            body_timeout: self.body.unwrap_or(config.body_timeout),
            ..config
        }
    }
}
