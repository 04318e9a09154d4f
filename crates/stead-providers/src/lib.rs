//! Providers make the boxes that sessions run in.
//!
//! A [`Provider`] makes, finds and removes [`Workspace`]s; a workspace performs the actions of an
//! init plan and answers tool calls. The traits document the promises of each method, and every
//! provider must pass [`conformance`], which tests them. Callers never branch on the provider's
//! name: capabilities are data ([`stead_core::capability::ProviderCapabilities`]).

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
pub use contract::network::{LentNetwork, LentNetworks, TakenNetwork};
pub use contract::ports::{ListeningPort, PortError, PortSocket, Ports};
pub use guest::arguments::{Command as ShellCommand, bash as read_bash};
pub use host_sources::{AllowedMode, AllowedMount, judge_host_paths};
pub use memory::{MemoryProvider, RebuildError, rebuild};
pub use native::{NativeConfig, NativeProvider};
pub use overlay::images::{ImageError, ImageRecord, Images, Naming};
pub use overlay::layer_store::{
    CheckoutWarnings, ImageReport, Layer, LayerDraft, LayerKey, LayerReport, LayerSlot, LayerStore, Retention, Usage,
};
pub use podman::{PodmanConfig, PodmanProvider, PodmanTarget, Pull, Trees};
/// Stops the boxes of a home while no server runs.
pub use stead_box::end_all as end_boxes;
/// Tests each host feature that native boxes need.
pub use stead_box::{Check, doctor};

pub use contract::provider::{
    AdoptOrder, DiskUsage, FileEvent, Health, ImageCache, Mark, OnProgress, Progress, Provider, Providers, WarmBoxes,
    WorkspaceUsage,
};
pub use contract::setup_cache::{
    KeepSetupOrder, SETUP_PREFIX, SetupAbout, SetupEntry, SetupKept, SetupPosition, SetupResults,
};
pub use contract::workspace::{
    ActionOrder, BoxGit, Captured, Done, FileOrder, GitOrder, GitRan, OpenFile, OutputSink, Performed, Placement,
    PointOrder, Staged, ToolDone, ToolOrder, Workspace,
};
