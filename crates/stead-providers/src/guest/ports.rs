//! Ports of a box, through its guest.

use std::sync::Arc;

use async_trait::async_trait;
use stead_box::BoxError;
use stead_box::protocol::{Answer, Ask, GuestError, GuestErrorKind};

use super::guest_box::GuestBox;
use super::mux_client::MuxClient;
use super::off_thread;
use super::reply::chain;
use crate::contract::error::ProviderError;
use crate::contract::ports::{ListeningPort, PortError, PortSocket, Ports};

pub(super) struct GuestPorts {
    guest_box: Arc<dyn GuestBox>,
    client: Arc<MuxClient>,
}

impl GuestPorts {
    pub(super) fn new(guest_box: Arc<dyn GuestBox>, client: Arc<MuxClient>) -> Self {
        Self { guest_box, client }
    }
}

#[async_trait]
impl Ports for GuestPorts {
    async fn connect(&self, port: u16) -> Result<PortSocket, PortError> {
        // A connection of its own, because the shared one cannot receive descriptors.
        let _used = self.client.use_box().await;
        let guest_box = self.guest_box.clone();
        let connected = off_thread(move || Ok(guest_box.connect()?.connect_port(port)?)).await;
        let stream = connected.map_err(|error| match error {
            ProviderError::Box { source } => port_error(port, source),
            other => PortError::Lost { reason: chain(&other) },
        })?;
        PortSocket::new(stream).map_err(|error| PortError::Exhausted { message: error.to_string() })
    }

    async fn listening(&self) -> Result<Vec<ListeningPort>, PortError> {
        match self.client.ask_soon(Ask::Ports).await {
            Ok((Answer::Ports { ports }, _)) => Ok(ports),
            Ok(_) => Err(PortError::Lost { reason: "it answered nonsense".to_owned() }),
            Err(error) => Err(port_error(0, error)),
        }
    }
}

fn port_error(port: u16, error: BoxError) -> PortError {
    match error {
        BoxError::Guest(GuestError { kind: GuestErrorKind::NothingListens, .. }) => PortError::NothingListens { port },
        BoxError::Guest(GuestError { kind: GuestErrorKind::TimedOut, .. }) => PortError::NotAccepting { port },
        BoxError::Guest(GuestError { message, .. }) => PortError::Exhausted { message },
        other => PortError::Lost { reason: chain(&other) },
    }
}
