//! What is wrong with content, and where.

use serde::{Deserialize, Serialize};

use crate::parse::words;

/// One thing wrong at one place of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub path: String,
    /// From 1; 0 where the file as a whole is meant.
    pub line: u32,
    pub column: u32,
    /// Where in the JSON, as `a.b[0]`; empty for the whole.
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
    /// How far a sync got.
    Stage, "sync stage", {
        /// The session may not sync this.
        Authorize = "authorize",
        /// There is no such content or version.
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

/// Why a sync did not lead to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFault {
    pub stage: Stage,
    pub detail: String,
}

impl SyncFault {
    pub fn new(stage: Stage, detail: impl Into<String>) -> Self {
        Self { stage, detail: detail.into() }
    }

    /// The first few faults as one sentence.
    pub fn of_faults(stage: Stage, faults: &[Fault]) -> Self {
        const SHOWN: usize = 10;
        let mut detail = faults.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if faults.len() > SHOWN {
            detail.push_str(&format!("; and {} more", faults.len() - SHOWN));
        }
        Self { stage, detail }
    }
}
