//! Model requests: their messages and options, and their form for each vendor.

pub mod anthropic;
pub mod materialize;
pub mod message;
pub mod openai;
pub mod options;
pub mod part;
