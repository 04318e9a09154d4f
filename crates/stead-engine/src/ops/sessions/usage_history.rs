//! The usage history of sessions.

use stead_core::usage::UsageGroup;
use stead_core::{Day, Name};
use stead_store::{UsageQuery, UsageRow};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

/// Returns the usage of each group on the days from `first` up to `end`, which is not included.
/// Live sessions count up to now.
#[boxed]
pub async fn usage_history(
    engine: &Engine,
    by: UsageGroup,
    project: Option<&Name>,
    first: Day,
    end: Day,
) -> Result<Vec<UsageRow>, OpError> {
    let query = UsageQuery { by, project: project.map(Name::to_string), first, end, now: clock::now() };
    Ok(engine.store().usage_history(&query).await?)
}
