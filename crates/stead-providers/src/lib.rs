//! What makes the box.
//!
//! A [`Provider`] makes, finds and removes [`Workspace`]s; a workspace performs the actions of an init plan and answers tool
//! calls. Each method's promises are written on the trait, [`conformance`] tests them, and every provider must pass.
//! Nobody asks which provider it is: what one can do is data ([`stead_core::capability::ProviderCapabilities`]).

pub mod conformance;
mod error;
mod memory;
mod provider;
mod workspace;

pub use error::ProviderError;
pub use memory::MemoryProvider;
pub use provider::{AdoptOrder, Health, Provider, Providers, RecordedChange};
pub use workspace::{Done, Staged, ToolDone, ToolOrder, Workspace};
