//! Images imported into this server, copied to Podman when a box first needs one.
//!
//! Podman has each image under a name made of this server's instance and the image's digest. So
//! this server alone decides what an image name means. An image under such a name always has the
//! right bytes, and two servers that use one Podman have separate images.

use std::fs::File;
use std::io::Seek as _;

use stead_core::command::CreateOrder;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::{ContentHash, DiskFs, WorkspacePath};

use super::PodmanProvider;
use super::client::escaped;
use super::image::{self, COPIES, Image};
use crate::contract::error::ProviderError;
use crate::guest::off_thread;
use crate::overlay::images::HeldImage;

impl PodmanProvider {
    /// Holds the imported image of a reference for the box, and copies it to Podman if needed.
    /// `None` if no image of that name was imported.
    pub(super) async fn lend(&self, reference: &str, order: &CreateOrder) -> Result<Option<Image>, ProviderError> {
        let (images, asked, order) = (self.images.clone(), reference.to_owned(), order.clone());
        let held = off_thread(move || images.hold(&asked, &order)).await?;
        let Some(held) = held else { return Ok(None) };
        let name = self.lent_name(&held.digest);
        let lending = self.lending.lock().await;
        let id = match image::look(&self.podman.client, &name).await? {
            Some(there) => there.id,
            None => {
                self.give(&held, &name).await?;
                let missing = || ProviderError::Podman { reason: format!("it took the image {name} and has it not") };
                image::look(&self.podman.client, &name).await?.ok_or_else(missing)?.id
            }
        };
        drop(lending);
        Ok(Some(Image { reference: reference.to_owned(), id, digest: held.digest.to_string(), env: held.env }))
    }

    /// Removes the copy of an image from Podman.
    pub(super) async fn take_back(&self, digest: &ContentHash) -> Result<(), ProviderError> {
        let name = self.lent_name(digest);
        if image::look(&self.podman.client, &name).await?.is_some() {
            self.podman.client.delete(&format!("/images/{}", escaped(&name))).await?.ok()?;
        }
        Ok(())
    }

    async fn give(&self, held: &HeldImage, name: &str) -> Result<(), ProviderError> {
        let (records, root) = (self.podman.records.clone(), self.images.root(held)?);
        let tar = off_thread(move || {
            let unpacked = |source| ProviderError::Bundle { source };
            let io = |error| unpacked(ArchiveError::Io(error));
            let mut tar: File = records.scratch().file().map_err(io)?;
            let files = DiskFs::open(&root).map_err(io)?;
            archive::export_tar(&files, &WorkspacePath::root(), &mut tar).map_err(unpacked)?;
            tar.rewind().map_err(io)?;
            Ok(tar)
        });
        let path = format!("/images/import?reference={}", escaped(name));
        self.podman.client.send_file(&path, tar.await?).await?.ok().map(drop)
    }

    fn lent_name(&self, digest: &ContentHash) -> String {
        format!("{COPIES}{}:{}", self.podman.config.instance.to_lowercase(), digest.to_hex())
    }
}
