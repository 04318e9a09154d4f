//! Faults in content, with their positions.

use serde::{Deserialize, Serialize};

use crate::parse::words;

/// One fault at one position of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub path: String,
    /// From 1. 0 if the fault concerns the whole file.
    pub line: u32,
    pub column: u32,
    /// Path in the JSON, such as `a.b[0]`. Empty for the whole document.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    pub message: String,
}

impl Fault {
    pub fn whole(path: impl ToString, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), line: 0, column: 0, field: String::new(), message: message.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        let colon = if self.field.is_empty() { "" } else { ": " };
        write!(f, ": {}{colon}{}", self.field, self.message)
    }
}

words!(
    /// The stage at which a sync failed.
    Stage, "sync stage", {
        /// The session may not sync this content.
        Authorize = "authorize",
        /// The content or the version does not exist.
        Resolve = "resolve",
        /// A file could not be read.
        Read = "read",
        Index = "index",
        PromptPack = "prompt_pack",
        ToolCatalog = "tool_catalog",
        /// The session ended first.
        Closed = "closed",
    }
);

/// The reason why a sync did not produce a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFault {
    pub stage: Stage,
    pub detail: String,
}

impl SyncFault {
    pub fn new(stage: Stage, detail: impl Into<String>) -> Self {
        Self { stage, detail: detail.into() }
    }

    /// Joins the first few faults into one message.
    pub fn of_faults(stage: Stage, faults: &[Fault]) -> Self {
        const SHOWN: usize = 10;
        let mut detail = faults.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if faults.len() > SHOWN {
            detail.push_str(&format!("; and {} more", faults.len() - SHOWN));
        }
        Self { stage, detail }
    }
}
