//! Checks what native boxes need from this host. Each check builds a box and removes it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;

use stead_providers::Check;

use super::{Finding, Need};

const WHAT: &str = "tried";

pub(super) fn look(need: Need) -> Vec<Finding> {
    match tried() {
        Ok(checks) => checks.into_iter().enumerate().map(|(number, check)| finding(need, number, check)).collect(),
        Err(Hindrance { detail, advice }) => vec![Finding::missing(need, WHAT, detail, advice)],
    }
}

/// Checks that a native box can be built here, and returns the reason if not.
pub(in crate::commands::server) fn native_works() -> Result<(), String> {
    let checks = tried().map_err(|hindrance| hindrance.detail)?;
    match checks.into_iter().next() {
        Some(Check { ok: true, .. }) => Ok(()),
        Some(Check { blocker: Some(blocker), .. }) => Err(blocker),
        _ => Err("no reason is known".to_owned()),
    }
}

/// Why the check cannot run at all.
struct Hindrance {
    detail: String,
    advice: &'static str,
}

fn tried() -> Result<Vec<Check>, Hindrance> {
    let program = match std::env::current_exe() {
        Ok(program) => program.with_file_name("stead-init"),
        Err(error) => {
            let detail = format!("this program cannot be found: {error}");
            return Err(Hindrance { detail, advice: "run it by its path" });
        }
    };
    if !program.is_file() {
        let advice = "put stead-init beside stead (cargo build -p stead-box), or set WORKSPACE_DEFAULT_PROVIDER";
        return Err(Hindrance { detail: format!("there is no {}", program.display()), advice });
    }
    let directory = std::env::temp_dir().join(format!("stead-doctor-{}", std::process::id()));
    if let Err(error) = DirBuilder::new().mode(0o700).create(&directory) {
        let detail = format!("cannot use {}: {error}", directory.display());
        return Err(Hindrance { detail, advice: "set TMPDIR to a directory that can be written" });
    }
    let checks = stead_providers::doctor(&program, &directory);
    // Removes the directory only if it is empty, because other files may not be ours.
    let _ = std::fs::remove_dir(&directory);
    Ok(checks)
}

/// Without isolation there is no box; boxes work without the other features and report it.
fn finding(need: Need, number: usize, check: Check) -> Finding {
    let Check { name, ok, blocker, advice } = check;
    if ok {
        return Finding::good(WHAT, name);
    }
    let detail = format!("{name} is not available: {}", blocker.unwrap_or_else(|| "no reason is known".to_owned()));
    let advice = advice.unwrap_or_else(|| {
        "use another provider: WORKSPACE_DEFAULT_PROVIDER, or `provider` in a workspace config".to_owned()
    });
    Finding::missing(if number == 0 { need } else { Need::Optional }, WHAT, detail, advice)
}
