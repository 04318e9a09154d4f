//! The OCI image archive, made without a container engine: one layer with the programs, git, the
//! certificate bundle, busybox and the libraries of the machine that packs it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive::{Effort, gzip, sha256, tar};
use super::programs::{NAMES, Programs};
use super::{VERSION, install};
use crate::process::{command, run};

pub(super) const FILE: &str = concat!("stead-", env!("CARGO_PKG_VERSION"), "-oci.tar");
const LOCAL_ROOT: &str = include_str!("local_root.sh");
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(super) fn write(programs: &Programs, tree: &Path, work: &Path, out: &Path, effort: Effort) -> Result<()> {
    let layer = work.join("layer");
    local_root(&layer, programs, &["git", "/usr/lib/git-core", "bash", "mkfs.ext4", CERTIFICATES])?;
    run(command("cp").arg("-R").arg(tree.join("share")).arg(layer.join("usr/")))?;
    std::fs::create_dir_all(layer.join("var/lib/stead"))?;
    let mut blobs = Blobs::new(work.join("oci"))?;
    let layer_tar = work.join("layer.tar");
    tar(&layer, &layer_tar)?;
    let uncompressed = sha256(&layer_tar)?;
    gzip(&layer_tar, effort)?;
    let layer = blobs.add(&work.join("layer.tar.gz"), "application/vnd.oci.image.layer.v1.tar+gzip")?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "created": "1980-01-01T00:00:00Z",
        "config": {
            "Entrypoint": ["/usr/bin/stead"],
            "Cmd": ["serve"],
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "STEAD_HOME=/var/lib/stead"],
            "Volumes": {"/var/lib/stead": {}},
            "ExposedPorts": {"7717/tcp": {}},
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "stead",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{uncompressed}")]},
        "history": [{"created": "1980-01-01T00:00:00Z", "created_by": "cargo xtask dist"}],
    });
    let config = blobs.add_json(&config, "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest = blobs.add_json(&manifest, "application/vnd.oci.image.manifest.v1+json")?;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": "localhost/stead:latest"});
    blobs.finish(&manifest, &out.join(FILE))
}

/// Makes a root with the programs, their libraries, and files of this machine.
pub(super) fn local_root(to: &Path, programs: &Programs, files: &[&str]) -> Result<()> {
    let paths: Vec<PathBuf> = NAMES.iter().map(|name| programs.path(name)).collect();
    let libraries = paths.iter().map(|path| libraries(path)).collect::<Result<Vec<_>>>()?.concat();
    let mut script = command("sh");
    script.args(["-c", LOCAL_ROOT, "local_root.sh"]).arg(to).args(files).args(libraries);
    run(&mut script)?;
    for (name, path) in NAMES.iter().zip(&paths) {
        install(path, &to.join("usr/bin").join(name), 0o755)?;
    }
    Ok(())
}

/// Returns the shared libraries that a program loads. A static program loads none.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let listed = command("ldd").arg(program).output().context("cannot start ldd")?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words = text.split_whitespace().filter(|word| word.starts_with('/') && Path::new(word).is_file());
    Ok(words.map(str::to_owned).collect())
}

/// The content-addressed files of an OCI layout.
struct Blobs {
    layout: PathBuf,
}

impl Blobs {
    fn new(layout: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(layout.join("blobs/sha256"))?;
        std::fs::write(layout.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}")?;
        Ok(Self { layout })
    }

    /// Moves a file to the layout and returns its descriptor.
    fn add(&mut self, file: &Path, media_type: &str) -> Result<Value> {
        let (hash, size) = (sha256(file)?, std::fs::metadata(file)?.len());
        std::fs::rename(file, self.layout.join("blobs/sha256").join(&hash))?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": size}))
    }

    fn add_json(&mut self, document: &Value, media_type: &str) -> Result<Value> {
        let file = self.layout.with_extension("json");
        std::fs::write(&file, serde_json::to_vec(document)?)?;
        self.add(&file, media_type)
    }

    fn finish(self, manifest: &Value, to: &Path) -> Result<()> {
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest],
        });
        std::fs::write(self.layout.join("index.json"), serde_json::to_vec(&index)?)?;
        tar(&self.layout, to)
    }
}
