//! An image registry for the tests: images as files, over plain HTTP on loopback, with adjustable
//! speed.
//!
//! It is read-only. While it is [slow](Registry::slow), it sends a layer in small pieces and never
//! sends the last one. So a pull is in progress for as long as a test observes it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::podman::Podman;

/// Smaller blobs, such as an image's configuration, are sent at once.
const WORTH_WAITING: usize = 1 << 20;
const PIECE: usize = 16 << 10;
/// Pause between two pieces. The test layers have 6 MB, so they take longer than any test waits for
/// their progress.
const PAUSE: Duration = Duration::from_millis(500);

pub struct Registry {
    address: String,
    directory: tempfile::TempDir,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Directory of each image, by name.
    images: Mutex<BTreeMap<String, PathBuf>>,
    slow: AtomicBool,
    corrupt: AtomicBool,
    stopped: AtomicBool,
    requests: AtomicU64,
    /// Number of layer bytes sent.
    sent: AtomicU64,
    /// Number of blobs being sent.
    sending: AtomicU64,
}

impl Registry {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, shared) = (listener.local_addr().unwrap().to_string(), Arc::new(Shared::default()));
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, serving) = (stream.unwrap(), serving.clone());
                // A client that disconnects is not an error.
                std::thread::spawn(move || drop(serving.serve(&stream)));
            }
        });
        Self { address, directory: tempfile::tempdir().unwrap(), shared }
    }

    /// Offers an image of `podman` as `name`.
    pub fn offer(&self, podman: &Podman, image: &str, name: &str) {
        let layout = self.directory.path().join(name.replace('/', "_"));
        let pushed = podman.run(&["push", "--quiet", "--format", "oci", image, &format!("oci:{}", layout.display())]);
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        self.shared.images.lock().unwrap().insert(name.to_owned(), layout);
    }

    /// Returns the reference `HOST:PORT/name:1`.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}:1", self.address)
    }

    /// Writes a `registries.conf` that makes Podman accept this registry without TLS. Returns its
    /// path.
    pub fn trusted(&self) -> PathBuf {
        let path = self.directory.path().join("registries.conf");
        std::fs::write(&path, format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", self.address)).unwrap();
        path
    }

    pub fn slow(&self, slow: bool) {
        self.shared.slow.store(slow, Ordering::SeqCst);
    }

    /// Makes the registry send wrong bytes from now on.
    pub fn corrupt(&self) {
        self.shared.corrupt.store(true, Ordering::SeqCst);
    }

    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    pub fn sending(&self) -> u64 {
        self.shared.sending.load(Ordering::SeqCst)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accept loop, so that it sees the flag.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    /// Serves requests until the connection ends.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut request = String::new();
            if reader.read_line(&mut request)? == 0 {
                return Ok(());
            }
            let mut header = String::from("-");
            while header.trim() != "" {
                header.clear();
                reader.read_line(&mut header)?;
            }
            self.requests.fetch_add(1, Ordering::SeqCst);
            let mut words = request.split(' ');
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            self.answer(stream, method, path)?;
        }
    }

    fn answer(&self, mut stream: &TcpStream, method: &str, path: &str) -> std::io::Result<()> {
        let found = self.find(path);
        let (status, kind, body) = match &found {
            Some((kind, body)) => ("200 OK", kind.as_str(), body.as_slice()),
            None => {
                let unknown = br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#;
                ("404 Not Found", "application/json", &unknown[..])
            }
        };
        write!(stream, "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len())?;
        if method == "HEAD" {
            return Ok(());
        }
        if !path.contains("/blobs/") {
            return stream.write_all(body);
        }
        self.sending.fetch_add(1, Ordering::SeqCst);
        let sent = self.send(stream, body);
        self.sending.fetch_sub(1, Ordering::SeqCst);
        sent
    }

    fn send(&self, mut stream: &TcpStream, body: &[u8]) -> std::io::Result<()> {
        let pieces = body.len().div_ceil(PIECE);
        for (number, piece) in body.chunks(PIECE).enumerate() {
            let last = number + 1 == pieces;
            while body.len() > WORTH_WAITING && self.slow.load(Ordering::SeqCst) {
                std::thread::sleep(PAUSE);
                if !last {
                    break;
                }
                // The server has nothing to send, so it polls whether the client is still
                // connected.
                stream.set_nonblocking(true)?;
                let gone = matches!(stream.peek(&mut [0]), Ok(0));
                stream.set_nonblocking(false)?;
                if gone || self.stopped.load(Ordering::SeqCst) {
                    return Ok(());
                }
            }
            let mut piece = piece.to_vec();
            if self.corrupt.load(Ordering::SeqCst) {
                piece.reverse();
            }
            stream.write_all(&piece)?;
            if body.len() > WORTH_WAITING {
                self.sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Resolves `/v2/NAME/manifests/TAG` and `/v2/NAME/blobs/DIGEST`.
    fn find(&self, path: &str) -> Option<(String, Vec<u8>)> {
        if path == "/v2/" {
            return Some(("application/json".to_owned(), b"{}".to_vec()));
        }
        let (rest, wanted) = path.strip_prefix("/v2/")?.rsplit_once('/')?;
        let (name, kind) = rest.rsplit_once('/')?;
        let layout = self.images.lock().unwrap().get(name)?.clone();
        let blob = |digest: &str| std::fs::read(layout.join("blobs/sha256").join(digest.strip_prefix("sha256:")?)).ok();
        if kind == "blobs" {
            return Some(("application/octet-stream".to_owned(), blob(wanted)?));
        }
        let index: Value = serde_json::from_slice(&std::fs::read(layout.join("index.json")).ok()?).ok()?;
        let (digest, media) = (index["manifests"][0]["digest"].as_str()?, index["manifests"][0]["mediaType"].as_str()?);
        (wanted == "1" || wanted == digest).then(|| blob(digest)).flatten().map(|manifest| (media.to_owned(), manifest))
    }
}
