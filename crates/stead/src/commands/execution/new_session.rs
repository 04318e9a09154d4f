//! The flags of `run` and `mcp` that describe the workspace of a new session.
//!
//! `--dir` uploads a copy of the directory, which this program reads with the rights of its user.
//! The server opens no host path for it, so `allowed_host_roots` needs no entry.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use stead_api::file::Blob;
use stead_api::{AgentType, Session};
use stead_core::{Resource, Status};
use stead_fs::archive;
use stead_fs::{DiskFs, WorkspacePath};

use crate::client::{Client, ClientError, segment};
use crate::context::Context;
use crate::embedded::{OnSignal, Server, WhenTaken};
use crate::failure::Failure;
use crate::logging;
use crate::output::Output;
use crate::output::progress::Progress;
use crate::provisioning::create_own_session;

/// Timeout for provisioning, which may clone, unpack and run setup commands.
const PROVISION: Duration = Duration::from_secs(300);
/// Number of attempts if somebody removes the agent type meanwhile.
const AGENT_TYPE_TRIES: usize = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct NewSession {
    /// Work on a copy of this directory
    #[arg(long, value_name = "PATH", conflicts_with_all = ["bundle", "repo"])]
    pub(super) dir: Option<PathBuf>,
    /// Work on the contents of this archive (tar, tar.gz, tar.zst, zip)
    #[arg(long, value_name = "FILE", conflicts_with = "repo")]
    bundle: Option<PathBuf>,
    /// Work on a checkout of this repository
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Agent type of the session, instead of one that this command declares
    #[arg(long, value_name = "ID", conflicts_with_all = ["provider", "image"])]
    agent_type: Option<String>,
    /// Provider of the box
    #[arg(long, value_name = "NAME", default_value = "native")]
    provider: String,
    /// Start the box from this imported image, or from a root directory inside `allowed_host_roots`
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
}

/// The files that the agent of a new session changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its own copy of the files.
    Copy,
    /// A host directory itself.
    Live,
}

/// Number of latest checkpoints of a live session.
const LIVE_CHECKPOINTS: u64 = 50;

/// Runs `work` with the running server, or with an embedded one that ends with this command.
pub(super) fn with_server(context: &Context, work: impl FnOnce(Client) -> Result<(), Failure>) -> Result<(), Failure> {
    logging::start(context.config.log.as_ref(), "error")?;
    if context.config.has_known_server() {
        return work(context.client()?);
    }
    let server = Server::start(&context.config, WhenTaken::TakeAnother, OnSignal::GoOn)?;
    let done = Client::new(server.endpoint()).and_then(work);
    let stopped = server.stop();
    done.and(stopped)
}

impl NewSession {
    /// Creates a new session.
    pub(super) fn open(&self, out: &Output, client: &Client) -> Result<Session, Failure> {
        self.create(out, client, self.policy(out, client)?)
    }

    /// Creates a new session that works on a host directory itself. The server decides whether it
    /// may.
    pub(super) fn open_live(&self, out: &Output, client: &Client, directory: &Path) -> Result<Session, Failure> {
        let unusable =
            |error| Failure::new(format!("cannot use the directory {}", directory.display())).because(&error);
        let host_path = directory.canonicalize().map_err(unusable)?;
        let policy = json!({"type": "mount", "host_path": host_path, "mode": "rw"});
        self.create_as(out, client, policy, Kind::Live).map_err(|failure| {
            failure.hint(
                "live sessions need the native provider and a directory inside allowed_host_roots (stead platform \
                 set); without --live the agent works on a copy",
            )
        })
    }

    fn create(&self, out: &Output, client: &Client, policy: Value) -> Result<Session, Failure> {
        self.create_as(out, client, policy, Kind::Copy)
    }

    fn create_as(&self, out: &Output, client: &Client, policy: Value, kind: Kind) -> Result<Session, Failure> {
        let task = json!({"workspace_policy": policy});
        if let Some(agent_type) = &self.agent_type {
            let body = json!({"agent_type": agent_type, "task": task});
            return create_own_session(out, client, &body, &uuid::Uuid::now_v7().to_string(), PROVISION);
        }
        // Only the first command on a server declares the agent type, so all others save a request.
        let body = json!({"agent_type": self.own_agent_type(kind), "task": task});
        for _ in 0..AGENT_TYPE_TRIES {
            let made = create_own_session(out, client, &body, &uuid::Uuid::now_v7().to_string(), PROVISION);
            match made {
                Err(failure) if failure.parameters().resource == Some(Resource::AgentType) => {
                    self.declare_agent_type(client, kind)?;
                }
                made => return made,
            }
        }
        Err(Failure::new("the agent type of this command was repeatedly removed").hint("try again"))
    }

    /// Closes the session. Its agent type stays for the next command.
    pub(super) fn close(&self, client: &Client, session: &str) -> Result<(), Failure> {
        client.delete::<Session>(&format!("/sessions/{}", segment(session)))?;
        Ok(())
    }

    /// Initial files of the workspace.
    fn policy(&self, out: &Output, client: &Client) -> Result<Value, Failure> {
        if let Some(url) = &self.repo {
            return Ok(json!({"type": "git", "url": url}));
        }
        if let Some(dir) = &self.dir {
            let packing = Progress::working(out, &format!("packing {}", dir.display()));
            let tar = pack(dir);
            packing.end();
            return bundle(out, client, tar?, dir);
        }
        if let Some(path) = &self.bundle {
            let unreadable = |error| Failure::new(format!("cannot read {}", path.display())).because(&error);
            return bundle(out, client, File::open(path).map_err(unreadable)?, path);
        }
        Ok(json!("empty"))
    }

    fn own_agent_type(&self, kind: Kind) -> String {
        let image = self.image.as_ref().map(|image| format!("-{}", &blake3::hash(image.as_bytes()).to_hex()[..12]));
        let prefix = match kind {
            Kind::Copy => "stead-run",
            Kind::Live => "stead-live",
        };
        format!("{prefix}-{}{}", self.provider, image.unwrap_or_default())
    }

    /// Declares an agent type with every tool for this provider and image. All commands share it.
    fn declare_agent_type(&self, client: &Client, kind: Kind) -> Result<(), Failure> {
        let mut declaration = json!({
            "id": self.own_agent_type(kind),
            "description": "Made by stead run or stead mcp.",
            "workspace": {
                "enabled": true, "provider": self.provider, "base_image": self.image, "require_workspace": true,
                "repo_source": {"type": "none"},
            },
        });
        if kind == Kind::Live {
            // The directory cannot be layered, so a checkpoint of it is a copy.
            declaration["workspace"]["rewind"] = json!({"points": "copies", "keep": LIVE_CHECKPOINTS});
        }
        match client.post::<AgentType>("/agent-types", &declaration) {
            // Another command declared it first.
            Err(ClientError::Refused(problem)) if problem.status == 409 => {}
            made => drop(made?),
        }
        Ok(())
    }
}

/// Checks that the session has its workspace, and returns the reason if not.
pub(super) fn ready(session: &Session) -> Result<(), Failure> {
    if session.status == Status::Active && !session.degraded {
        return Ok(());
    }
    let why = session.failure.as_ref().or(session.warnings.first());
    let why = why.map_or("it did not become ready in time", |notice| &notice.message);
    let failure = Failure::new(format!("the workspace could not be made: {why}"));
    let steps = session.provisioning.iter().flat_map(|provisioning| &provisioning.steps);
    let mut failures = steps.filter_map(|step| step.failure.as_ref());
    Err(if failures.any(|failure| OF_THIS_MACHINE.contains(&failure.code.as_str())) {
        failure.hint("`stead doctor` reports what works on this machine and how to fix the rest")
    } else {
        failure
    })
}

/// Codes of failures that the machine causes. `stead doctor` can explain them.
const OF_THIS_MACHINE: [&str; 6] = [
    "box_failed",
    "provider_unhealthy",
    "podman_refused",
    "runtime_replaced",
    "runtime_unusable",
    "limit_not_enforced",
];

fn bundle(out: &Output, client: &Client, archive: File, of: &Path) -> Result<Value, Failure> {
    let length = archive.metadata().ok().map(|metadata| metadata.len());
    let sending = Progress::bytes(out, &format!("sending {}", of.display()), length);
    let stored: Blob = client.upload("POST", "/blobs", &mut sending.of(archive))?;
    Ok(json!({"type": "bundle", "source": {"blob": stored.digest}}))
}

/// Packs the directory as a tar.
fn pack(directory: &Path) -> Result<File, Failure> {
    let unreadable =
        |error: &dyn std::error::Error| Failure::new(format!("cannot read {}", directory.display())).because(error);
    let tree = DiskFs::open(directory).map_err(|error| unreadable(&error))?;
    let mut spool = tempfile::tempfile().map_err(|error| unreadable(&error))?;
    archive::export_tar(&tree, &WorkspacePath::root(), &mut spool).map_err(|error| unreadable(&error))?;
    spool.flush().and_then(|()| spool.rewind()).map_err(|error| unreadable(&error))?;
    Ok(spool)
}
