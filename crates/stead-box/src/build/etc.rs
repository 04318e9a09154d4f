//! `/etc`: who the agent is, and the few files without which programs do not find their way.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, statat};

use super::root::{self, Piece, What};
use super::tree;
use crate::error::Refused;
use crate::spec::{AGENT_ID, HOME};

/// Of the host, each because programs break without it and it holds no secret.
const SHOWN: &[&str] = &[
    "alternatives", // Debian's `awk`, `editor`, `java` are links through it
    "ld.so.cache",  // the dynamic linker's index
    "ld.so.conf",   // and what it is made from
    "ld.so.conf.d",
    "localtime", // the time zone
    "timezone",
    "mime.types", // what web servers and languages call files
    "protocols",  // names of protocols and ports
    "services",
    "os-release", // which distribution this is
    "debian_version",
    "python3", // the interpreters' own settings
    "python3.11",
    "perl",
    "java-11-openjdk",
    "java-17-openjdk",
    "profile", // login shells
    "bash.bashrc",
    "inputrc",
    "terminfo", // terminals
    "ca-certificates.conf",
    "pki", // certificates of Red Hat kin
];
/// The certificates, but not `/etc/ssl/private` beside them.
const CERTIFICATES: &str = "ssl/certs";

/// Ours, whatever the base: a box knows its agent by name and no network but itself.
fn texts() -> Vec<(&'static str, String)> {
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
        ("resolv.conf", String::new()),
    ]
}

/// The entries of `/etc`, from the root directory of the base image or from the host.
pub(super) fn pieces(base: Option<&OwnedFd>) -> Result<Vec<Piece>, Refused> {
    let texts = texts();
    let mut pieces = match base {
        None => of_host()?,
        Some(base) => {
            if statat(base, "etc", AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                // A link in the place of /etc is refused here: it is opened without following.
                let etc = tree::open_directory(base, "etc")?;
                root::entries(&etc, Path::new("etc"), &|name| !texts.iter().any(|(ours, _)| *ours == name))?
            } else {
                Vec::new()
            }
        }
    };
    pieces.extend(
        texts.into_iter().map(|(name, text)| Piece { path: Path::new("etc").join(name), what: What::Text(text) }),
    );
    Ok(pieces)
}

fn of_host() -> Result<Vec<Piece>, Refused> {
    let etc = tree::open_directory(CWD, "/etc")?;
    let mut pieces = root::entries(&etc, Path::new("etc"), &|name| SHOWN.iter().any(|shown| *shown == name))?;
    if statat(&etc, CERTIFICATES, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        pieces.push(Piece { path: "etc/ssl".into(), what: What::Empty });
        let certificates = root::piece(&etc, OsStr::new(CERTIFICATES), PathBuf::from("etc/ssl/certs"))?;
        pieces.extend(certificates);
    }
    Ok(pieces)
}
