//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// Items of this page.
    pub items: Vec<T>,
    /// Pass this value as `cursor` to get the next page; `null` on the last page.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// Builds a page from up to `limit + 1` found items. The extra item only shows that there is
    /// another page.
    pub fn page<S>(mut found: Vec<S>, limit: u32, cursor: impl Fn(&S) -> String, to_wire: impl Fn(S) -> T) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(cursor);
        Self { items: found.into_iter().map(to_wire).collect(), next_cursor }
    }

    /// Builds a list that has only one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}
