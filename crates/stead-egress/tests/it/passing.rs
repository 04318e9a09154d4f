//! Copying, limits and records, over loopback: rules about addresses are tested with boxes.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use stead_core::Name;
use stead_core::network::{NetworkSpec, Phase, RefusalCode};
use stead_egress::http::UsableSecret;
use stead_egress::{Authority, Egress, EgressServer, Opened, Policy, Record, Refused, SecretUse, Sockets, Unrecorded};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

#[derive(Default)]
struct Kept {
    opened: Mutex<Vec<Opened>>,
    refused: Mutex<Vec<Refused>>,
}

#[async_trait]
impl Record for Kept {
    async fn opened(&self, opened: &Opened) -> Result<(), Unrecorded> {
        self.opened.lock().unwrap().push(opened.clone());
        Ok(())
    }

    async fn refused(&self, refused: &Refused) {
        self.refused.lock().unwrap().push(refused.clone());
    }

    async fn secret(&self, _: &Name) -> Result<UsableSecret, RefusalCode> {
        Err(RefusalCode::SecretUnavailable)
    }

    async fn secret_used(&self, used: &SecretUse) -> Result<(), Unrecorded> {
        Err(Unrecorded(format!("{} has no place here", used.secret)))
    }

    async fn authority(&self) -> Result<Arc<Authority>, RefusalCode> {
        Err(RefusalCode::InspectionUnavailable)
    }
}

fn policy(rules: serde_json::Value) -> Policy {
    let spec: NetworkSpec = serde_json::from_value(serde_json::json!({
        "layers": [{"layer": "platform", "agent": rules}],
        "limits": {"connections": 4, "connections_per_second": 1000, "names": 10, "bytes_per_second": 1_000_000_000},
    }))
    .unwrap();
    Policy { phase: Phase::Agent, spec, grants: Vec::new() }
}

fn sockets() -> (Sockets, u16) {
    let capture = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let streams = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = capture.local_addr().unwrap().port();
    capture.set_nonblocking(true).unwrap();
    streams.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    (Sockets { capture, datagrams, streams }, port)
}

/// A connection to the listener itself wants a loopback address, which no rule opens.
#[tokio::test]
async fn a_refused_connection_is_reset_counted_and_recorded_once() {
    let kept = Arc::new(Kept::default());
    let rules = serde_json::json!([{"at": "agent.allow[0]", "host": "*", "ports": "every"}]);
    let egress = Egress::new(Arc::new(EgressServer::default()), policy(rules), kept.clone(), 0);
    let (sockets, port) = sockets();
    let serving = egress.serve(sockets).unwrap();
    let mark = egress.refusals();
    for _ in 0..3 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        assert!(stream.read(&mut [0]).await.is_err(), "a refused connection is reset");
    }
    let counted = async {
        loop {
            let seen = egress.refusals();
            if seen == 3 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), counted).await.unwrap();
    assert_eq!(egress.refusals_since(mark).len(), 1);
    assert_eq!(kept.refused.lock().unwrap().len(), 1);
    assert_eq!(kept.opened.lock().unwrap().len(), 0);
    assert_eq!(egress.take_tallies()[0].traffic.refused, 3);
    assert_eq!(egress.take_tallies(), Vec::new());
    // Nobody listens any more once the value is dropped.
    drop(serving);
    let closed = async { while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), closed).await.unwrap();
}
