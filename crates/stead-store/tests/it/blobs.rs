use std::fs;
use std::path::{Path, PathBuf};

use stead_core::ContentHash;
use stead_store::{BlobError, Blobs};
use tokio::io::AsyncReadExt as _;

fn file(root: &Path, hash: &ContentHash) -> PathBuf {
    let hex = hash.to_hex();
    root.join("sha256").join(&hex[..2]).join(hex)
}

fn drafts(root: &Path) -> usize {
    let entries = fs::read_dir(root.join("tmp")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name() != ".lock").count()
}

#[tokio::test]
async fn what_is_put_is_got() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("deep/blobs");
    let blobs = Blobs::at(&root).await.unwrap();
    let hash = blobs.put(&b"hello"[..]).await.unwrap();
    assert_eq!(hash, ContentHash::of(b"hello"));
    assert_eq!(blobs.get(&hash).await.unwrap().unwrap(), "hello");
    assert!(blobs.contains(&hash).await.unwrap());

    let absent = ContentHash::of(b"absent");
    assert_eq!(blobs.get(&absent).await.unwrap(), None);
    assert!(!blobs.contains(&absent).await.unwrap());
    assert!(blobs.open(&absent).await.unwrap().is_none());

    let empty = blobs.put(&b""[..]).await.unwrap();
    assert_eq!(blobs.get(&empty).await.unwrap().unwrap(), "");
    assert_eq!(drafts(&root), 0);
}

#[tokio::test]
async fn a_stream_is_stored_whole() {
    let root = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(root.path()).await.unwrap();
    let content: Vec<u8> = (0..3_000_001u32).map(|n| (n % 251) as u8).collect();
    let stored = blobs.put_stream(content.as_slice()).await.unwrap();
    assert_eq!((stored.hash, stored.len), (ContentHash::of(&content), content.len() as u64));
    let mut opened = blobs.open(&stored.hash).await.unwrap().unwrap();
    assert_eq!(opened.len, content.len() as u64);
    let mut read = Vec::new();
    opened.file.read_to_end(&mut read).await.unwrap();
    assert!(read == content);
}

#[tokio::test]
async fn a_stream_that_fails_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(root.path()).await.unwrap();
    let broken = tokio_test_reader();
    let refused = blobs.put_stream(broken).await;
    assert!(matches!(refused, Err(BlobError::Source { .. })), "{refused:?}");
    assert_eq!(drafts(root.path()), 0);
}

/// Some bytes, then an error.
fn tokio_test_reader() -> impl tokio::io::AsyncRead + Unpin {
    struct Broken;
    impl tokio::io::AsyncRead for Broken {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(std::io::Error::other("the upload broke off")))
        }
    }
    (&b"some bytes"[..]).chain(Broken)
}

#[tokio::test]
async fn the_same_bytes_are_stored_once() {
    use std::os::unix::fs::MetadataExt as _;
    let root = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(root.path()).await.unwrap();
    let hash = blobs.put(&b"hello"[..]).await.unwrap();
    let inode = fs::metadata(file(root.path(), &hash)).unwrap().ino();
    let puts = (0..20).map(|_| blobs.put(&b"hello"[..]));
    assert!(futures::future::join_all(puts).await.iter().all(|put| *put.as_ref().unwrap() == hash));
    assert_eq!(fs::metadata(file(root.path(), &hash)).unwrap().ino(), inode);
}

#[tokio::test]
async fn damage_is_found_and_mended() {
    let root = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(root.path()).await.unwrap();
    let hash = blobs.put(&b"hello"[..]).await.unwrap();
    for damage in [&b"hellO"[..], b"hell", b"", b"hello!"] {
        fs::write(file(root.path(), &hash), damage).unwrap();
        let refused = blobs.get(&hash).await.unwrap_err();
        assert!(matches!(refused, BlobError::Damaged { hash: named, .. } if named == hash));
        assert!(refused.to_string().contains(&hash.to_string()));
        blobs.put(&b"hello"[..]).await.unwrap();
        assert_eq!(blobs.get(&hash).await.unwrap().unwrap(), "hello");
    }
}

#[tokio::test]
async fn leftovers_are_swept_unless_another_store_is_writing() {
    let root = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(root.path()).await.unwrap();
    fs::write(root.path().join("tmp/1-2-3"), "half a blob").unwrap();
    let other = Blobs::at(root.path()).await.unwrap();
    assert_eq!(drafts(root.path()), 1, "another store is open: this may be its draft");
    drop((blobs, other));
    Blobs::at(root.path()).await.unwrap();
    assert_eq!(drafts(root.path()), 0);
}
