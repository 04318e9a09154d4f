//! The query parameters `limit` and `cursor` of all lists.

use utoipa::IntoParams;

use crate::extract::query::{Parameters, ReadQuery};
use stead_api::schema;

pub(crate) const DEFAULT_LIMIT: u32 = 50;
pub(crate) const MAX_LIMIT: u32 = 500;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Paging holds them")]
pub(crate) struct PagingParams {
    /// Maximum number of items; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    #[param(value_type = Option<schema::Name>)]
    cursor: Option<String>,
}

pub(crate) fn limit(parameters: &mut Parameters) -> u32 {
    let limit = parameters.number("limit", 1..=u64::from(MAX_LIMIT));
    limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT)
}

/// Paging parameters of a list that is sorted by name.
pub(crate) struct Paging {
    pub(crate) limit: u32,
    pub(crate) cursor: Option<stead_core::Name>,
}

impl ReadQuery for Paging {
    fn read(parameters: &mut Parameters) -> Self {
        Self { limit: limit(parameters), cursor: parameters.parsed("cursor") }
    }
}

/// Reads the position in a numbered list. `cursor` and `after` mean the same; `cursor` takes
/// precedence.
pub(crate) fn after(parameters: &mut Parameters) -> Option<u64> {
    let (after, cursor) = (parameters.number("after", 0..=1 << 53), parameters.number("cursor", 0..=1 << 53));
    cursor.or(after)
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; InProject holds it")]
pub(crate) struct ProjectParams {
    /// Project to work in. Absent for the caller's own project, or for the platform.
    #[param(value_type = Option<schema::Name>)]
    project: Option<String>,
}
