//! Steps that test a real server with clients, types and test suites of other projects.

pub(crate) mod asteval;
pub(crate) mod clients;
pub(crate) mod compat;
pub(crate) mod schemathesis;
pub(crate) mod sdk_typescript;
pub(crate) mod vendor_types;
