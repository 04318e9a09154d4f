//! Commands that start a server, and commands that work without one.

mod demo;
mod offline;
mod serve;
