//! Extractors: they parse one part of a request, and their errors are problems.

pub(crate) mod body;
pub(crate) mod conditions;
pub(crate) mod headers;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod upload;
