//! What makes the box.
//!
//! A [`Provider`] makes, finds and removes [`Workspace`]s; a workspace performs the actions of an init plan and answers tool
//! calls. Each method's promises are written on the trait, [`conformance`] tests them, and every provider must pass.
//! Nobody asks which provider it is: what one can do is data ([`stead_core::capability::ProviderCapabilities`]).

mod boxed;
pub mod conformance;
mod error;
mod evaluate;
mod execs;
mod fill;
mod host_sources;
mod images;
mod layered;
mod layers;
mod memory;
mod native;
mod podman;
mod provider;
mod workspace;

pub use error::{OperateError, ProviderError};
pub use execs::{AtWork, ExecEnd, ExecError, Execs, Followed, Following, InputEnd, KnownExec, OutputStream};
pub use host_sources::{AllowedMode, AllowedMount, judge_host_paths};
pub use images::{ImageError, ImageRecord, Images, Naming};
pub use layers::{Layer, LayerKey, LayerStore, Note, Retention, TreeSource, Usage};
pub use memory::{MemoryProvider, RebuildError, rebuild};
pub use native::{NativeConfig, NativeProvider};
pub use podman::{PodmanConfig, PodmanProvider, PodmanTarget, Pull, Trees};
/// Ends the boxes of a home while no server runs.
pub use stead_box::end_all as end_boxes;
/// What this host can do for native boxes, tried one by one.
pub use stead_box::{Check, doctor};

pub use provider::{AdoptOrder, FileEvent, Health, Mark, Progress, Provider, Providers, Tell, WorkspaceUsage};
pub use workspace::{
    ActionOrder, Done, FileOrder, GitOrder, GitRan, OpenFile, Performed, Placement, PointOrder, Staged, ToolDone,
    ToolOrder, Workspace,
};
