//! The engine over a real SQLite store and the memory provider.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod content;
mod files;
mod fixture;
mod held;
mod life;
mod restart;
mod steps;
