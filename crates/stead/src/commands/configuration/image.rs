//! `stead image …`: images for boxes, from local files.

use std::fs::File;
use std::io::Seek as _;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde_json::json;
use stead_api::List;
use stead_api::image::Image;
use stead_fs::{DiskFs, WorkspacePath, archive};

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::in_project::InProject;
use crate::output::progress::Progress;
use crate::output::{Mark, Table};
use crate::render::{cell, timestamp};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ImageCommand {
    /// Import an image; a failed import leaves nothing behind
    ///
    /// An existing name moves to the new image; running sessions keep the image that they started
    /// from.
    Import {
        /// Root directory, a tar of one, or an OCI archive; tars may be compressed with gzip or
        /// zstd
        source: PathBuf,
        /// Name of the image, for `base_image` of an agent type or `stead run --image`
        name: String,
        #[command(flatten)]
        place: InProject,
    },
    /// List the imported images
    Ls {
        #[command(flatten)]
        place: InProject,
    },
    /// Remove an image that no box uses
    Rm {
        /// Name of the image
        name: String,
        #[command(flatten)]
        place: InProject,
    },
}

impl ImageCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Import { source, name, place } => import(context, source, name, place),
            Self::Ls { place } => ls(context, place),
            Self::Rm { name, place } => {
                context.client()?.delete::<IgnoredAny>(&place.of(&format!("/images/{}", segment(name))))?;
                let gone = json!({"name": name, "removed": true});
                context.out.either(&gone, || context.out.marked(Mark::Good, &format!("{name} is gone")))
            }
        }
    }
}

fn import(context: &Context, source: &Path, name: &str, place: &InProject) -> Result<(), Failure> {
    let unreadable = |error| Failure::new(format!("cannot read {}", source.display())).because(&error);
    let is_directory = std::fs::metadata(source).map_err(unreadable)?.is_dir();
    let out = &context.out;
    let archive = if is_directory {
        let packing = Progress::working(out, &format!("packing {}", source.display()));
        let packed = packed(source);
        packing.end();
        packed?
    } else {
        File::open(source).map_err(unreadable)?
    };
    let length = archive.metadata().ok().map(|metadata| metadata.len());
    let mut archive = Progress::bytes(out, &format!("sending {name}"), length).of(archive);
    let path = place.of(&format!("/images/{}", segment(name)));
    let imported: Image = context.client()?.upload("PUT", &path, &mut archive)?;
    out.either(&imported, || match out.is_terminal() {
        false => out.line(&imported.digest),
        true => {
            let Image { files, bytes, digest, left_out: omitted, .. } = &imported;
            out.marked(Mark::Good, &format!("{name}: {files} files, {bytes} bytes, {digest}"))?;
            if *omitted > 0 {
                out.marked(Mark::Warned, &format!("{omitted} devices and FIFOs were left out: every box has its own"))?;
            }
            out.command(&format!("stead run --image {name} -- CMD"))
        }
    })
}

/// Packs a directory as a tar; links stay links.
fn packed(directory: &Path) -> Result<File, Failure> {
    let failed =
        |error: &dyn std::error::Error| Failure::new(format!("cannot pack {}", directory.display())).because(error);
    let tree = DiskFs::open(directory).map_err(|error| failed(&error))?;
    let mut spool = tempfile::tempfile().map_err(|error| failed(&error))?;
    archive::export_tar(&tree, &WorkspacePath::root(), &mut spool).map_err(|error| failed(&error))?;
    spool.rewind().map_err(|error| failed(&error))?;
    Ok(spool)
}

fn ls(context: &Context, place: &InProject) -> Result<(), Failure> {
    let answer: List<Image> = context.client()?.get(&place.of("/images"))?;
    context.out.either(&answer, || {
        if answer.items.is_empty() {
            context.out.note("no images were imported");
            return Ok(());
        }
        let mut table = Table::new(&["name", "project", "digest", "files", "bytes", "imported"]);
        for image in &answer.items {
            let (files, bytes) = (image.files.to_string(), image.bytes.to_string());
            let (name, project) = (cell(&image.name), cell(&image.project));
            table.row(&[&name, &project, &image.digest, &files, &bytes, &timestamp(&image.imported_at)]);
        }
        context.out.table(&table)
    })
}
