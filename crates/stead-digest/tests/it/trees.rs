//! Source trees for the tests: sources that cargo unpacked, and trees that `cargo xtask test`
//! downloads.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use stead_fs::{DiskFs, Filesystem, MemoryFs, WorkspacePath, WriteMode};

pub(crate) fn write(fs: &mut MemoryFs, path: &str, content: &[u8]) {
    let path: WorkspacePath = path.parse().unwrap();
    fs.write_bytes(&path, content.to_vec().into(), WriteMode::Overwrite, 0).unwrap();
}

/// The published sources of a dependency.
pub(crate) fn of_crate(name: &str) -> MemoryFs {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"));
    let registries = std::fs::read_dir(home.join("registry/src")).unwrap();
    let mut found = registries.map(|registry| registry.unwrap().path().join(name)).filter(|path| path.is_dir());
    let directory =
        found.next().unwrap_or_else(|| panic!("{name} is not in Cargo.lock any more: choose its new version"));
    let mut fs = MemoryFs::new();
    copy(&DiskFs::open(&directory).unwrap(), &directory, &mut fs);
    fs
}

fn copy(from: &DiskFs, directory: &Path, to: &mut MemoryFs) {
    from.walk(&WorkspacePath::root(), &mut |walked| {
        // Skip cargo's own marker file.
        if walked.kind == stead_fs::Kind::File && walked.path.to_string() != ".cargo-ok" {
            let content = std::fs::read(directory.join(walked.path.as_os_str())).unwrap();
            to.write_bytes(&walked.path, content.into(), WriteMode::Create, 0).unwrap();
        }
        std::ops::ControlFlow::Continue(stead_fs::Walk::Continue)
    })
    .unwrap();
}

/// A downloaded package, without its top-level directory.
pub(crate) fn of_package(file: &str) -> MemoryFs {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    let packed = target.join("xtask/trees").join(file);
    if !packed.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let steps = ["xtask", "test", "--only", "setup", "--only", "python", "--only", "trees"];
        assert!(
            Command::new(cargo).args(steps).current_dir(&root).status().unwrap().success(),
            "cannot download {file}"
        );
    }
    let mut fs = MemoryFs::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(File::open(packed).unwrap()));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        let inside = path.components().skip(1).collect::<PathBuf>();
        if entry.header().entry_type().is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            write(&mut fs, inside.to_str().unwrap(), &content);
        }
    }
    fs
}
