//! Finds the processes that were started with one `STEAD_HOME`.

use std::path::Path;

use anyhow::Result;

/// Returns the ids of processes with this `STEAD_HOME`: the server and all its descendants,
/// including orphans.
pub(crate) fn processes_of(home: &Path) -> Result<Vec<String>> {
    let wanted = format!("STEAD_HOME={}", home.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // An unreadable file belongs to a process that has ended, or to another user.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            found.push(name);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    #[test]
    fn a_left_process_is_found_by_its_home() {
        let home = tempfile::tempdir().unwrap();
        assert!(processes_of(home.path()).unwrap().is_empty());
        let mut child = command("sleep").arg("60").env("STEAD_HOME", home.path()).spawn().unwrap();
        let found = processes_of(home.path()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [child.id().to_string()]);
    }
}
