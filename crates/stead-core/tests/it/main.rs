//! The rules, from outside the crate.

mod config;
mod fold;
mod plan;
mod policy;
mod purity;
mod repository;
mod scenario;
mod spec;
