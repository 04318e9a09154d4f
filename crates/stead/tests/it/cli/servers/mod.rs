//! Commands that start a server, and commands that work without one.

mod declarations;
mod demo;
mod login;
mod network_presets;
mod offline;
mod serve;
mod upgrade;
