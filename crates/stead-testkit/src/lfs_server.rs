//! The Git LFS part of the git server: the batch API with basic transfers. The objects are in each
//! repository's `lfs/objects`.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::git_server::GitServer;

/// A fault of the LFS server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LfsFault {
    #[default]
    None,
    /// Responds to every batch request with this status and a message.
    Batch(u16),
    /// Reports this base URL for every object.
    Elsewhere(String),
    /// Redirects every download to this base URL.
    Moved(String),
    /// Sends wrong bytes of the same length.
    Untrue,
    /// Sends more bytes than announced in the batch response.
    Endless,
    /// Cuts this many transfers in the middle.
    Cut(usize),
    /// Sends half of each object, and the rest after the fault changes.
    Held,
}

/// A parsed request for LFS objects.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    /// Repeated in every error. The tests check that it appears nowhere.
    pub(crate) authorization: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) root: &'a Path,
}

impl GitServer {
    /// Stores content in the LFS server of a repository and returns the pointer to it.
    pub fn keep(&self, repository: &str, content: &[u8]) -> String {
        let oid = sha256(content);
        let path = object(&self.path(repository), &oid);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        pointer(&oid, content.len() as u64)
    }

    /// Returns true if the LFS server of a repository has this content.
    pub fn keeps(&self, repository: &str, content: &[u8]) -> bool {
        fs::read(object(&self.path(repository), &sha256(content))).is_ok_and(|kept| kept == content)
    }
}

pub fn pointer(oid: &str, size: u64) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
}

pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn object(repository: &Path, oid: &str) -> PathBuf {
    repository.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]).join(oid)
}

/// Returns true for a path of the LFS API: `REPOSITORY.git/info/lfs/REST`.
pub(crate) fn is_lfs(path: &str) -> bool {
    path.contains("/info/lfs/")
}

pub(crate) fn answer(
    stream: &mut TcpStream,
    asked: &Asked<'_>,
    fault: &LfsFault,
    still: impl Fn() -> bool,
) -> std::io::Result<()> {
    let Asked { method, path, body, root, .. } = asked;
    let (repository, rest) = path.trim_start_matches('/').split_once("/info/lfs/").unwrap_or_default();
    let repository_path = root.join(repository.strip_suffix(".git").unwrap_or(repository));
    match (*method, rest) {
        ("POST", "objects/batch") => {
            if let LfsFault::Batch(status) = fault {
                return send_json(
                    stream,
                    *status,
                    &json!({"message": format!("no luck with {status} {}", asked.authorization)}),
                );
            }
            send_json(stream, 200, &batch(asked, repository, &repository_path, fault))
        }
        ("POST", "verify") => {
            let request: Value = serde_json::from_slice(body).unwrap_or_default();
            let oid = request["oid"].as_str().unwrap_or_default();
            let size = fs::metadata(object(&repository_path, oid)).map(|found| found.len()).ok();
            send_json(stream, if size == request["size"].as_u64() { 200 } else { 404 }, &json!({}))
        }
        ("GET", _) => send_object(stream, asked, &repository_path, rest, fault, still),
        ("PUT", _) => {
            let oid = rest.rsplit('/').next().unwrap_or_default();
            if sha256(body) != oid {
                return send_json(stream, 422, &json!({"message": "that is something else"}));
            }
            let path = object(&repository_path, oid);
            fs::create_dir_all(path.parent().unwrap())?;
            fs::write(path, body)?;
            send_json(stream, 200, &json!({}))
        }
        _ => send_json(stream, 404, &json!({"message": "there is nothing"})),
    }
}

fn batch(asked: &Asked<'_>, repository: &str, repository_path: &Path, fault: &LfsFault) -> Value {
    let question: Value = serde_json::from_slice(asked.body).unwrap_or_default();
    let base = match fault {
        LfsFault::Elsewhere(base) => base.clone(),
        _ => format!("http://{}", asked.host),
    };
    let action = |rest: &str| json!({"href": format!("{base}/{repository}/info/lfs/{rest}"), "header": {"x-lfs": "1"}});
    let one = |wanted: &Value| {
        let (oid, size) = (wanted["oid"].as_str().unwrap_or_default(), &wanted["size"]);
        let there = object(repository_path, oid).exists();
        match (question["operation"].as_str(), there) {
            (Some("upload"), true) => json!({"oid": oid, "size": size}),
            (Some("upload"), false) => {
                let actions = json!({"upload": action(&format!("objects/{oid}")), "verify": action("verify")});
                json!({"oid": oid, "size": size, "actions": actions})
            }
            (_, true) => json!({"oid": oid, "size": size, "actions": {"download": action(&format!("objects/{oid}"))}}),
            (_, false) => {
                let message = format!("Object does not exist {}", asked.authorization);
                json!({"oid": oid, "size": size, "error": {"code": 404, "message": message}})
            }
        }
    };
    let objects: Vec<Value> = question["objects"].as_array().unwrap_or(&Vec::new()).iter().map(one).collect();
    json!({"transfer": "basic", "objects": objects, "hash_algo": "sha256"})
}

fn send_object(
    stream: &mut TcpStream,
    asked: &Asked<'_>,
    repository_path: &Path,
    rest: &str,
    fault: &LfsFault,
    still: impl Fn() -> bool,
) -> std::io::Result<()> {
    if let LfsFault::Moved(base) = fault {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {base}{}\r\n", asked.path);
        return write!(stream, "{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let oid = rest.rsplit('/').next().filter(|oid| oid.len() == 64).unwrap_or_default().to_owned();
    let Some(mut content) = (!oid.is_empty()).then(|| fs::read(object(repository_path, &oid)).ok()).flatten() else {
        return send_json(stream, 404, &json!({"message": "it is gone"}));
    };
    match fault {
        LfsFault::Untrue => content.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
        LfsFault::Endless => content.extend_from_slice(b"and more"),
        _ => {}
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", content.len())?;
    let half = content.len() / 2;
    stream.write_all(&content[..half])?;
    match fault {
        LfsFault::Cut(1..) => return Ok(()),
        // A failed test never changes the fault. Then this thread ends with the process.
        LfsFault::Held => {
            stream.flush()?;
            while still() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        _ => {}
    }
    stream.write_all(&content[half..])
}

fn send_json(stream: &mut TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/vnd.git-lfs+json\r\n");
    write!(stream, "{head}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
