//! What native boxes need of this host: tried, each with a box of its own that is thrown away.

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

/// Whether a native box can be made here; if not, why.
pub(in crate::commands) fn native_works() -> Result<(), String> {
    let checks = tried().map_err(|hindrance| hindrance.detail)?;
    match checks.into_iter().next() {
        Some(Check { ok: true, .. }) => Ok(()),
        Some(Check { blocker: Some(blocker), .. }) => Err(blocker),
        _ => Err("no reason is known".to_owned()),
    }
}

/// Why nothing can even be tried.
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
    // Nothing of ours is left in it; what is not ours is not ours to remove.
    let _ = std::fs::remove_dir(&directory);
    Ok(checks)
}

/// Without a closed box there is none at all; what else is missing, boxes do without and say so.
fn finding(need: Need, number: usize, check: Check) -> Finding {
    let Check { name, ok, blocker, advice } = check;
    if ok {
        return Finding::good(WHAT, name);
    }
    let detail = format!("{name} is not to be had: {}", blocker.unwrap_or_else(|| "no reason is known".to_owned()));
    let advice = advice.unwrap_or_else(|| {
        "use another provider: WORKSPACE_DEFAULT_PROVIDER, or `provider` in a workspace config".to_owned()
    });
    Finding::missing(if number == 0 { need } else { Need::Optional }, WHAT, detail, advice)
}
