//! The home of an earlier release opens with this program.
//!
//! `fixtures/home-0.1.0.tar.gz` was written by 0.1.0 on SQLite: two sessions of the `memory`
//! provider (one closed, one with a snapshot and an edit), an agent type, a project, content and a
//! token. A release adds its own home and keeps the older ones.

use std::path::Path;

use serde_json::json;
use stead_testkit::{ServerOptions, TestServer};

use crate::cli::kit::{BINARY, run};

/// The sessions with their last event and the hash of their state.
const SESSIONS: [(&str, u64, &str); 2] = [
    ("ses_01m7nvn4vwezf8b7t4f6emv0sw", 12, "blake3:ca98725ef1577542d789ecf549311668a89cb400a72f4073c027a0fd52e99177"),
    ("ses_01m7nvn8mhedjvad0pxqxvpgq7", 12, "blake3:a506f080dce3510a91f160c12f5bfee50c8395f6da689f7e86f7490c42817306"),
];
const VIEWER: &str = "stead_614091249d45799b25944f49abf664280bc5a6c8b22b41d39880dfb552066b38";

#[test]
fn the_home_of_the_release_before_opens() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/home-0.1.0.tar.gz");
    let scratch = tempfile::tempdir().unwrap();
    let unpacked = flate2::read::GzDecoder::new(std::fs::File::open(archive).unwrap());
    tar::Archive::new(unpacked).unpack(scratch.path()).unwrap();
    let home = scratch.path().join("home");

    // Every hash chain and every stored byte, before this program changes anything.
    run(&home, &["verify"]).ok();
    let server = TestServer::start_at(BINARY, &home, ServerOptions::default());
    let client = server.client();
    for (id, seq, state) in SESSIONS {
        let found = client.get(&format!("/sessions/{id}/state?at={seq}")).expect(200);
        assert_eq!(found["state_hash"], state, "{id}");
        assert_eq!(client.get(&format!("/sessions/{id}/replay")).expect(200)["identical"], true, "{id}");
    }
    assert_eq!(client.get(&format!("/sessions/{}", SESSIONS[1].0)).expect(200)["status"], "closed");
    assert_eq!(client.get("/agent-types/writer").expect(200)["workspace"]["provider"], "memory");
    assert_eq!(client.get("/projects/web").expect(200)["env"], json!({"A": "1"}));
    assert_eq!(client.get("/content/bot").expect(200)["name"], "bot");
    assert_eq!(client.with_token(VIEWER).get("/api/v1/whoami").expect(200)["role"], "viewer");

    // The home is in use again.
    let session = server.session(json!({"agent_type": "writer"}));
    let written = server.tool(&session, "write", json!({"path": "a.txt", "content": "new"}));
    assert_eq!(written["ok"], true, "{written}");
}
