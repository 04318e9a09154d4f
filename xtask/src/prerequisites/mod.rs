//! Prerequisites of the tests and benchmarks: system packages, Python environments, tools, sources
//! and the Python worker. Each is installed only if it is missing.

pub(crate) mod cargo_tools;
pub(crate) mod eval_worker;
pub(crate) mod node;
pub(crate) mod python;
pub(crate) mod sample_sources;
pub(crate) mod system_packages;
