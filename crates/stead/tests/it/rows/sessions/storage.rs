//! T3: blobs and images of a project count for its disk quota, also after kills of the server.

use serde_json::{Value, json};
use stead_testkit::{Client, Reply, ServerOptions, TestServer, postgres, until};

use crate::rows::server_with;

const SIZE: usize = 600_000;

fn blob(client: &Client, byte: u8, size: usize) -> Reply {
    client.bytes("POST", "/blobs?project=web", &[], &vec![byte; size]).reply()
}

/// A tar with one file of these bytes.
fn archive(byte: u8, size: usize) -> Vec<u8> {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("file"), vec![byte; size]).unwrap();
    let mut tar = Vec::new();
    let tree = stead_fs::DiskFs::open(files.path()).unwrap();
    stead_fs::archive::export_tar(&tree, &stead_fs::WorkspacePath::root(), &mut tar).unwrap();
    tar
}

fn image(client: &Client, name: &str, archive: &[u8]) -> Reply {
    client.bytes("PUT", &format!("/images/{name}?project=web"), &[], archive).reply()
}

fn used(server: &TestServer) -> u64 {
    let usage = server.client().get("/projects/web/usage").expect(200);
    usage["project"]["disk"]["used"].as_u64().unwrap()
}

#[track_caller]
fn refused(reply: &Reply, used: usize, requested: usize, allowed: usize) {
    reply.problem(507, "disk_quota_exceeded");
    let expected =
        json!({"scope": "project/web", "quantity": "disk", "used": used, "requested": requested, "allowed": allowed});
    assert_eq!(reply.json()["parameters"], expected, "{}", reply.text);
}

fn images(server: &TestServer) -> Vec<String> {
    let listed = server.client().get("/images?project=web").expect(200);
    listed["items"].as_array().unwrap().iter().map(|image| image["name"].as_str().unwrap().to_owned()).collect()
}

/// Files below a directory of the home whose names end in `end`.
fn files(server: &TestServer, directory: &str, end: &str) -> Vec<std::path::PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![server.home().join(directory)]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                _ if entry.file_name().to_string_lossy().ends_with(end) => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// Number of complete blobs, whose names are hashes.
fn blobs(server: &TestServer) -> usize {
    let named = |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.len() == 64);
    files(server, "blobs", "").iter().filter(|path| named(path)).count()
}

fn counted(options: ServerOptions) {
    let mut server = server_with(options.env("STEAD_BLOB_GRACE_SECONDS", "86400"));
    let client = server.client().clone();
    client.put("/projects/web", json!({})).expect(200);
    client.put("/projects/web/quotas", json!({"disk": "1000000"})).expect(200);
    client.bytes("POST", "/blobs?project=none", &[], b"x").reply().problem(404, "not_found");
    blob(&client, 1, SIZE).expect(201);
    refused(&blob(&client, 2, SIZE), SIZE, SIZE, 1_000_000);
    assert_eq!(blobs(&server), 1, "a refused blob leaves nothing behind");
    // More than the whole quota is refused before all of it is stored.
    refused(&blob(&client, 3, 5_000_000), SIZE, 1_000_001, 1_000_000);
    // The same bytes count once, and the bytes of another project or of the platform do not count.
    blob(&client, 1, SIZE).expect(201);
    client.bytes("POST", "/blobs", &[], &vec![4; SIZE]).expect(201);
    assert_eq!(used(&server), SIZE as u64);

    // An archive has the times of its files, so two of the same files are two images.
    let tools = archive(5, 300_000);
    image(&client, "tools", &tools).expect(201);
    assert_eq!(used(&server), 900_000);
    refused(&image(&client, "more", &archive(6, 100_001)), 900_000, 100_001, 1_000_000);
    assert_eq!(images(&server), ["tools"]);
    // A second name of the same image is free, and a name may move to a smaller one.
    image(&client, "same", &tools).expect(201);
    assert_eq!(used(&server), 900_000);
    image(&client, "same", &archive(7, 100_000)).expect(200);
    assert_eq!(used(&server), 1_000_000);
    let layers = || server.client().get("/usage").expect(200)["layers"]["count"].clone();
    assert_eq!(layers(), 2, "a refused image leaves nothing behind");
    server.restart(None);
    assert_eq!(used(&server), 1_000_000, "after a kill");
    let client = server.client().clone();
    refused(&blob(&client, 8, 1), 1_000_000, 1, 1_000_000);
    client.delete("/images/tools?project=web").expect(204);
    assert_eq!(used(&server), 700_000);
    client.delete("/images/same?project=web").expect(204);
    assert_eq!(used(&server), SIZE as u64);
    // Sessions share the quota.
    let limits = json!({"cpu": "1", "memory": "1G", "disk": "1M"});
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "resource_limits": limits}));
    let reply = client.post("/sessions", json!({"agent_type": "a", "project": "web"}));
    refused(&reply, SIZE, 1 << 20, 1_000_000);
}

#[test]
fn t3_blobs_and_images_count_for_the_disk_quota() {
    counted(ServerOptions::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn t3_blobs_and_images_count_for_the_disk_quota_on_postgresql() {
    let (database, name) = postgres::create_database().await;
    let stead_store::Database::Postgres(url) = database else { panic!("not PostgreSQL") };
    let options = ServerOptions::default().env("STEAD_DATABASE_URL", &url);
    tokio::task::spawn_blocking(move || counted(options)).await.unwrap();
    postgres::drop_database(&name).await;
}

#[test]
fn t3_a_collected_blob_counts_no_more() {
    let server = server_with(ServerOptions::default().env("STEAD_BLOB_GRACE_SECONDS", "1"));
    server.client().put("/projects/web", json!({})).expect(200);
    let stored = blob(server.client(), 1, SIZE).expect(201);
    until("the collected blob", || (used(&server) == 0).then_some(()));
    let path = format!("/blobs/{}?project=web", stored["digest"].as_str().unwrap());
    server.client().get(&path).problem(404, "not_found");
}

/// Kills the server while a request waits at a fail point, when `reached` says so.
fn killed_at(server: &mut TestServer, send: impl FnOnce(&Client) + Send, reached: impl Fn(&TestServer) -> bool) {
    let client = server.client().clone();
    std::thread::scope(|scope| {
        scope.spawn(move || send(&client));
        until("the request to reach the fail point", || reached(server).then_some(()));
        server.kill();
    });
    server.restart(None);
}

#[test]
fn t3_counts_are_right_after_a_kill_between_a_file_and_its_count() {
    let mut server = server_with(ServerOptions::default().failpoints("blob.stored=sleep(600000)"));
    server.client().put("/projects/web", json!({})).expect(200);
    let upload = |client: &Client| drop(client.try_bytes("POST", "/blobs?project=web", &[], &vec![1; SIZE]));
    killed_at(&mut server, upload, |server| blobs(server) == 1);
    assert_eq!(used(&server), 0, "a blob that was not acknowledged does not count");
    let stored = blob(server.client(), 1, SIZE).expect(201);
    assert_eq!(used(&server), SIZE as u64);
    server.client().get(&format!("/blobs/{}?project=web", stored["digest"].as_str().unwrap()));

    let import = |client: &Client| drop(client.try_bytes("PUT", "/images/tools?project=web", &[], &archive(2, 1000)));
    server.restart(Some("image.counted=sleep(600000)"));
    killed_at(&mut server, import, |server| used(server) == SIZE as u64 + 1000);
    assert_eq!((used(&server), images(&server)), (SIZE as u64, vec![]), "an image without a name does not count");
    server.restart(Some("image.named=sleep(600000)"));
    killed_at(&mut server, import, |server| !files(server, "images", ".json").is_empty());
    assert_eq!((used(&server), images(&server)), (SIZE as u64 + 1000, vec!["tools".to_owned()]));
}

/// The import names its image after the deletion has looked for images, and is killed before it can
/// take the name back.
#[test]
fn an_image_does_not_outlive_its_project_after_a_kill() {
    let points = "image.counted=sleep(20000);image.named=sleep(600000)";
    let mut server = server_with(ServerOptions::default().failpoints(points));
    server.client().put("/projects/web", json!({})).expect(200);
    let import = |client: &Client| drop(client.try_bytes("PUT", "/images/tools?project=web", &[], &archive(2, 1000)));
    let client = server.client().clone();
    std::thread::scope(|scope| {
        scope.spawn(move || import(&client));
        until("the unpacked image", || (used(&server) == 1000).then_some(()));
        server.client().delete("/projects/web").expect(202);
        let deleted = || server.client().get("/audit?project=web&type=project_deleted").expect(200)["items"].clone();
        until("the end of the deletion", || deleted().as_array().is_some_and(|found| !found.is_empty()).then_some(()));
        until("the name of the image", || (!files(&server, "images", ".json").is_empty()).then_some(()));
        server.kill();
    });
    server.restart(None);
    assert_eq!(files(&server, "images", ".json"), Vec::<std::path::PathBuf>::new());
    assert_eq!(server.client().get("/usage").expect(200)["layers"]["count"], 0);
    let audit = server.client().get("/audit?project=web&type=admin_change").expect(200);
    let removed = |record: &&Value| record["detail"]["what"] == "image" && record["actor"] == "system";
    assert_eq!(audit["items"].as_array().unwrap().iter().filter(removed).count(), 1, "{audit}");
}
