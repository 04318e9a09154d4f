//! Checks free disk space and the listen address.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::context::Context;

/// Below this many bytes, a few workspaces fill the disk.
const LITTLE: u64 = 2 << 30;

pub(super) fn look(context: &Context) -> Vec<Finding> {
    let home = context.config.home.path();
    let mut findings = vec![disk("disk", home)];
    let temporary = std::env::temp_dir();
    if device(&temporary) != device(home) {
        findings.push(disk("temporary files", &temporary));
    }
    findings.extend(port(context));
    findings
}

/// The nearest existing ancestor directory.
fn standing(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    standing(path).metadata().ok().map(|metadata| metadata.dev())
}

fn disk(what: &'static str, path: &Path) -> Finding {
    let existing = standing(path);
    let free = match rustix::fs::statvfs(&existing) {
        Ok(room) => room.f_bavail.saturating_mul(room.f_frsize),
        Err(error) => return Finding::warned(what, format!("{}: {error}", existing.display()), "look at its mount"),
    };
    let detail = format!("{:.1} GiB free at {}", free as f64 / f64::from(1 << 30), existing.display());
    if free < LITTLE {
        let advice = "free space (`stead gc` removes unused data), or set STEAD_HOME to a larger disk";
        return Finding::warned(what, detail, advice);
    }
    Finding::good(what, detail)
}

/// Checks that the listen address is free. A known server uses it itself.
fn port(context: &Context) -> Option<Finding> {
    if context.config.has_known_server() {
        return None;
    }
    let listen = context.config.server().ok()?.listen;
    let shown = listen.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    Some(match TcpListener::bind(&listen.addresses[..]) {
        Ok(_) => Finding::good("address", format!("{shown} is free")),
        Err(error) => {
            let advice =
                "`stead up` takes another port by itself; for `stead serve`, set --listen HOST:PORT or STEAD_LISTEN";
            Finding::warned("address", format!("cannot listen on {shown}: {error}"), advice)
        }
    })
}
