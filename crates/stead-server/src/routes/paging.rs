//! `limit` and `cursor`, the same on every list.

use utoipa::IntoParams;

use crate::query::{Parameters, ReadQuery};
use stead_api::schema;

pub(crate) const DEFAULT_LIMIT: u32 = 50;
pub(crate) const MAX_LIMIT: u32 = 500;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Paging holds them")]
pub(crate) struct PagingParams {
    /// How many items at most; 50 if not given.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the page before.
    #[param(value_type = Option<schema::Name>)]
    cursor: Option<String>,
}

pub(crate) fn limit(parameters: &mut Parameters) -> u32 {
    let limit = parameters.number("limit", 1..=u64::from(MAX_LIMIT));
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT)
}

/// A page of things with chosen names.
pub(crate) struct Paging {
    pub(crate) limit: u32,
    pub(crate) cursor: Option<stead_core::Name>,
}

impl ReadQuery for Paging {
    fn read(parameters: &mut Parameters) -> Self {
        Self { limit: limit(parameters), cursor: parameters.parsed("cursor") }
    }
}

/// Where a numbered list goes on: `cursor`, or `after`, which says the same.
pub(crate) fn after(parameters: &mut Parameters) -> Option<u64> {
    let (after, cursor) = (parameters.number("after", 0..=1 << 53), parameters.number("cursor", 0..=1 << 53));
    cursor.or(after)
}
