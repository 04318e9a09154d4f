//! A page of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    pub items: Vec<T>,
    /// Give it as `cursor` to get the next page; `null` on the last.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// From one item more than the page holds: the extra one only shows that there are more.
    pub fn page<S>(mut found: Vec<S>, limit: u32, cursor: impl Fn(&S) -> String, to_wire: impl Fn(S) -> T) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| more).map(cursor);
        Self { items: found.into_iter().map(to_wire).collect(), next_cursor }
    }

    /// Everything there is.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}
