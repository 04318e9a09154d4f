//! The network of a box, as a workspace lends it to the engine.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use stead_box::NetworkSockets;
use tokio::sync::watch;

/// The sockets of one box with a network, to be taken once.
///
/// A socket keeps the network of its box alive, so whoever takes them must drop them when the box
/// ends.
pub struct LentNetwork(Mutex<Option<TakenNetwork>>);

/// The sockets, and a connection that ends with the box.
pub struct TakenNetwork {
    pub sockets: NetworkSockets,
    /// Readable at the end of the box.
    pub alive: UnixStream,
}

impl LentNetwork {
    pub(crate) fn new(taken: TakenNetwork) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(taken))))
    }

    pub fn take(&self) -> Option<TakenNetwork> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The network of the box that runs now; `None` while no box runs. It changes with every new box.
pub type LentNetworks = watch::Receiver<Option<Arc<LentNetwork>>>;
