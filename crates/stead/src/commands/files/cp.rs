//! `stead cp SOURCE TARGET`

mod directory;
mod location;

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use stead_api::file::Placed;

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::progress::Progress;
use location::Location;

/// Copies files into or out of a session's workspace.
#[derive(Debug, clap::Args)]
pub(crate) struct Cp {
    /// A local path, SESSION:PATH, or - for standard input
    #[arg(value_name = "SOURCE")]
    from: Location,
    /// A local path, SESSION:PATH, or - for standard output
    #[arg(value_name = "TARGET")]
    to: Location,
    /// Copy a directory recursively and atomically; existing files are not replaced
    #[arg(short, long)]
    recursive: bool,
}

impl Cp {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        match (&self.from, &self.to) {
            (Location::Remote { .. }, Location::Remote { .. }) => {
                Err(Failure::usage("one of SOURCE and TARGET must be local")
                    .hint("copy to a local path first, then from there"))
            }
            (from @ (Location::Local(_) | Location::Standard), Location::Remote { session, path }) => {
                let placed = match (from, self.recursive) {
                    (Location::Local(local), true) => directory::send(out, &client, local, session, path)?,
                    (from, _) => send(out, &client, from, session, path)?,
                };
                out.either(&placed, || Ok(()))
            }
            (Location::Remote { session, path }, to) => match (to, self.recursive) {
                (Location::Local(local), true) => {
                    directory::fetch(out, &client, session, path, local)?;
                    out.either(&json!({"path": local}), || Ok(()))
                }
                (to, _) => fetch(&client, out, session, path, to),
            },
            _ => Err(Failure::usage("one of SOURCE and TARGET must be SESSION:PATH")
                .hint("for example: stead cp ses_…:src/main.rs .")),
        }
    }
}

fn send(out: &Output, client: &Client, from: &Location, session: &str, path: &str) -> Result<Placed, Failure> {
    let (content, name, length): (Box<dyn Read>, Option<String>, Option<u64>) = match from {
        Location::Local(local) => {
            let unreadable = |error| Failure::new(format!("cannot read {}", local.display())).because(&error);
            let file = File::open(local).map_err(unreadable)?;
            let found = file.metadata().map_err(unreadable)?;
            if found.is_dir() {
                let sentence = format!("{} is a directory", local.display());
                return Err(Failure::new(sentence).hint("use -r to copy a directory recursively"));
            }
            let name = local.file_name().map(|name| name.to_string_lossy().into_owned());
            (Box::new(file), name, found.is_file().then_some(found.len()))
        }
        _ => (Box::new(io::stdin()), None, None),
    };
    // Like `cp`, a copy into a directory keeps its name.
    let path = match name {
        Some(name) if path.is_empty() || path.ends_with('/') => format!("{path}{name}"),
        _ => path.to_owned(),
    };
    if path.is_empty() || path.ends_with('/') {
        return Err(Failure::usage("name the target file for standard input").hint("stead cp - SESSION:path/to/file"));
    }
    let mut content = Progress::bytes(out, &format!("sending {path}"), length).of(content);
    Ok(client.upload("PUT", &format!("{}?mkdir=1", location::files(session, &path)), &mut content)?)
}

fn fetch(client: &Client, out: &Output, session: &str, path: &str, to: &Location) -> Result<(), Failure> {
    let mut download = client.download(&location::files(session, path))?;
    if download.is_listing {
        let sentence = format!("{session}:{path} is a directory");
        return Err(Failure::new(sentence).hint("use -r to copy a directory recursively"));
    }
    let Location::Local(local) = to else {
        let copied = io::copy(&mut download.reader, &mut io::stdout().lock());
        return copied.map(|_| ()).map_err(|error| Failure::from_output(&error));
    };
    let name = Path::new(path).file_name().unwrap_or_default();
    let target = if local.is_dir() { local.join(name) } else { local.clone() };
    let receiving = Progress::bytes(out, &format!("receiving {path}"), download.length);
    let bytes = replace(&target, &mut receiving.of(download.reader))?;
    out.either(&json!({"path": target, "bytes": bytes}), || Ok(()))
}

/// Writes to a temporary file and renames it to the target when it is complete.
pub(in crate::commands) fn replace(target: &Path, content: &mut dyn Read) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot write {}", target.display())).because(&error);
    let folder =
        target.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    let mut draft = tempfile::Builder::new().prefix(".stead-").tempfile_in(folder).map_err(failed)?;
    let bytes = io::copy(content, &mut draft).map_err(failed)?;
    draft.flush().map_err(failed)?;
    // The content comes from the session, so it never gets the set-id bits of the replaced file.
    let mode = match target.symlink_metadata() {
        Ok(there) if there.is_file() => there.permissions().mode() & 0o777,
        _ => 0o644,
    };
    draft.as_file().set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    draft.persist(target).map_err(|error| failed(error.error))?;
    Ok(bytes)
}
