//! Mount configurations, parsed like the API does and hydrated from a small host tree. `ROOT` in
//! the text is the allowed root.
//!
//! Beside the root lies a file that no mount may import, and inside the root are links to that
//! file.
#![no_main]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use stead_core::parse;
use stead_core::registry::AgentTypeDeclaration;
use stead_fs::mount::{AllowedRoots, HostMount, hydrate};
use stead_fs::{Filesystem, Kind};
use stead_fuzz::{contents, hash, path, taken};

const FLAG: &[u8] = b"the flag that stays outside";

static HOST: LazyLock<PathBuf> =
    LazyLock::new(|| make_host(&std::env::temp_dir().join(format!("stead-fuzz-host-{}", std::process::id()))));

fn make_host(host: &Path) -> PathBuf {
    let root = host.join("root");
    let make = || -> std::io::Result<()> {
        std::fs::create_dir_all(root.join("src/deep"))?;
        std::fs::create_dir_all(root.join(".hidden"))?;
        std::fs::write(host.join("flag"), FLAG)?;
        for (name, content) in [("a.txt", "one"), ("src/b.rs", "two"), ("src/deep/c.rs", "three"), (".hidden/d", "4")] {
            std::fs::write(root.join(name), content)?;
        }
        for (name, target) in
            [("out", "../flag"), ("up", ".."), ("in", "src"), ("src/loop", "../src"), ("self", "self")]
        {
            symlink(target, root.join(name))?;
        }
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, mode, 0)?;
        Ok(())
    };
    make().expect("a host to mount from");
    root
}

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let root = &*HOST;
    let text = text.replace("ROOT", &root.display().to_string());
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return };
    // The API's parser must return for any input.
    let declared = json!({"id": "fuzz", "workspace": {"enabled": true, "mounts": value}});
    let _ = parse::read::<AgentTypeDeclaration>(declared);
    let Ok(mounts) = serde_json::from_value::<Vec<HostMount>>(value) else { return };
    if mounts.len() > 8 {
        return;
    }
    check(&mounts, root);
});

fn check(mounts: &[HostMount], root: &Path) {
    let roots = AllowedRoots::open(&[root]).expect("the root is there");
    let mut fs = taken();
    let (before, held) = (hash(&fs), contents(&fs));
    let hydrated = match hydrate(mounts, &roots, &mut fs, 0) {
        Err(error) => {
            assert!(!error.code().is_empty() && !error.to_string().is_empty());
            assert_eq!(hash(&fs), before, "{error}, and something was left behind");
            return;
        }
        Ok(hydrated) => hydrated,
    };
    assert_eq!(hydrated.previews.len(), mounts.len());
    for (mount, preview) in mounts.iter().zip(&hydrated.previews) {
        assert!(mount.max_bytes.is_none_or(|limit| preview.bytes_copied <= limit), "{preview:?} is over its budget");
    }
    // A mount path may contain a link of the workspace.
    let place = |mount_path| fs.resolve(mount_path).expect("what was mounted there is there");
    let places: Vec<_> = hydrated.previews.iter().map(|preview| place(&preview.mount_path)).collect();
    for (file, kind) in contents(&fs) {
        assert!(held.contains_key(&file) || !places.is_empty(), "{file} comes from nowhere");
        let inside = places.iter().any(|place| file.is_within(place) || place.is_within(&file));
        assert!(inside || held.contains_key(&file), "{file} is in no mount");
        if kind == Kind::File {
            let bytes = fs.read_bytes(&file).expect("a walked file can be read");
            assert!(!bytes.windows(FLAG.len()).any(|part| part == FLAG), "{file} holds the flag");
        }
    }
    assert_eq!(fs.read_bytes(&path("taken/file")).expect("it was there"), "old".as_bytes());
    let mut again = taken();
    let second = hydrate(mounts, &roots, &mut again, 0).expect("it worked the first time");
    assert_eq!(second, hydrated, "the same mounts gave something else");
    assert_eq!(hash(&again), hash(&fs));
}
