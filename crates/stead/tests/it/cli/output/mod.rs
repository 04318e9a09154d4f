//! Tests of the output of commands: results, failures, JSON, help, and output for terminals.

mod errors;
mod failure_messages;
mod help;
mod json;
mod results;
mod stories;
mod terminal_output;
