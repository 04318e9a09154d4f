//! Accurate errors: JSON on request, useful hints, and ids by prefix.

use serde_json::{Value, json};
use stead_testkit::{GitServer, ServerOptions, TestServer};

use crate::cli::kit::{self, Ran, run};
use crate::rows::build_init;

fn problem(ran: &Ran) -> Value {
    assert_eq!(ran.out, "", "{}", ran.err);
    serde_json::from_str(&ran.err).unwrap_or_else(|error| panic!("not JSON ({error}): {}", ran.err))
}

#[test]
fn with_json_an_error_is_a_problem_on_standard_error() {
    let server = kit::server();
    let home = server.home();
    let missing = run(home, &["--json", "session", "create", "-a", "nobody"]);
    let reported = problem(&missing);
    assert_eq!(
        (missing.code, &reported["code"], &reported["status"]),
        (Some(1), &json!("not_found"), &json!(404)),
        "{reported}"
    );
    assert_eq!(reported["detail"], "there is no agent type 'nobody'");
    // The title comes from the server and belongs to the code.
    let answer = server.client().get("/agent-types/nobody");
    assert_eq!(reported["title"], answer.json()["title"], "{reported}");
    let wrong =
        run(home, &["--json", "agent-type", "set", "coder", "--data", r#"{"tools": ["ssh"], "provider": "x"}"#]);
    let fields: Vec<Value> = problem(&wrong)["errors"].as_array().unwrap().iter().map(|e| e["field"].clone()).collect();
    assert_eq!(fields, [json!("provider"), json!("tools")]);
    let usage = run(home, &["session", "create", "--json"]);
    let reported = problem(&usage);
    assert_eq!((usage.code, &reported["code"]), (Some(2), &json!("usage")));
    assert_eq!(reported["title"], "The command line is not valid");
    let nowhere =
        kit::finish(kit::stead(home).args(["--json", "session", "ls"]).env("STEAD_URL", "http://127.0.0.1:9"));
    assert_eq!((nowhere.code, &problem(&nowhere)["code"]), (Some(1), &json!("unreachable")));
    // Control: without the flag the error is a sentence.
    let text = run(home, &["session", "create", "-a", "nobody"]);
    assert!(text.err.starts_with("error: there is no agent type 'nobody'\n"), "{}", text.err);
}

#[test]
fn the_beginning_of_an_id_is_enough_where_it_is_unique() {
    let server = kit::server();
    let (home, first) = (server.home(), kit::session(&server));
    let beginning = &first[..28];
    let shown = run(home, &["--json", "session", "show", beginning]).json();
    assert_eq!(shown["id"], first.as_str());
    run(home, &["tool", "call", beginning, "write", "-a", "path=a.txt", "-a", "content=x"]).ok();
    // Controls: a prefix of several sessions or of none is refused.
    kit::session(&server);
    assert_eq!(run(home, &["session", "show", "ses_01m"]).code, Some(1));
    let several = run(home, &["session", "show", &first[..8]]);
    let wrong = format!("{}zz", &first[..24]);
    let none = run(home, &["session", "show", &wrong]);
    assert!(none.code == Some(1) && none.err.starts_with("error: there is no session"), "{}", none.err);
    let expect = format!("error: 2 session ids begin with '{}': ", &first[..8]);
    assert!(several.code == Some(1) && several.err.starts_with(&expect), "{}", several.err);
    assert!(several.err.contains(&first), "{}", several.err);
}

#[test]
fn run_shares_one_agent_type_and_hints_at_doctor_only_where_it_helps() {
    build_init();
    let options = ServerOptions::default().env("PODMAN_BASE_URL", "unix:///nonexistent/podman.sock");
    let (server, git) = (TestServer::start_with(kit::BINARY, options), GitServer::start());
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
    let home = server.home();
    let types = || {
        let items = server.client().get("/agent-types").expect(200)["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run(home, &["run", "--", "echo", "hi"]).ok(), "hi\n");
    assert_eq!(types(), ["stead-run-native"]);
    run(home, &["run", "--keep", "--", "true"]).ok();
    assert_eq!(types(), ["stead-run-native"]);
    // A missing repository gives no hint to check this machine; an unreachable Podman does.
    let repository = run(home, &["run", "--repo", &git.url("none"), "--", "true"]);
    assert_eq!(repository.code, Some(125), "{}", repository.err);
    assert!(repository.err.starts_with("error: the workspace could not be made: "), "{}", repository.err);
    assert!(!repository.err.contains("doctor"), "{}", repository.err);
    let podman = run(home, &["run", "--provider", "podman", "--image", "none.example/none", "--", "true"]);
    assert_eq!(podman.code, Some(125), "{}", podman.err);
    assert!(podman.err.contains("`stead doctor` reports"), "{}", podman.err);
}
