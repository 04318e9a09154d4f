//! Requests and responses for ports of a session's box.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::parse::Fields;
use utoipa::ToSchema;

use crate::request::{Rules, Text, request};

/// A port that a program in the box listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Port {
    /// Number of the port.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u16,
    /// Address that the program is bound to.
    pub address: String,
}

request! {
    /// Body of `POST /sessions/{id}/ports/{port}:open`.
    OpenPortRequest {
        /// Path that the link leads to; `/` by default.
        optional path: Text<1, 4096>,
    }
}

impl Rules for OpenPortRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.path.as_ref().is_some_and(|path| !is_local_path(&path.0)) {
            fields.fail("path", "must be a path that starts with one slash, in ASCII without spaces and backslashes");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["properties"]["path"]["pattern"] = LOCAL_PATH.into();
    }
}

const LOCAL_PATH: &str = r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$";

/// Returns true for a path of the same origin. `//host` and `/\host` are other origins.
pub fn is_local_path(path: &str) -> bool {
    let visible = path.bytes().all(|byte| (0x21..=0x7e).contains(&byte) && byte != b'\\');
    path.starts_with('/') && !path.starts_with("//") && visible
}

/// A link for a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenedPort {
    /// The link. It works once, within a minute.
    pub url: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_path_of_the_same_origin() {
        for path in ["/", "/a/b?c=d", "/a%20b#c"] {
            assert!(is_local_path(path), "{path}");
        }
        for path in ["", "a", "//evil", "/\\evil", "http://evil/", "/a\r\nb", "/ä", "/a b"] {
            assert!(!is_local_path(path), "{path}");
        }
    }
}
