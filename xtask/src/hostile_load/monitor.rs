//! Watches the server's memory, the disk usage of its home, and the control groups of its boxes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::census::Groups;
use super::measure::Series;

const EVERY: Duration = Duration::from_secs(1);
/// Number of samples between two walks of the home.
const WALK_EVERY: u64 = 3;

#[derive(Default)]
pub(super) struct Seen {
    pub(super) memory: Series,
    pub(super) disk: Series,
    pub(super) groups: Groups,
}

pub(super) struct Monitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Monitor {
    pub(super) fn start(server: u32, home: &Path) -> Self {
        let (stop, home) = (Arc::new(AtomicBool::new(false)), home.to_owned());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || watch(server, &home, &stopped));
        Self { stop, thread }
    }

    pub(super) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(server: u32, home: &Path, stop: &AtomicBool) -> Seen {
    let (start, mut seen) = (Instant::now(), Seen::default());
    let mut sample: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        let at = start.elapsed().as_secs_f64();
        if let Some(memory) = resident_mib(server) {
            seen.memory.0.push((at, memory));
        }
        if sample.is_multiple_of(WALK_EVERY) {
            seen.disk.0.push((at, (allocated(home) + unnamed(server)) as f64));
            groups(home, &mut seen.groups);
        }
        sample += 1;
        std::thread::sleep(EVERY);
    }
    seen
}

fn resident_mib(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
}

/// Returns the allocated bytes of all files below a directory. The length of a sparse file does not
/// count.
fn allocated(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        // An entry that was removed meanwhile uses no space.
        let facts = entry.path().symlink_metadata().ok()?;
        Some(facts.blocks() * 512 + if facts.is_dir() { allocated(&entry.path()) } else { 0 })
    });
    sizes.sum()
}

/// Returns the bytes of unnamed files that the server holds open: spooled exports and uploads.
fn unnamed(process: u32) -> u64 {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let held = descriptors.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let facts = fs::metadata(entry.path()).ok()?;
        let is_held = facts.is_file() && facts.nlink() == 0 && !target.starts_with("/memfd:");
        is_held.then_some((facts.dev(), facts.ino(), facts.blocks() * 512))
    });
    held.collect::<BTreeSet<_>>().into_iter().map(|(_, _, bytes)| bytes).sum()
}

/// Adds the control groups in the records of live boxes.
fn groups(home: &Path, seen: &mut Groups) {
    for entry in fs::read_dir(home.join("boxes")).into_iter().flatten().flatten() {
        let Ok(record) = fs::read(entry.path().join("box.json")) else { continue };
        let Ok(record) = serde_json::from_slice::<Value>(&record) else { continue };
        let named = record["cgroups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        seen.extend(named.map(PathBuf::from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_files_count_what_they_have() {
        let folder = tempfile::tempdir().unwrap();
        fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        let before = allocated(folder.path());
        assert!(before < 1 << 20, "{before}");
        fs::write(folder.path().join("full"), vec![1; 4 << 20]).unwrap();
        assert!(allocated(folder.path()) >= before + (4 << 20));
    }

    #[test]
    fn a_file_without_a_name_is_counted_and_memory_is_seen() {
        let own = std::process::id();
        let before = unnamed(own);
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &vec![1; 8 << 20]).unwrap();
        assert!(unnamed(own) >= before + (4 << 20));
        assert!(resident_mib(own).unwrap() > 1.0);
    }
}
