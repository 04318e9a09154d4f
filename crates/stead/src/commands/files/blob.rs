//! `stead blob put FILE`

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use stead_api::file::Blob;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::progress::Progress;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum BlobCommand {
    /// Store a file, such as a bundle, and print its hash
    Put {
        /// The file, or - for standard input
        file: PathBuf,
    },
}

impl BlobCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let Self::Put { file } = self;
        let (content, length): (Box<dyn Read>, Option<u64>) = if file.as_os_str() == "-" {
            (Box::new(std::io::stdin()), None)
        } else {
            let unreadable = |error| Failure::new(format!("cannot read {}", file.display())).because(&error);
            let opened = File::open(file).map_err(unreadable)?;
            let length = opened.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
            (Box::new(opened), length)
        };
        let sending = Progress::bytes(&context.out, &format!("sending {}", file.display()), length);
        let stored: Blob = context.client()?.upload("POST", "/blobs", &mut sending.of(content))?;
        context.out.either(&stored, || context.out.line(&stored.digest))
    }
}
