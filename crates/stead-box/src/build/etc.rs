//! `/etc`: the agent's user, and the few files that programs need.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, statat};

use super::detached_mount;
use super::network::BOX_ADDRESS;
use super::root::{self, Piece, What};
use crate::error::Refused;
use crate::spec::{AGENT_ID, BoxSpec, HOME, Network};

/// Files of the host that programs need and that contain no secret.
const SHOWN: &[&str] = &[
    "alternatives", // Debian's `awk`, `editor`, `java` are links through it
    "ld.so.cache",  // the dynamic linker's index
    "ld.so.conf",   // configuration of that index
    "ld.so.conf.d",
    "localtime", // the time zone
    "timezone",
    "mime.types", // media types by file extension
    "protocols",  // names of protocols and ports
    "services",
    "os-release", // name of the distribution
    "debian_version",
    "python3", // settings of the interpreters
    "python3.11",
    "perl",
    "java-11-openjdk",
    "java-17-openjdk",
    "profile", // login shells
    "bash.bashrc",
    "inputrc",
    "terminfo", // terminals
    "ca-certificates.conf",
    "pki", // certificates on Red Hat systems
];
/// The certificates, without `/etc/ssl/private` next to them.
const CERTIFICATES: &str = "ssl/certs";
/// Name in `/etc` of the directory at [`crate::spec::TRUST`].
const TRUST_NAME: &str = "stead";

/// Files that Stead writes for every base image. They define the agent's user, and a resolver if
/// there is a network besides loopback.
fn texts(network: Network) -> Vec<(&'static str, String)> {
    vec![
        (
            "passwd",
            format!(
                "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:{AGENT_ID}:{AGENT_ID}:agent:{HOME}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("root:x:0:\ntty:x:5:\nagent:x:{AGENT_ID}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost stead\n::1 localhost\n".to_owned()),
        ("hostname", "stead\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        ("resolv.conf", resolver(network)),
    ]
}

/// Returns the content of `resolv.conf`.
pub fn resolver(network: Network) -> String {
    match network {
        Network::None => String::new(),
        Network::Captured => format!("nameserver {BOX_ADDRESS}\n"),
    }
}

/// Returns the entries of `/etc`, from the root directory of the base image or from the host.
pub(super) fn pieces(base: Option<&OwnedFd>, spec: &BoxSpec) -> Result<Vec<Piece>, Refused> {
    let texts = texts(spec.network);
    let trust = spec.trust.as_deref().map(trusted).transpose()?;
    let mut pieces = match base {
        None => of_host()?,
        Some(base) => {
            if statat(base, "etc", AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                // This fails if `/etc` is a symbolic link, because the call does not follow links.
                let etc = detached_mount::open_directory(base, "etc")?;
                root::entries(&etc, Path::new("etc"), &|name| {
                    let is_trust = trust.is_some() && name == TRUST_NAME;
                    !is_trust && !texts.iter().any(|(ours, _)| *ours == name)
                })?
            } else {
                Vec::new()
            }
        }
    };
    pieces.extend(
        texts.into_iter().map(|(name, text)| Piece { path: Path::new("etc").join(name), what: What::Text(text) }),
    );
    pieces.extend(trust);
    Ok(pieces)
}

/// Returns the directory with the certificates that programs trust.
fn trusted(path: &Path) -> Result<Piece, Refused> {
    let directory = detached_mount::open_linkless(path)?;
    let mount = detached_mount::copy(&directory, ".", detached_mount::SHOWN)?;
    Ok(Piece { path: Path::new("etc").join(TRUST_NAME), what: What::Directory(mount) })
}

fn of_host() -> Result<Vec<Piece>, Refused> {
    let etc = detached_mount::open_directory(CWD, "/etc")?;
    let mut pieces = root::entries(&etc, Path::new("etc"), &|name| SHOWN.iter().any(|shown| *shown == name))?;
    if statat(&etc, CERTIFICATES, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        pieces.push(Piece { path: "etc/ssl".into(), what: What::Empty });
        let certificates = root::piece(&etc, OsStr::new(CERTIFICATES), PathBuf::from("etc/ssl/certs"))?;
        pieces.extend(certificates);
    }
    Ok(pieces)
}
