//! What native boxes need of this host: tried, each with a box of its own that is thrown away.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;

use stead_providers::Check;

use super::Finding;

const WHAT: &str = "native boxes";

pub(super) fn look() -> Vec<Finding> {
    let program = match std::env::current_exe() {
        Ok(program) => program.with_file_name("stead-init"),
        Err(error) => {
            return vec![Finding::bad(WHAT, format!("this program cannot be found: {error}"), "run it by its path")];
        }
    };
    if !program.is_file() {
        let advice = "put stead-init beside stead (cargo build -p stead-box), or set WORKSPACE_DEFAULT_PROVIDER";
        return vec![Finding::bad(WHAT, format!("there is no {}", program.display()), advice)];
    }
    let directory = std::env::temp_dir().join(format!("stead-doctor-{}", std::process::id()));
    if let Err(error) = DirBuilder::new().mode(0o700).create(&directory) {
        let detail = format!("cannot use {}: {error}", directory.display());
        return vec![Finding::bad(WHAT, detail, "set TMPDIR to a directory that can be written")];
    }
    let checks = stead_providers::doctor(&program, &directory);
    // Nothing of ours is left in it; what is not ours is not ours to remove.
    let _ = std::fs::remove_dir(&directory);
    checks.into_iter().enumerate().map(|(number, check)| finding(number, check)).collect()
}

/// Without a closed box there is none at all; what else is missing, boxes do without and say so.
fn finding(number: usize, check: Check) -> Finding {
    let Check { name, ok, blocker, advice } = check;
    if ok {
        return Finding::good(WHAT, name);
    }
    let detail = format!("{name} is not to be had: {}", blocker.unwrap_or_else(|| "no reason is known".to_owned()));
    let advice = advice.unwrap_or_else(|| {
        "use another provider: WORKSPACE_DEFAULT_PROVIDER, or `provider` in a workspace config".to_owned()
    });
    if number == 0 { Finding::bad(WHAT, detail, advice) } else { Finding::warned(WHAT, detail, advice) }
}
