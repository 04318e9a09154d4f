//! The Python wheel: the Python SDK, and the programs as scripts, so that `pip install stead` puts
//! them on PATH and the SDK can start a server.

use std::path::Path;

use anyhow::{Context, Result};

use super::archive::{Effort, TIME};
use super::programs::{NAMES, Programs};
use super::{VERSION, install};
use crate::process::{command, root, run};

/// The file name contains the oldest glibc, which pip compares with that of the machine.
pub(super) fn write(programs: &Programs, work: &Path, out: &Path, effort: Effort) -> Result<()> {
    let stage = work.join("wheel");
    for name in NAMES {
        install(&programs.path(name), &stage.join(format!("stead-{VERSION}.data/scripts")).join(name), 0o755)?;
    }
    let about = stage.join(format!("stead-{VERSION}.dist-info"));
    install(&root().join("LICENSE"), &about.join("licenses/LICENSE"), 0o644)?;
    let platform = format!("manylinux_2_{}_x86_64", programs.glibc_minor);
    let mut metadata = format!(
        "Metadata-Version: 2.1\nName: stead\nVersion: {VERSION}\n\
         Summary: Isolated, governed workspaces for AI agents\nLicense: Apache-2.0\nRequires-Python: >=3.9\n"
    );
    metadata.push_str(&add_sdk(&root().join("sdk/python"), &stage)?);
    std::fs::write(about.join("METADATA"), metadata)?;
    std::fs::write(
        about.join("WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: stead\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"),
    )?;
    let file = out.join(format!("stead-{VERSION}-py3-none-{platform}.whl"));
    let mut python = command("python3");
    python.args(["-c", include_str!("wheel.py")]).arg(&stage).arg(file);
    run(python
        .arg(format!("stead-{VERSION}.dist-info/RECORD"))
        .arg(TIME.to_string())
        .arg(effort.gzip_level().to_string()))
}

/// Copies the modules of the SDK and returns the lines about its dependencies.
fn add_sdk(sdk: &Path, stage: &Path) -> Result<String> {
    run(command("cp").arg("-R").arg(sdk.join("stead")).arg(stage.join("stead")))?;
    run(command("find").arg(stage.join("stead")).args([
        "-name",
        "__pycache__",
        "-prune",
        "-exec",
        "rm",
        "-r",
        "{}",
        "+",
    ]))?;
    let project: toml::Table = std::fs::read_to_string(sdk.join("pyproject.toml"))?.parse()?;
    let project = project.get("project").context("pyproject.toml has no [project]")?;
    let list = |value: Option<&toml::Value>| value.and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let required = list(project.get("dependencies"));
    let mut lines: Vec<String> =
        required.iter().filter_map(|one| Some(format!("Requires-Dist: {}", one.as_str()?))).collect();
    let extras = project.get("optional-dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    for (extra, required) in &extras {
        lines.push(format!("Provides-Extra: {extra}"));
        for one in list(Some(required)).iter().filter_map(toml::Value::as_str) {
            lines.push(format!("Requires-Dist: {}", with_extra(one, extra)));
        }
    }
    let groups = project.get("entry-points").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let mut points = String::new();
    for (group, entries) in &groups {
        points.push_str(&format!("[{group}]\n"));
        for (name, target) in entries.as_table().into_iter().flatten() {
            points.push_str(&format!("{name} = {}\n", target.as_str().unwrap_or_default()));
        }
    }
    std::fs::write(stage.join(format!("stead-{VERSION}.dist-info/entry_points.txt")), points)?;
    Ok(lines.join("\n") + "\n")
}

/// Restricts a requirement to an extra. It may already have a condition.
fn with_extra(requirement: &str, extra: &str) -> String {
    match requirement.split_once(';') {
        Some((package, condition)) => format!("{}; ({}) and extra == '{extra}'", package.trim(), condition.trim()),
        None => format!("{requirement}; extra == '{extra}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_extra;

    #[test]
    fn a_requirement_of_an_extra_keeps_its_condition() {
        assert_eq!(with_extra("a>=1", "x"), "a>=1; extra == 'x'");
        assert_eq!(
            with_extra("a>=1; python_version >= '3.11'", "x"),
            "a>=1; (python_version >= '3.11') and extra == 'x'"
        );
    }
}
