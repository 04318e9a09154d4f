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
pub use layers::{
    CheckoutWarnings, ImageReport, Layer, LayerDraft, LayerKey, LayerReport, LayerSlot, LayerStore, Retention, Usage,
};
pub use memory::{MemoryProvider, RebuildError, rebuild};
pub use native::{NativeConfig, NativeProvider};
pub use podman::{PodmanConfig, PodmanProvider, PodmanTarget, Pull, Trees};
/// What this host can do for native boxes, tried one by one.
pub use stead_box::{Check, doctor};

pub use provider::{
    AdoptOrder, DiskUsage, FileEvent, Health, ImageCache, Mark, Progress, Provider, Providers, Tell, WarmBoxes,
    WorkspaceUsage,
};
pub use workspace::{
    ActionOrder, BoxGit, Done, FileOrder, GitOrder, GitRan, OpenFile, Performed, Placement, PointOrder, Staged,
    ToolDone, ToolOrder, Workspace,
};
