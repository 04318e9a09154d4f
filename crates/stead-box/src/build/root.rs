//! The box's root: a small read-only tmpfs with the system directories mounted into it.
//!
//! The invariant: every mount point is a name in a directory that the builder made and no other
//! process can reach. The builder never follows a path of a base image: it copies the entries one
//! by one, and links as links. So a hostile image can only damage its own content.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, readlinkat, statat, symlinkat};

use super::detached_mount::{self, Opt, SHOWN};
use super::layers::{self, Staged};
use super::volume::{self, ReadyVolume};
use super::{devices, etc, shown_resources};
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::{BoxSpec, Ids};
use crate::sys::mount_attr;

/// Host directories that a box without a base image sees. `/opt`, `/srv`, `/var` and `/home` are
/// not among them, because they contain the host's own data.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Directories that the builder makes for each box, regardless of the base image.
const OURS: &[&str] = &["proc", "sys", "dev", "tmp", "run", "workspace", "home", "etc"];
/// Empty directories in every root: mount points, and directories that programs expect.
const DIRECTORIES: &[&str] =
    &["proc", "dev", "dev/pts", "dev/shm", "tmp", "run", "workspace", "home", "home/agent", "etc"];

/// Staging directory in the box's mount namespace, until the new root is entered. It covers `/tmp`
/// and does not change it on the host.
pub(super) const STAGING: &str = "/tmp";

/// The staging tree. Below [`STAGING`] are `root`, `volume`, an `empty` directory, and the layers.
pub(super) struct Assembled {
    pub(super) layers: Staged,
}

/// An entry of the new root.
pub(super) struct Piece {
    pub(super) path: PathBuf,
    pub(super) what: What,
}

pub(super) enum What {
    Directory(OwnedFd),
    File(OwnedFd),
    Link(OsString),
    Text(String),
    Empty,
}

/// Isolates the mounts of this namespace from those outside.
pub(super) fn make_mounts_private() -> Result<(), Refused> {
    let root = detached_mount::open_directory(CWD, "/")?;
    mount_attr::make_private(root.as_fd()).or_refuse(Primitive::Mount, || "cannot make the mounts private".to_owned())
}

/// Assembles all parts below [`STAGING`].
pub(super) fn assemble(spec: &BoxSpec, ready: Option<ReadyVolume>, held: &mut Held) -> Result<Assembled, Refused> {
    // Open all sources first, because the staging directory may cover some of them. Open the base
    // only once, because the path may later refer to something else.
    let base = spec.base.as_deref().map(detached_mount::open_linkless).transpose()?;
    let mut pieces = match &base {
        None => {
            let system = |name: &OsStr| SYSTEM.iter().any(|system| *system == name);
            let mut pieces = entries(&detached_mount::open_directory(CWD, "/")?, Path::new(""), &system)?;
            pieces.push(Piece { path: "var".into(), what: What::Empty });
            pieces.push(Piece { path: "var/tmp".into(), what: What::Link("/tmp".into()) });
            pieces
        }
        Some(base) => entries(base, Path::new(""), &|name| !OURS.iter().any(|ours| *ours == name))?,
    };
    pieces.extend(etc::pieces(base.as_ref(), spec)?);
    pieces.extend(devices::pieces()?);
    pieces.extend(shown_resources::pieces(&spec.limits));
    let volume = volume::make(spec, ready, held)?;
    let sources = layers::open(spec)?;

    let root = skeleton(spec, &pieces)?;
    let staging =
        detached_mount::new("tmpfs", &[Opt::Value("mode", "0755")], detached_mount::WRITTEN, Primitive::Mount)?;
    for name in ["root", "volume", "empty", "base"] {
        make_directory(&staging, name)?;
    }
    for name in shown_resources::FILES {
        if let Some(text) = shown_resources::text(name, &spec.limits) {
            write_text(&staging, Path::new(name), &text)?;
        }
    }
    detached_mount::attach(&staging, detached_mount::open_directory(CWD, STAGING)?.as_fd(), "")?;
    detached_mount::attach(&volume, staging.as_fd(), "volume")?;
    let layers = sources.stage(spec, &staging)?;
    detached_mount::attach(&root, staging.as_fd(), "root")?;
    for piece in &pieces {
        if let What::Directory(mount) | What::File(mount) = &piece.what {
            detached_mount::attach(mount, root.as_fd(), &piece.path)?;
        }
    }
    Ok(Assembled { layers })
}

/// Returns copies of the entries that `wanted` selects, sorted by name.
pub(super) fn entries(from: &OwnedFd, below: &Path, wanted: &dyn Fn(&OsStr) -> bool) -> Result<Vec<Piece>, Refused> {
    let refused = || format!("cannot list /{}", below.display());
    let readable = openat(from, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .or_refuse(Primitive::Mount, refused)?;
    let mut pieces = Vec::new();
    for entry in Dir::new(readable).or_refuse(Primitive::Mount, refused)? {
        let entry = entry.or_refuse(Primitive::Mount, refused)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." && wanted(&name) {
            pieces.extend(piece(from, &name, below.join(&name))?);
        }
    }
    pieces.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pieces)
}

/// Returns a copy of one entry; `None` if it is neither a directory, a file nor a link.
pub(super) fn piece(from: &OwnedFd, name: &OsStr, path: PathBuf) -> Result<Option<Piece>, Refused> {
    let refused = || format!("cannot look at {}", name.display());
    let found = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).or_refuse(Primitive::Mount, refused)?;
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => What::Directory(detached_mount::copy(from, name, SHOWN)?),
        FileType::RegularFile => What::File(detached_mount::copy(from, name, SHOWN)?),
        FileType::Symlink => {
            let target = readlinkat(from, name, Vec::new()).or_refuse(Primitive::Mount, refused)?;
            What::Link(OsStr::from_bytes(target.to_bytes()).to_owned())
        }
        _ => return Ok(None),
    };
    Ok(Some(Piece { path, what }))
}

/// Makes the root with every directory, mount point and text file, and then makes it read-only.
fn skeleton(spec: &BoxSpec, pieces: &[Piece]) -> Result<OwnedFd, Refused> {
    let owner = match spec.ids {
        Ids::Range { first } => first.to_string(),
        Ids::Own => rustix::process::getuid().as_raw().to_string(),
    };
    let mut options = vec![Opt::Value("mode", "0755"), Opt::Value("size", "8m"), Opt::Value("nr_inodes", "8k")];
    if matches!(spec.ids, Ids::Range { .. }) {
        options.extend([Opt::Value("uid", &owner), Opt::Value("gid", &owner)]);
    }
    let root = detached_mount::new("tmpfs", &options, detached_mount::WRITTEN, Primitive::Mount)?;
    for directory in DIRECTORIES {
        make_directory(&root, directory)?;
    }
    for piece in pieces {
        let refused = || format!("cannot make /{}", piece.path.display());
        match &piece.what {
            What::Directory(_) | What::Empty => make_directory(&root, &piece.path)?,
            What::File(_) => write_text(&root, &piece.path, "")?,
            What::Text(text) => write_text(&root, &piece.path, text)?,
            What::Link(target) => {
                symlinkat(target, &root, &piece.path).or_refuse(Primitive::Mount, refused)?;
            }
        }
    }
    mount_attr::set_flags(root.as_fd(), SHOWN).or_refuse(Primitive::Mount, || "cannot seal the root".to_owned())?;
    Ok(root)
}

pub(super) fn make_directory(at: &OwnedFd, path: impl AsRef<Path>) -> Result<(), Refused> {
    let path = path.as_ref();
    match mkdirat(at, path, Mode::from_raw_mode(0o755)) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        result => result.or_refuse(Primitive::Mount, || format!("cannot make /{}", path.display())),
    }
}

fn write_text(at: &OwnedFd, path: &Path, text: &str) -> Result<(), Refused> {
    let refused = || format!("cannot make /{}", path.display());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(at, path, flags, Mode::from_raw_mode(0o644)).or_refuse(Primitive::Mount, refused)?;
    std::io::Write::write_all(&mut std::fs::File::from(file), text.as_bytes()).or_refuse(Primitive::Mount, refused)
}
