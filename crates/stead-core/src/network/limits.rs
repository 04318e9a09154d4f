//! Limits of a session's connections.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::quantity::ByteSize;
use crate::record::{Rules, Whole, record};

/// Bytes per second of a session that no layer limits further.
const USUAL_BYTES_PER_SECOND: u64 = 50 << 20;

record! {
    /// Limits of a session's connections. Each layer can only lower them.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults LimitsDeclaration as "NetworkLimits" {
        /// Open connections at one time. Absent for 256.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] connections: Whole<1, 4_096>,
        /// New connections in one second. Absent for 100.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] connections_per_second: Whole<1, 10_000>,
        /// Distinct host names that the box may look up. Absent for 4096.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] names: Whole<1, 4_096>,
        /// Bytes that the box may send in total, with an optional K, M, G or T. Absent for no
        /// limit.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] bytes_out: ByteSize,
        /// Bytes per second in each direction. Absent for 50M.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] bytes_per_second: ByteSize,
        /// HTTP requests in one minute, where the server reads requests. Absent for no limit.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] requests_per_minute: Whole<1, 1_000_000>,
    }
}

impl Rules for LimitsDeclaration {
    fn restrict(schema: &mut Value) {
        for field in ["bytes_out", "bytes_per_second"] {
            schema["properties"][field]["pattern"] = "^([1-9][0-9]{0,14}|[1-9][0-9]{0,5}[KMGT]i?B?)$".into();
        }
    }
}

/// The limits of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimits {
    pub connections: u64,
    pub connections_per_second: u64,
    pub names: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    pub bytes_per_second: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_second: 100,
            names: 4_096,
            bytes_out: None,
            bytes_per_second: USUAL_BYTES_PER_SECOND,
            requests_per_minute: None,
        }
    }
}

impl NetworkLimits {
    /// Returns the limits of the outermost layer: its values, or the defaults.
    pub fn of(declared: &LimitsDeclaration) -> Self {
        let usual = Self::default();
        Self {
            connections: declared.connections.unwrap_or(usual.connections),
            connections_per_second: declared.connections_per_second.unwrap_or(usual.connections_per_second),
            names: declared.names.unwrap_or(usual.names),
            bytes_out: declared.bytes_out.as_ref().map(ByteSize::bytes),
            bytes_per_second: declared.bytes_per_second.as_ref().map_or(usual.bytes_per_second, ByteSize::bytes),
            requests_per_minute: declared.requests_per_minute,
        }
    }

    /// Returns the lower of each limit.
    pub fn within(&self, declared: &LimitsDeclaration) -> Self {
        let lower = |limit: u64, declared: Option<u64>| declared.map_or(limit, |declared| limit.min(declared));
        let either = |limit: Option<u64>, declared: Option<u64>| match (limit, declared) {
            (Some(limit), Some(declared)) => Some(limit.min(declared)),
            (limit, declared) => limit.or(declared),
        };
        let bytes = |size: &Option<ByteSize>| size.as_ref().map(ByteSize::bytes);
        Self {
            connections: lower(self.connections, declared.connections),
            connections_per_second: lower(self.connections_per_second, declared.connections_per_second),
            names: lower(self.names, declared.names),
            bytes_out: either(self.bytes_out, bytes(&declared.bytes_out)),
            bytes_per_second: lower(self.bytes_per_second, bytes(&declared.bytes_per_second)),
            requests_per_minute: either(self.requests_per_minute, declared.requests_per_minute),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    #[test]
    fn the_platform_sets_limits_and_others_only_lower_them() {
        let platform: LimitsDeclaration =
            parse::read(json!({"connections": 1000, "bytes_per_second": "100M", "bytes_out": "1G"})).unwrap();
        let agent: LimitsDeclaration =
            parse::read(json!({"connections": 2000, "bytes_out": "1M", "requests_per_minute": 600})).unwrap();
        let limits = NetworkLimits::of(&platform).within(&agent);
        let expected = NetworkLimits {
            connections: 1000,
            bytes_out: Some(1 << 20),
            bytes_per_second: 100 << 20,
            requests_per_minute: Some(600),
            ..NetworkLimits::default()
        };
        assert_eq!(limits, expected);
        for (value, field) in [
            (json!({"connections": 0}), "connections"),
            (json!({"bytes_out": "none"}), "bytes_out"),
            (json!({"speed": 1}), "speed"),
        ] {
            assert_eq!(parse::read::<LimitsDeclaration>(value).unwrap_err().errors[0].field, field);
        }
    }
}
