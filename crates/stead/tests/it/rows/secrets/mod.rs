//! Secrets: what is stored, who may see it, and that no value is anywhere but under its seal.

mod environment;
mod store;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stead_testkit::{Client, TestServer};

use super::{build_init, server, settled};

/// The value that must not be found.
pub(in crate::rows) const CANARY: &str = "canary-7f3a9c51-value";

/// Stores the canary as `api`, for every agent type.
fn set(client: &Client) -> Value {
    let body = json!({"hosts": ["api.example"], "agent_types": ["*"], "value": CANARY});
    client.put("/secrets/api", body).json()
}

/// Runs `stead` with a standard input.
fn stead(home: &Path, args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.args(args).env_clear().env("STEAD_HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Every file below a directory that contains the text or one of its encodings.
pub(in crate::rows) fn holders(directory: &Path, text: &str) -> Vec<String> {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let encoded = String::from_utf8(base64(text.as_bytes())).unwrap();
    // The volumes of boxes are large, and grep is fast.
    let mut grep = Command::new("grep");
    grep.args(["--recursive", "--files-with-matches", "--text", "--fixed-strings"]);
    let found = grep.args(["-e", text, "-e", &hex, "-e", &encoded]).arg(directory).output().unwrap();
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

/// Base64 without the last characters, which depend on what follows.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let whole = bytes.chunks_exact(3).flat_map(|three| {
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift & 63) as usize])
    });
    whole.collect()
}

#[track_caller]
fn assert_nowhere(server: &TestServer) {
    assert_eq!(holders(server.home(), CANARY), Vec::<String>::new());
}
