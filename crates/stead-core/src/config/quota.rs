//! Quotas of a project. Only an administrator sets them.
//!
//! An absent field sets no limit of its own. Zero allows nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::admission::{Allowed, Limit, Scope};
use crate::quantity::{ByteTotal, CpuTotal};
use crate::record::{Rules, record};

record! {
    /// Limits on the sum over live sessions. An absent one sets no limit of its own; zero allows
    /// nothing.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Quota as "Quota" {
        /// Number of live sessions.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] sessions: u64,
        /// Number of live sessions that hold a workspace.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] boxes: u64,
        /// Sum of their CPU limits: cores (`8`, `0.5`) or thousandths (`500m`).
        optional #[serde(default, skip_serializing_if = "Option::is_none")] cpu: CpuTotal,
        /// Sum of their memory limits: bytes with an optional K, M, G or T.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] memory: ByteTotal,
        /// Sum of their disk limits: bytes with an optional K, M, G or T.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] disk: ByteTotal,
    }
}

impl Rules for Quota {}

impl Quota {
    pub fn allowed(&self) -> Allowed {
        Allowed {
            sessions: self.sessions,
            boxes: self.boxes,
            cpu_millis: self.cpu.as_ref().map(CpuTotal::millis),
            memory_bytes: self.memory.as_ref().map(ByteTotal::bytes),
            disk_bytes: self.disk.as_ref().map(ByteTotal::bytes),
        }
    }
}

record! {
    /// Limits on the rate of requests. An absent one sets no limit of its own; zero allows nothing.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults RateQuota as "RateQuota" {
        /// Number of sessions that may be created per minute.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] creates_per_minute: u64,
        /// Number of requests per second by holders of user tokens.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] requests_per_second: u64,
    }
}

impl Rules for RateQuota {}

record! {
    /// Limits of each user in a project.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults UserQuota as "UserQuota" {
        /// Limits on the sum over live sessions.
        flatten #[serde(flatten)] amounts: Quota,
        /// Limits on the rate of requests.
        flatten #[serde(flatten)] rates: RateQuota,
    }
}

impl Rules for UserQuota {}

record! {
    /// Limits of a project. An absent one sets no limit of its own; zero allows nothing.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Quotas as "Quotas" {
        /// Limits on the sum over live sessions.
        flatten #[serde(flatten)] amounts: Quota,
        /// Limits on the rate of requests.
        flatten #[serde(flatten)] rates: RateQuota,
        /// Limits of each user in the project.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] per_user: UserQuota,
        /// Limits of the sessions of an agent type, by the id of the agent type.
        default(BTreeMap::new()) #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        per_agent_type: BTreeMap<Name, Quota>,
    }
}

impl Rules for Quotas {}

impl Quotas {
    /// Returns the limits that apply to a new session of this project.
    pub fn limits(&self, project: &Name, owner: Option<&str>, agent_type: &Name) -> Vec<Limit> {
        let mut limits =
            vec![Limit { scope: Scope::Project { project: project.to_string() }, allowed: self.amounts.allowed() }];
        if let (Some(quota), Some(user)) = (&self.per_user, owner) {
            let scope = Scope::User { project: project.to_string(), user: user.to_owned() };
            limits.push(Limit { scope, allowed: quota.amounts.allowed() });
        }
        if let Some(quota) = self.per_agent_type.get(agent_type) {
            let scope = Scope::AgentType { project: project.to_string(), agent_type: agent_type.to_string() };
            limits.push(Limit { scope, allowed: quota.allowed() });
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse::read;

    #[test]
    fn quotas_read_back_as_they_were_stored() {
        let given = json!({
            "sessions": 10, "memory": "8G", "disk": "0", "creates_per_minute": 60,
            "per_user": {"boxes": 2, "requests_per_second": 5}, "per_agent_type": {"coder": {"cpu": "500m"}},
        });
        let quotas: Quotas = read(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&quotas).unwrap(), given);
        assert_eq!(serde_json::from_value::<Quotas>(given).unwrap(), quotas);
        assert_eq!(quotas.amounts.allowed().disk_bytes, Some(0));
        assert_eq!(quotas.amounts.allowed().boxes, None);
    }

    #[test]
    fn invalid_quotas_name_their_fields() {
        let invalid = read::<Quotas>(json!({
            "sessions": -1, "memory": "8X", "unknown": 1, "per_agent_type": {"a/b": {}}, "per_user": {"cpu": "x"},
        }));
        let fields: Vec<String> = invalid.unwrap_err().errors.into_iter().map(|error| error.field).collect();
        for field in ["sessions", "memory", "unknown", "per_agent_type", "per_user.cpu"] {
            assert!(fields.iter().any(|found| found == field), "{field} is not in {fields:?}");
        }
    }

    #[test]
    fn a_session_has_the_limits_of_its_project_user_and_agent_type() {
        let quotas: Quotas = read(json!({"per_user": {"sessions": 1}, "per_agent_type": {"coder": {}}})).unwrap();
        let (project, coder): (Name, Name) = ("web".parse().unwrap(), "coder".parse().unwrap());
        let scopes = |owner, agent_type| -> Vec<String> {
            quotas.limits(&project, owner, agent_type).iter().map(|limit| limit.scope.to_string()).collect()
        };
        assert_eq!(scopes(Some("alice"), &coder), ["project/web", "user/web/alice", "type/web/coder"]);
        assert_eq!(scopes(None, &project), ["project/web"]);
    }
}
