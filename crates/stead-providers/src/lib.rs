//! What makes the box.
//!
//! A [`Provider`] makes, finds and removes [`Workspace`]s; a workspace performs the actions of an init plan and answers tool
//! calls. Each method's promises are written on the trait, [`conformance`] tests them, and every provider must pass.
//! Nobody asks which provider it is: what one can do is data ([`stead_core::capability::ProviderCapabilities`]).

pub mod conformance;
mod contract;
mod evaluate;
mod fill;
mod guest;
mod host_sources;
mod memory;
mod native;
mod overlay;
mod podman;

pub use contract::error::{OperateError, ProviderError};
pub use contract::execs::{AtWork, ExecEnd, ExecError, Execs, Followed, Following, InputEnd, KnownExec, OutputStream};
pub use host_sources::{AllowedMode, AllowedMount, judge_host_paths};
pub use memory::{MemoryProvider, RebuildError, rebuild};
pub use native::{NativeConfig, NativeProvider};
pub use overlay::images::{ImageError, ImageRecord, Images, Naming};
pub use overlay::layer_store::{
    CheckoutWarnings, ImageReport, Layer, LayerDraft, LayerKey, LayerReport, LayerSlot, LayerStore, Retention, Usage,
};
pub use podman::{PodmanConfig, PodmanProvider, PodmanTarget, Pull, Trees};
/// Ends the boxes of a home while no server runs.
pub use stead_box::end_all as end_boxes;
/// What this host can do for native boxes, tried one by one.
pub use stead_box::{Check, doctor};

pub use contract::provider::{
    AdoptOrder, DiskUsage, FileEvent, Health, ImageCache, Mark, Progress, Provider, Providers, Tell, WarmBoxes,
    WorkspaceUsage,
};
pub use contract::workspace::{
    ActionOrder, BoxGit, Done, FileOrder, GitOrder, GitRan, OpenFile, Performed, Placement, PointOrder, Staged,
    ToolDone, ToolOrder, Workspace,
};
