//! Agent content, runs, MCP, digests and prompts.

mod authority;
mod digests;
mod mcp;
mod requests;
mod sync_and_apply;
