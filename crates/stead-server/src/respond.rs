//! Responses that are more than one JSON value: files, archives and event streams.

pub(crate) mod download;
pub(crate) mod exec_stream;
pub(crate) mod stream;
pub(crate) mod stream_turns;
