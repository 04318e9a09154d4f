//! The storage of projects counts for their disk quota, exactly and also after a crash.

use std::time::{Duration, SystemTime};

use futures::future::join_all;
use stead_core::Name;
use stead_core::admission::{Allowed, Quantity, QuotaExceeded, Resources, Scope};
use stead_store::{Admission, Commit, CommitError, StorageError, StorageKind, Store, StoredItem, Upload};

use crate::fixture::{Fixture, create, session_id};

fn project(name: &str) -> Name {
    name.parse().unwrap()
}

fn most(bytes: u64) -> Allowed {
    Allowed { disk_bytes: Some(bytes), ..Allowed::default() }
}

fn item(project: &str, id: &str, bytes: u64) -> StoredItem {
    StoredItem { project: project.to_owned(), id: id.to_owned(), bytes }
}

async fn disk(store: &Store, project: &str) -> u64 {
    let scope = Scope::Project { project: project.to_owned() }.to_string();
    let sums = store.reserved(&scope, &format!("{scope}\u{1}")).await.unwrap();
    sums.get(&scope).copied().unwrap_or_default().disk_bytes
}

async fn upload(store: &Store, bytes: &[u8]) -> Upload {
    store.blobs().put_stream(bytes).await.unwrap()
}

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(60)
}

pub(crate) async fn t3_an_upload_counts_once_per_project_until_it_is_collected(fixture: Fixture) {
    let store = fixture.open().await;
    let (web, data) = (project("web"), project("data"));
    let blob = upload(&store, b"twelve bytes").await;
    for _ in 0..2 {
        store.record_upload(&web, &blob, most(12)).await.unwrap();
    }
    store.record_upload(&data, &blob, Allowed::default()).await.unwrap();
    assert_eq!((disk(&store, "web").await, disk(&store, "data").await), (12, 12));
    let other = upload(&store, b"x").await;
    let Err(StorageError::Quota(refused)) = store.record_upload(&web, &other, most(12)).await else {
        panic!("one byte beyond the quota is refused")
    };
    let scope = Scope::Project { project: "web".to_owned() };
    assert_eq!(refused, QuotaExceeded { scope, quantity: Quantity::Disk, used: 12, requested: 1, allowed: 12 });
    assert!(!store.uploaded(&web, &other.hash).await.unwrap());
    store.forget_storage_of("data").await.unwrap();
    assert_eq!((disk(&store, "web").await, disk(&store, "data").await), (12, 0));
    // A young blob stays, and so does its count.
    assert!(store.collect_blobs(SystemTime::now() - Duration::from_secs(3600)).await.unwrap().is_empty());
    assert_eq!(disk(&store, "web").await, 12);
    assert_eq!(store.collect_blobs(later()).await.unwrap().len(), 2);
    assert_eq!(disk(&store, "web").await, 0);
    assert!(!store.uploaded(&web, &blob.hash).await.unwrap(), "the right to read it is gone with the file");
}

pub(crate) async fn t3_of_many_uploads_exactly_the_quota_is_admitted(fixture: Fixture) {
    let store = fixture.open().await;
    let web = project("web");
    let added = join_all((0..40).map(|number| {
        let (store, web) = (&store, &web);
        async move {
            let blob = upload(store, format!("{number:010}").as_bytes()).await;
            store.record_upload(web, &blob, most(75)).await.is_ok()
        }
    }))
    .await;
    assert_eq!(added.into_iter().filter(|added| *added).count(), 7);
    assert_eq!(disk(&store, "web").await, 70);
}

/// Sessions and stored items share the quota, in both directions.
pub(crate) async fn t3_sessions_and_stored_items_share_the_disk_quota(fixture: Fixture) {
    let store = fixture.open().await;
    let limit =
        stead_core::admission::Limit { scope: Scope::Project { project: "web".to_owned() }, allowed: most(100) };
    let begin = || {
        let admission = Some(Admission { places: 1, limits: vec![limit.clone()] });
        let mut commit = Commit { admission, ..create(session_id(), 1) };
        commit.head.project = Some("web".to_owned());
        commit.head.resources = Resources { disk_bytes: 60, ..Resources::default() };
        commit
    };
    store.commit(begin()).await.unwrap();
    let image = item("web", "sha256:1", 41);
    let refused = store.add_storage(StorageKind::Image, image.clone(), most(100)).await.unwrap_err();
    assert!(refused.to_string().contains("60 in use, 41 requested"), "{refused}");
    store.add_storage(StorageKind::Image, item("web", "sha256:1", 40), most(100)).await.unwrap();
    let Err(CommitError::Quota(refused)) = store.commit(begin()).await else { panic!("the quota is used up") };
    assert_eq!((refused.used, refused.requested, refused.allowed), (100, 60, 100));
    // The same item with another size replaces its count.
    store.add_storage(StorageKind::Image, item("web", "sha256:1", 10), most(100)).await.unwrap();
    assert_eq!(disk(&store, "web").await, 70);
    // A takeover computes the same sums from the rows.
    store.close().await;
    fixture.tamper("UPDATE counters SET disk_bytes = 7").await;
    let store = fixture.open().await;
    let ownership = store.own("home").await.unwrap().unwrap();
    assert_eq!(disk(&store, "web").await, 70);
    let items = vec![item("web", "a", 1), item("data", "a", 2), item("web", "b", 4)];
    store.replace_storage(StorageKind::SetupResult, None, items).await.unwrap();
    assert_eq!((disk(&store, "web").await, disk(&store, "data").await), (75, 2));
    store.replace_storage(StorageKind::SetupResult, Some(&project("web")), vec![item("web", "b", 5)]).await.unwrap();
    assert_eq!((disk(&store, "web").await, disk(&store, "data").await), (75, 2));
    store.replace_storage(StorageKind::SetupResult, None, Vec::new()).await.unwrap();
    store.forget_storage_of("web").await.unwrap();
    assert_eq!((disk(&store, "web").await, disk(&store, "data").await), (60, 0));
    store.release(ownership).await.unwrap();
}

/// A server that is killed after it removed the file of a blob leaves its record behind. One of an
/// older version recorded no size.
pub(crate) async fn t3_a_takeover_measures_the_uploads(fixture: Fixture) {
    let store = fixture.open().await;
    let web = project("web");
    let [gone, kept] = [upload(&store, b"gone").await, upload(&store, b"kept").await];
    for blob in [&gone, &kept] {
        store.record_upload(&web, blob, Allowed::default()).await.unwrap();
    }
    store.close().await;
    let hex = gone.hash.to_hex();
    std::fs::remove_file(fixture.blobs().join("sha256").join(&hex[..2]).join(&hex)).unwrap();
    fixture.tamper(format!("UPDATE project_storage SET bytes = 0 WHERE id = '{}'", kept.hash)).await;
    let store = fixture.open().await;
    let ownership = store.own("home").await.unwrap().unwrap();
    assert_eq!(disk(&store, "web").await, 4);
    assert!(store.uploaded(&web, &kept.hash).await.unwrap());
    assert!(!store.uploaded(&web, &gone.hash).await.unwrap());
    store.release(ownership).await.unwrap();
}
