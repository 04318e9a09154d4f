//! Tars are read as GNU tar reads them, or refused. GNU tar itself is the reference: it unpacks the
//! same bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use stead_fs::archive::{ArchiveError, ArchiveFormat, ArchiveLimits, unpack};
use stead_fs::{DiskFs, WorkspacePath};
use tar::{EntryType, Header};

type Files = BTreeMap<String, Vec<u8>>;

fn member(kind: EntryType, name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_path(name).unwrap();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &str) -> Vec<u8> {
    member(EntryType::Regular, name, content.as_bytes())
}

fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
    format!("{}{rest}", rest.len() + digits)
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let records: String = records.iter().map(|(key, value)| record(key, value)).collect();
    member(EntryType::XHeader, "pax", records.as_bytes())
}

fn long_name(name: &str) -> Vec<u8> {
    let content = [name.as_bytes(), &[0]].concat();
    member(EntryType::GNULongName, "././@LongLink", &content)
}

fn tar(members: &[Vec<u8>]) -> Vec<u8> {
    [members.concat(), vec![0; 1024]].concat()
}

fn files_below(root: &Path) -> Files {
    let mut found = Files::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                ahead.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn by_stead(bytes: &[u8]) -> Result<Files, ArchiveError> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = DiskFs::open(folder.path()).unwrap();
    let (limits, root) = (ArchiveLimits::default(), WorkspacePath::root());
    unpack(&mut Cursor::new(bytes), ArchiveFormat::Tar, None, &limits, &mut files, &root, 0)?;
    Ok(files_below(folder.path()))
}

fn by_gnu_tar(bytes: &[u8]) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let (archive, into) = (folder.path().join("a.tar"), folder.path().join("out"));
    fs::write(&archive, bytes).unwrap();
    fs::create_dir(&into).unwrap();
    // The exit code also reports warnings, so only the written files are compared.
    Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&into).output().unwrap();
    files_below(&into)
}

/// Builds a tar of sparse files in the given format with GNU tar.
fn sparse_tar(options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let deep = "d/".repeat(60);
    fs::create_dir_all(folder.path().join(&deep)).unwrap();
    for (name, pieces) in [("begins", 1), ("many", 40), ("none", 0), (&format!("{deep}long"), 3)] {
        let file = File::create(folder.path().join(name)).unwrap();
        for piece in 0..pieces {
            file.write_all_at(format!("piece {piece}").as_bytes(), piece * 65_536).unwrap();
        }
        file.set_len(4 << 20).unwrap();
    }
    fs::write(folder.path().join("plain"), "not sparse").unwrap();
    let made = Command::new("tar").args(options).args(["-S", "-cf", "-", "-C"]).arg(folder.path()).arg(".").output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

#[test]
fn sparse_files_have_the_content_gnu_tar_gives_them() {
    for options in [&["--format=posix", "--sparse-version=1.0"][..], &["--format=gnu"]] {
        let bytes = sparse_tar(options);
        assert!(bytes.len() < 1 << 20, "the file system has no holes, so nothing is tested: {}", bytes.len());
        let (ours, theirs) = (by_stead(&bytes).unwrap(), by_gnu_tar(&bytes));
        assert_eq!(ours.len(), 5, "{options:?}: {:?}", ours.keys());
        assert!(ours == theirs, "{options:?}");
    }
}

#[test]
fn older_sparse_forms_are_refused() {
    for version in ["0.0", "0.1"] {
        let bytes = sparse_tar(&["--format=posix", &format!("--sparse-version={version}")]);
        let refused = by_stead(&bytes).unwrap_err();
        assert!(matches!(refused, ArchiveError::Ambiguous { .. }), "{version}: {refused}");
    }
}

#[test]
fn one_name_in_several_places_is_read_as_gnu_tar_reads_it() {
    let long = "n".repeat(120);
    let hidden = pax(&[("SCHILY.xattr.user.note", "x\n12 path=bad\n\n"), ("path", "good")]);
    for bytes in [
        tar(&[pax(&[("path", "named")]), file("header", "a")]),
        tar(&[hidden, file("header", "a")]),
        tar(&[long_name(&long), file("header", "a")]),
        tar(&[long_name("same"), pax(&[("path", "same")]), file("header", "a")]),
        tar(&[member(EntryType::XGlobalHeader, "g", record("comment", "0123").as_bytes()), file("plain", "a")]),
        tar(&[pax(&[("size", "1"), ("mtime", "5")]), file("header", "a"), file("next", "b")]),
    ] {
        let (ours, theirs) = (by_stead(&bytes).unwrap(), by_gnu_tar(&bytes));
        assert_eq!(ours, theirs);
        assert!(!ours.is_empty());
    }
}

#[test]
fn members_with_two_names_or_sizes_are_refused() {
    let global = |key, value| member(EntryType::XGlobalHeader, "g", record(key, value).as_bytes());
    let one_zero = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")];
    for (what, members) in [
        ("two path records", vec![pax(&[("path", "one"), ("path", "two")]), file("header", "a")]),
        ("two equal path records", vec![pax(&[("path", "one"), ("path", "one")]), file("header", "a")]),
        ("an empty path record", vec![pax(&[("path", "")]), file("header", "a")]),
        ("a long name and another path", vec![long_name("one"), pax(&[("path", "two")]), file("header", "a")]),
        ("two long names", vec![long_name("one"), long_name("two"), file("header", "a")]),
        ("two PAX headers", vec![pax(&[("path", "one")]), pax(&[("path", "two")]), file("header", "a")]),
        ("a name for every member", vec![global("path", "one"), file("header", "a")]),
        ("a size for every member", vec![global("size", "0"), file("header", "a")]),
        ("a global header in between", vec![pax(&[("path", "one")]), global("comment", "x"), file("header", "a")]),
        ("a size of its own", vec![pax(&[("size", "1024")]), file("header", "a"), file("hidden", "b")]),
        ("a header without a member", vec![pax(&[("path", "one")])]),
        ("half of a sparse file", vec![pax(&[one_zero[0], one_zero[1], ("GNU.sparse.name", "x")]), file("h", "a")]),
        ("a sparse name alone", vec![pax(&[("GNU.sparse.name", "x")]), file("header", "a")]),
    ] {
        let refused = by_stead(&tar(&members)).unwrap_err();
        assert!(matches!(refused, ArchiveError::Ambiguous { .. }), "{what}: {refused}");
    }
    // The control: the same members without the contradiction are accepted.
    by_stead(&tar(&[pax(&[("path", "one")]), file("header", "a")])).unwrap();
}

#[test]
fn a_sparse_map_that_lies_is_refused() {
    let sparse = |map: &str, data: &str, real_size: &str| {
        let mut content = map.as_bytes().to_vec();
        content.resize(512, 0);
        content.extend_from_slice(data.as_bytes());
        let records = [
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", "holey"),
            ("GNU.sparse.realsize", real_size),
        ];
        tar(&[pax(&records), member(EntryType::Regular, "GNUSparseFile.1/holey", &content)])
    };
    let good = sparse("2\n4\n3\n10\n0\n", "abc", "10");
    assert_eq!(by_stead(&good).unwrap(), by_gnu_tar(&good));
    assert_eq!(by_stead(&good).unwrap()["holey"], b"\0\0\0\0abc\0\0\0");
    for (map, data, real_size) in [
        ("2\n4\n3\n10\n0\n", "abcd", "10"),
        ("2\n4\n3\n10\n0\n", "ab", "10"),
        ("1\n4\n3\n", "abc", "6"),
        // GNU tar would end the file after the data.
        ("1\n4\n3\n", "abc", "10"),
        ("2\n4\n2\n5\n1\n", "abc", "10"),
        ("1\n4\n", "abc", "10"),
        ("nonsense", "abc", "10"),
        ("1\n4\n3\n", "abc", "99999999999999999999999"),
    ] {
        let refused = by_stead(&sparse(map, data, real_size)).unwrap_err();
        assert!(matches!(refused, ArchiveError::Damaged { .. }), "{map:?} {data:?} {real_size}: {refused}");
    }
}

#[test]
fn a_sparse_file_counts_with_its_holes() {
    let bytes = sparse_tar(&["--format=posix", "--sparse-version=1.0"]);
    let folder = tempfile::tempdir().unwrap();
    let mut files = DiskFs::open(folder.path()).unwrap();
    let limits = ArchiveLimits { total_bytes: 8 << 20, ..ArchiveLimits::default() };
    let root = WorkspacePath::root();
    let refused = unpack(&mut Cursor::new(bytes), ArchiveFormat::Tar, None, &limits, &mut files, &root, 0);
    assert!(matches!(refused, Err(ArchiveError::TooLarge { .. })), "{refused:?}");
    assert!(files_below(folder.path()).is_empty());
}
