//! The file tools, each on every backend.

mod edit;
mod entries;
mod files;
mod grep;
mod patch;
mod read;
mod search;
