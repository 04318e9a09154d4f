//! The engine over a real SQLite store and the memory provider.

mod fixture;
mod life;
mod restart;
