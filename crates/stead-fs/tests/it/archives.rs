//! P7: import of bundles into both backends, including hostile ones. F13: export of a workspace as
//! a tar.

use std::io::{Cursor, Write};

use stead_fs::archive::{ArchiveError, ArchiveFormat, ArchiveLimits, Unpacked, export_tar, unpack};
use stead_fs::{ContentHash, Filesystem, Permission, WorkspacePath, WriteMode};
use tar::{EntryType, Header};

use crate::harness::{NOW, fill, memory, on_every_backend, path};

on_every_backend!(
    every_format_unpacks_the_same,
    names_beyond_a_limit,
    names_that_escape,
    links_that_escape,
    things_that_are_no_files,
    archives_that_contradict_themselves,
    archives_that_go_on_or_stop_early,
    bombs,
    zips_that_lie,
    digests_are_checked,
    a_conflict_with_the_workspace_leaves_it_alone,
    setuid_is_dropped_and_hard_links_are_copies,
    exported_and_unpacked_again,
);

/// One tar entry, written byte by byte so that no library corrects it.
fn entry(kind: EntryType, name: &str, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o4755);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(EntryType::Regular, name, "", content.as_bytes())
}

fn symlink(name: &str, target: &str) -> Vec<u8> {
    entry(EntryType::Symlink, name, target, b"")
}

fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.extend_from_slice(&[0; 1024]);
    bytes
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zip(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, content) in entries {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(mode & 0o777);
        if name.ends_with('/') {
            writer.add_directory(*name, options).unwrap();
        } else if mode & 0o170_000 == 0o120_000 {
            writer.add_symlink(*name, std::str::from_utf8(content).unwrap(), options).unwrap();
        } else {
            writer.start_file(*name, options).unwrap();
            writer.write_all(content).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

fn open(fs: &mut dyn Filesystem, format: ArchiveFormat, bytes: &[u8]) -> Result<Unpacked, ArchiveError> {
    let limits = ArchiveLimits { entries: 1_000, total_bytes: 64 << 20, ratio: 100, ..ArchiveLimits::default() };
    unpack(&mut Cursor::new(bytes), format, None, &limits, fs, &WorkspacePath::root(), NOW)
}

/// Asserts that the archive is refused for this reason and that the workspace is unchanged.
fn refused(fs: &mut dyn Filesystem, format: ArchiveFormat, bytes: &[u8], code: &str) {
    let before = fs.tree_hash().unwrap();
    let error = open(fs, format, bytes).unwrap_err();
    assert_eq!(error.code().as_str(), code, "{error}");
    assert_eq!(fs.tree_hash().unwrap(), before, "{error} and something was left behind");
}

fn every_format_unpacks_the_same(fs: &mut dyn Filesystem) {
    let plain = tar(&[
        entry(EntryType::Directory, "./", "", b""),
        entry(EntryType::Directory, "./empty/", "", b""),
        file("./src/main.rs", "fn main() {}"),
        symlink("src/link", "../src/main.rs"),
    ]);
    let zipped = zip(&[
        ("empty/", 0o040_755, b""),
        ("src/main.rs", 0o100_755, b"fn main() {}"),
        ("src/link", 0o120_777, b"../src/main.rs"),
    ]);
    let zst = zstd::encode_all(&plain[..], 3).unwrap();
    let mut hashes = Vec::new();
    for (format, bytes) in [
        (ArchiveFormat::Tar, plain.clone()),
        (ArchiveFormat::TarGz, gz(&plain)),
        (ArchiveFormat::TarZst, zst),
        (ArchiveFormat::Zip, zipped),
    ] {
        assert_eq!(ArchiveFormat::of_content(&bytes), Some(format));
        let empty = fs.snapshot().unwrap();
        let unpacked = open(fs, format, &bytes).unwrap();
        assert_eq!((unpacked.files, unpacked.directories, unpacked.links, unpacked.bytes), (1, 1, 1, 12), "{format:?}");
        assert_eq!(unpacked.digest, ContentHash::of(&bytes));
        assert_eq!(fs.read_bytes(&path("src/link")).unwrap(), "fn main() {}".as_bytes());
        hashes.push(fs.tree_hash().unwrap());
        fs.restore(&empty).unwrap();
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    assert_eq!(ArchiveFormat::of_name("A.TGZ"), Some(ArchiveFormat::TarGz));
    assert_eq!(ArchiveFormat::of_name("a.rar"), None);
}

/// The error for a name that is too long or too deep names that limit and not an escape.
fn names_beyond_a_limit(fs: &mut dyn Filesystem) {
    let (deep, wide) = ("d/".repeat(100) + "f", "x".repeat(200));
    for (name, reason) in [
        (deep.clone(), "deeper than 100 directories"),
        (format!("{wide}/").repeat(20) + "f", "more than 4000 bytes"),
        ("n".repeat(256), "a name of more than 255 bytes"),
    ] {
        let error = open(fs, ArchiveFormat::Zip, &zip(&[(&name, 0o100_644, b"x")])).unwrap_err();
        assert_eq!(error.code(), stead_fs::ErrorCode::ArchiveTooLarge, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    // The control: one directory less is accepted.
    open(fs, ArchiveFormat::Zip, &zip(&[(deep.strip_prefix("d/").unwrap(), 0o100_644, b"x")])).unwrap();
}

fn names_that_escape(fs: &mut dyn Filesystem) {
    for name in ["../x", "a/../../x", "/etc/x", "a/..", ".."] {
        refused(fs, ArchiveFormat::Tar, &tar(&[file("ok", "1"), file(name, "x")]), "archive_escapes");
        refused(fs, ArchiveFormat::Tar, &tar(&[entry(EntryType::Directory, name, "", b"")]), "archive_escapes");
    }
    for name in ["../x", "/etc/x", "a/../../x"] {
        refused(fs, ArchiveFormat::Zip, &zip(&[("ok", 0o100_644, b"1"), (name, 0o100_644, b"x")]), "archive_escapes");
    }
    let deep = "d/".repeat(45) + "f";
    open(fs, ArchiveFormat::Tar, &tar(&[file(&deep, "x")])).unwrap();
}

fn links_that_escape(fs: &mut dyn Filesystem) {
    for (name, target) in [("l", "/etc/passwd"), ("l", ".."), ("a/l", "../../x"), ("l", "a/../../x"), ("l", "")] {
        refused(fs, ArchiveFormat::Tar, &tar(&[symlink(name, target)]), "archive_escapes");
    }
    refused(fs, ArchiveFormat::Zip, &zip(&[("l", 0o120_777, b"../../etc")]), "archive_escapes");
    // Each link is harmless alone, but together they climb.
    let together = [file("x/y/f", ""), symlink("x/y/up", "../.."), symlink("out", "x/y/up/../etc")];
    refused(fs, ArchiveFormat::Tar, &tar(&together), "archive_escapes");
    refused(fs, ArchiveFormat::Tar, &tar(&[symlink("a", "b"), symlink("b", "a")]), "archive_escapes");
    // A file below a link, in either order.
    refused(fs, ArchiveFormat::Tar, &tar(&[symlink("d", "e"), file("d/f", "x")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[file("d/f", "x"), symlink("d", "e")]), "archive_conflict");
    for target in ["../x", "/etc/passwd", "nothing", "later"] {
        let linked = [entry(EntryType::Link, "hard", target, b""), file("later", "x")];
        refused(fs, ArchiveFormat::Tar, &tar(&linked), "archive_escapes");
    }
    open(fs, ArchiveFormat::Tar, &tar(&[symlink("dangling", "nothing/here")])).unwrap();
}

fn things_that_are_no_files(fs: &mut dyn Filesystem) {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        refused(fs, ArchiveFormat::Tar, &tar(&[file("ok", "1"), entry(kind, "dev", "", b"")]), "archive_unsupported");
    }
}

fn archives_that_contradict_themselves(fs: &mut dyn Filesystem) {
    let directory = |name: &str| entry(EntryType::Directory, name, "", b"");
    refused(fs, ArchiveFormat::Tar, &tar(&[file("a", "1"), file("a", "2")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[file("a", "1"), file("./a", "2")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[directory("a/"), directory("a/")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[file("a", "1"), file("a/b", "2")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[file("a/b", "1"), file("a", "2")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[file("a/b", "1"), directory("a/b/")]), "archive_conflict");
    refused(fs, ArchiveFormat::Tar, &tar(&[entry(EntryType::Symlink, "l", "x", b"content")]), "archive_damaged");
    open(fs, ArchiveFormat::Tar, &tar(&[file("a/b", "1"), directory("a/")])).unwrap();
}

fn archives_that_go_on_or_stop_early(fs: &mut dyn Filesystem) {
    let good = tar(&[file("a", "content")]);
    let mut more = good.clone();
    more.extend_from_slice(&tar(&[file("hidden", "x")]));
    refused(fs, ArchiveFormat::Tar, &more, "archive_damaged");
    refused(fs, ArchiveFormat::TarGz, &gz(&more), "archive_damaged");
    refused(fs, ArchiveFormat::TarGz, &[gz(&good), gz(&good)].concat(), "archive_damaged");
    refused(fs, ArchiveFormat::TarGz, &[gz(&good), b"junk".to_vec()].concat(), "archive_damaged");
    let zst = zstd::encode_all(&good[..], 3).unwrap();
    refused(fs, ArchiveFormat::TarZst, &[zst.clone(), b"junk".to_vec()].concat(), "archive_damaged");
    for (format, bytes) in
        [(ArchiveFormat::Tar, &good), (ArchiveFormat::TarGz, &gz(&good)), (ArchiveFormat::TarZst, &zst)]
    {
        for length in [0, 1, bytes.len() / 4, bytes.len() / 2] {
            refused(fs, format, &bytes[..length], "archive_damaged");
        }
    }
    refused(fs, ArchiveFormat::Tar, &good[..1024], "archive_damaged");
    let mut padded = good;
    padded.resize(10_240, 0);
    open(fs, ArchiveFormat::Tar, &padded).unwrap();
}

fn bombs(fs: &mut dyn Filesystem) {
    let zeros = vec![0; 40 << 20];
    let bomb = tar(&[entry(EntryType::Regular, "zeros", "", &zeros)]);
    refused(fs, ArchiveFormat::TarGz, &gz(&bomb), "archive_too_large");
    refused(fs, ArchiveFormat::Zip, &zip(&[("zeros", 0o100_644, &zeros)]), "archive_too_large");
    let big = tar(&[entry(EntryType::Regular, "a", "", &zeros), entry(EntryType::Regular, "b", "", &zeros)]);
    refused(fs, ArchiveFormat::Tar, &big, "archive_too_large");
    let many: Vec<Vec<u8>> = (0..1_001).map(|number| file(&format!("f{number}"), "")).collect();
    refused(fs, ArchiveFormat::Tar, &tar(&many), "archive_too_large");
    let mut hard = vec![entry(EntryType::Regular, "a", "", &zeros[..1 << 20])];
    hard.extend((0..100).map(|number| entry(EntryType::Link, &format!("h{number}"), "a", b"")));
    refused(fs, ArchiveFormat::Tar, &tar(&hard), "archive_too_large");
    // A long name that would fill the memory before it is checked.
    let long = entry(EntryType::GNULongName, "././@LongLink", "", &vec![b'a'; 8 << 20]);
    refused(fs, ArchiveFormat::Tar, &tar(&[long, file("x", "")]), "archive_damaged");
}

fn zips_that_lie(fs: &mut dyn Filesystem) {
    let good = zip(&[("a", 0o100_644, b"content")]);
    refused(fs, ArchiveFormat::Zip, &[b"junk".to_vec(), good.clone()].concat(), "archive_damaged");
    refused(fs, ArchiveFormat::Zip, &[good.clone(), b"junk".to_vec()].concat(), "archive_damaged");
    refused(fs, ArchiveFormat::Zip, &good[..good.len() - 5], "archive_damaged");
    // The content changes, but not its checksum.
    let mut broken = zip(&[("a", 0o100_644, &(0..=255).collect::<Vec<u8>>())]);
    broken[60] ^= 1;
    refused(fs, ArchiveFormat::Zip, &broken, "archive_damaged");
    // Two entries with the same name: rename the second in both of its headers.
    let mut twice = zip(&[("a", 0o100_644, b"1"), ("b", 0o100_644, b"2")]);
    for at in 0..twice.len() - 46 {
        if twice[at..].starts_with(b"PK\x03\x04") && twice[at + 30] == b'b' {
            twice[at + 30] = b'a';
        }
        if twice[at..].starts_with(b"PK\x01\x02") && twice[at + 46] == b'b' {
            twice[at + 46] = b'a';
        }
    }
    refused(fs, ArchiveFormat::Zip, &twice, "archive_damaged");
    refused(fs, ArchiveFormat::Zip, &zip(&[("a", 0o100_644, b""), ("./a", 0o100_644, b"")]), "archive_conflict");
    refused(fs, ArchiveFormat::Zip, b"not a zip at all", "archive_damaged");
}

fn digests_are_checked(fs: &mut dyn Filesystem) {
    let bytes = tar(&[file("a", "x")]);
    let limits = ArchiveLimits::default();
    let mut with = |expected| {
        unpack(&mut Cursor::new(&bytes), ArchiveFormat::Tar, Some(expected), &limits, fs, &path("bundle"), NOW)
    };
    assert!(matches!(with(ContentHash::of(b"other")), Err(ArchiveError::Digest { .. })));
    with(ContentHash::of(&bytes)).unwrap();
    assert_eq!(fs.read_bytes(&path("bundle/a")).unwrap(), "x".as_bytes());
}

fn a_conflict_with_the_workspace_leaves_it_alone(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/taken", "old")]);
    let bytes = tar(&[file("d/a", "x"), file("e/b", "y"), file("d/taken", "new"), file("f", "z")]);
    refused(fs, ArchiveFormat::Tar, &bytes, "exists");
    fs.symlink(&path("out"), b"/tmp", NOW).unwrap();
    refused(fs, ArchiveFormat::Tar, &tar(&[file("first", "x"), file("out/b", "y")]), "escapes");
}

fn setuid_is_dropped_and_hard_links_are_copies(fs: &mut dyn Filesystem) {
    let bytes = tar(&[file("run", "#!"), entry(EntryType::Link, "d/hard", "run", b"")]);
    open(fs, ArchiveFormat::Tar, &bytes).unwrap();
    fs.write(&path("run"), "changed", WriteMode::Overwrite, NOW).unwrap();
    assert_eq!(fs.read_bytes(&path("d/hard")).unwrap(), "#!".as_bytes());
    assert_eq!(fs.stat(&path("d/hard")).unwrap().permission, Permission::Executable);
}

fn exported_and_unpacked_again(fs: &mut dyn Filesystem) {
    let long = format!("{}/{}", "deep".repeat(20), "name".repeat(50));
    fill(fs, &[("a.txt", "text"), ("d/e/f", ""), (&long, "long"), ("größe", "x")]);
    fs.mkdir(&path("empty"), NOW).unwrap();
    fs.symlink(&path("d/link"), b"../a.txt", NOW).unwrap();
    // Link targets are bytes and are not normalised.
    fs.symlink(&path("d/untidy"), b"..//./a.txt", NOW).unwrap();
    fs.symlink(&path("d/slash"), b"e/", NOW).unwrap();
    for length in [99, 100, 101, 3_000] {
        fs.symlink(&path(&format!("to{length}")), &b"x//".repeat(length)[..length], NOW).unwrap();
    }
    fs.set_permission(&path("a.txt"), Permission::Executable, NOW).unwrap();
    let mut bytes = Vec::new();
    export_tar(fs, &WorkspacePath::root(), &mut bytes).unwrap();
    let mut again = memory();
    open(&mut *again.fs, ArchiveFormat::Tar, &bytes).unwrap();
    assert_eq!(again.fs.tree_hash().unwrap(), fs.tree_hash().unwrap());
    let mut part = Vec::new();
    export_tar(fs, &path("d"), &mut part).unwrap();
    let mut again = memory();
    open(&mut *again.fs, ArchiveFormat::Tar, &part).unwrap_err(); // the link leads out
    assert!(export_tar(fs, &path("nothing"), &mut Vec::new()).is_err());
}
