//! `stead session clone SESSION`

use std::time::Duration;

use stead_api::request::{Sequence, Whole};
use stead_api::session::snapshot::{self, CloneRequest};
use stead_api::{List, Session};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::render;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Isolation {
    /// Share the workspace of the session
    None,
    /// Give each clone a copy of the current files
    Full,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Clone {
    /// The session's id
    id: String,
    /// Isolation of the clones from the session
    #[arg(long, value_enum, default_value = "full")]
    isolation: Isolation,
    /// Start from the files at this event instead of the current ones
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Number of clones
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// Seconds to wait until the clones are ready; 0 returns at once
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=300))]
    wait: u64,
    /// Idempotency key: repeating the request returns the same clones
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Clone {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let isolation = match self.isolation {
            Isolation::None => snapshot::Isolation::None,
            Isolation::Full => snapshot::Isolation::Full,
        };
        let key = self.idempotency_key.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let path = format!("/sessions/{}/clone?wait={}", segment(&self.id), self.wait);
        let body = CloneRequest { isolation, count: Whole(self.count.into()), at: self.at.map(Sequence) };
        let made: List<Session> = context.client()?.create(&path, &body, &key, Duration::from_secs(self.wait))?;
        context.out.either(&made, || render::sessions(&context.out, &made.items))
    }
}
