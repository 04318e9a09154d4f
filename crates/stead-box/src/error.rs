//! Errors of starting a box and of communicating with it.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::protocol::{GuestError, ProtocolError};

/// A kernel feature that a box needs. If the kernel refuses one, the box does not start with weaker
/// isolation: it does not start at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Primitive {
    Spec,
    Namespaces,
    IdMap,
    Cgroup,
    Volume,
    Mount,
    IdMappedMount,
    Overlay,
    Proc,
    Devpts,
    PivotRoot,
    Loopback,
    Capture,
    Hostname,
    Keyring,
    Capabilities,
    NoNewPrivileges,
    Seccomp,
    ControlSocket,
    Record,
}

impl Primitive {
    /// Returns the usual cause of a refusal and its remedy.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Spec => {
                "the order to make the box was not understood: the server and stead-init must be of one version"
            }
            Self::Namespaces => {
                "the kernel or a container forbids user namespaces: set kernel.unprivileged_userns_clone=1 and \
                 user.max_user_namespaces > 0, lift the AppArmor or seccomp rule, or run stead as root"
            }
            Self::IdMap => "the uid range of the box could not be mapped: as root CAP_SETUID and CAP_SETGID are needed",
            Self::Cgroup => "the control groups cannot be written: run stead as root, or delegate a cgroup to its user",
            Self::Volume => {
                "a disk limit needs mkfs.ext4 (package e2fsprogs), a free loop device and CAP_SYS_ADMIN; without them \
                 choose a volume that is a directory, whose size is not limited"
            }
            Self::Mount => {
                "the kernel refused a mount inside the box: Linux 5.12 or newer is needed, without an LSM rule against it"
            }
            Self::IdMappedMount => {
                "the file system of a layer has no id-mapped mounts: keep layers on ext4, xfs, btrfs or tmpfs"
            }
            Self::Overlay => {
                "overlayfs inside a user namespace needs Linux 5.11 or newer, and an upper directory on a local file system"
            }
            Self::Proc => {
                "a new /proc is refused where the current one is partly covered, as inside a container: run the container with \
                 an unmasked /proc"
            }
            Self::Devpts => "a private devpts was refused: the kernel needs CONFIG_UNIX98_PTYS",
            Self::PivotRoot => "pivot_root was refused: the host's root is a ramfs, or an LSM forbids it",
            Self::Loopback => "the loopback interface could not be brought up: the kernel needs CONFIG_NET_NS",
            Self::Capture => {
                "a box with a network needs nf_tables and its tproxy expression: the kernel needs CONFIG_NF_TABLES and \
                 CONFIG_NFT_TPROXY, or load the modules nf_tables and nft_tproxy"
            }
            Self::Hostname => "the host name of the box could not be set: the kernel needs CONFIG_UTS_NS",
            Self::Keyring => {
                "the session keyring could not be left: an outer seccomp rule or a keyring quota forbids it"
            }
            Self::Capabilities => "capabilities could not be dropped, so nothing was started",
            Self::NoNewPrivileges => "no_new_privs could not be set, so nothing was started",
            Self::Seccomp => "the seccomp filter was refused: the kernel needs CONFIG_SECCOMP_FILTER",
            Self::ControlSocket => "the control socket could not be made in the box's directory",
            Self::Record => "the owner record could not be written in the box's directory: is the disk full?",
        }
    }
}

/// A refused kernel feature, as the builder reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{doing}: {reason}: {}", .primitive.advice())]
pub struct Refused {
    pub primitive: Primitive,
    /// The attempted operation, in words.
    pub doing: String,
    /// Error of the kernel.
    pub reason: String,
}

/// Adds the kernel feature to the error of a failing call.
pub(crate) trait OrRefuse<T> {
    fn or_refuse(self, primitive: Primitive, doing: impl FnOnce() -> String) -> Result<T, Refused>;
}

impl<T, E: Into<io::Error>> OrRefuse<T> for Result<T, E> {
    fn or_refuse(self, primitive: Primitive, doing: impl FnOnce() -> String) -> Result<T, Refused> {
        self.map_err(|error| Refused { primitive, doing: doing(), reason: error.into().to_string() })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BoxError {
    #[error("cannot start a box")]
    Refused(#[from] Refused),
    #[error("box {id} exists already in {}", .directory.display())]
    Exists { id: String, directory: PathBuf },
    #[error("cannot {doing} {}", .path.display())]
    Host {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("stead-init could not be started from {}", .program.display())]
    NoInit {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("stead-init exited before the box was ready ({status}); its output: {output:?}")]
    InitFailed { status: String, output: String },
    #[error("the box is not there: {reason}")]
    Gone { reason: &'static str },
    #[error("every one of the {ranges} uid ranges is taken")]
    NoUids { ranges: u32 },
    #[error("the box did not answer as the protocol says")]
    Protocol(#[from] ProtocolError),
    /// A box never lends this. Only a box that a program has taken over could.
    #[error("the box lent {what}")]
    Foreign { what: &'static str },
    #[error("the connection to the box is lost")]
    Lost(#[source] io::Error),
    #[error("the box refused: {} ({})", .0.message, .0.kind.code())]
    Guest(GuestError),
    #[error("after {seconds} s there is still {what}")]
    Undead { what: String, seconds: u64 },
}

/// Adds the path to the error of a failing call on the host.
pub(crate) trait At<T> {
    fn at(self, doing: &'static str, path: &std::path::Path) -> Result<T, BoxError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, doing: &'static str, path: &std::path::Path) -> Result<T, BoxError> {
        self.map_err(|error| BoxError::Host { doing, path: path.to_owned(), source: error.into() })
    }
}
