//! Identity: who may do what, and where.
//!
//! A token has a user, a role, and a project or the whole platform. [`decide_access`] decides
//! whether its holder may do something to a thing. [`may_grant`] decides about new tokens.

mod access;
mod actor;
mod audit_kind;
mod permission;
mod role;
pub mod secret;
mod tenant;
mod token;

pub use access::{Access, Location, Principal, decide_access, may_grant};
pub use actor::Actor;
pub use audit_kind::AuditKind;
pub use permission::Permission;
pub use role::{Role, RoleName, Roles};
pub use tenant::Tenant;
pub use token::{PreviousSecret, Token, TokenRequest, TokenRotation};
