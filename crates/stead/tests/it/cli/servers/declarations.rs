//! `stead config plan` and `stead config apply`.

use std::path::Path;

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::cli::kit::{BINARY, Ran, run};

struct Declared {
    server: TestServer,
    directory: tempfile::TempDir,
}

impl Declared {
    fn new(files: &[(&str, &str)]) -> Self {
        let declared = Self { server: TestServer::start(BINARY), directory: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(name, text)| declared.file(name, text));
        declared
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.directory.path().join(name)).unwrap();
    }

    fn config(&self, verb: &str, flags: &[&str]) -> Ran {
        let directory = self.directory.path().to_str().unwrap();
        run(self.server.home(), &[&["config", verb, directory], flags].concat())
    }

    /// The changes of a plan, as action, kind and id.
    fn plan(&self, flags: &[&str]) -> Vec<String> {
        let ran = self.config("plan", &[&["--json"], flags].concat());
        let changes: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let items = changes["changes"].as_array().unwrap();
        assert_eq!(ran.code, Some(if items.is_empty() { 0 } else { 2 }), "{ran:?}");
        items
            .iter()
            .map(|one| format!("{} {} {}", text(&one["action"]), text(&one["kind"]), text(&one["id"])))
            .collect()
    }

    fn get(&self, path: &str) -> Value {
        self.server.client().get(path).expect(200)
    }
}

const WORKSPACE: &str = "[workspace]\nenabled = true\nprovider = \"memory\"\n";

fn usual() -> Declared {
    Declared::new(&[
        ("platform.json", r#"{"allowed_git_hosts": ["git.example"]}"#),
        ("agent-types/writer.toml", WORKSPACE),
        ("projects/web.toml", "default_branch = \"main\"\nenv = { KEY = \"s3cret\" }\n[quotas]\nsessions = 5\n"),
        ("projects/web/agent-types/coder.toml", WORKSPACE),
        ("README.md", "For people.\n"),
        (".git/HEAD", "x"),
    ])
}

#[test]
fn applying_twice_changes_nothing_the_second_time() {
    let declared = usual();
    let all = [
        "change platform ",
        "create project web",
        "change quotas web",
        "create agent type writer",
        "create agent type web/coder",
    ];
    assert_eq!(declared.plan(&[]), all);
    assert_eq!(declared.server.client().get("/projects/web").status, 404, "a plan changes nothing");
    declared.config("apply", &[]).ok();
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
    assert!(declared.config("apply", &[]).ok().contains("the server is as declared"));
    assert_eq!(declared.get("/platform")["allowed_git_hosts"], json!(["git.example"]));
    assert_eq!(declared.get("/projects/web/quotas"), json!({"sessions": 5}));
    assert_eq!(declared.get("/agent-types/coder?project=web")["project"], "web");
    // A project's file without quotas leaves them alone, and empty ones remove them.
    declared.file("projects/web.toml", "default_branch = \"main\"\nenv = { KEY = \"s3cret\" }\n");
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
    declared.file("projects/web.toml", "default_branch = \"main\"\nenv = { KEY = \"s3cret\" }\n[quotas]\n");
    assert_eq!(declared.plan(&[]), ["change quotas web"]);
}

#[test]
fn a_change_is_shown_by_field_without_secrets_and_also_with_live_sessions() {
    let declared = usual();
    declared.config("apply", &[]).ok();
    let created = declared.get("/agent-types/coder?project=web")["created_at"].clone();
    declared.server.session(json!({"agent_type": "coder", "project": "web"}));
    declared.file(
        "projects/web/agent-types/coder.toml",
        &format!("description = \"Codes\"\n{WORKSPACE}tools = [\"ls\"]\n"),
    );
    declared.file("projects/web.toml", "default_branch = \"trunk\"\nenv = { KEY = \"0ther\" }\n");
    let plan = declared.config("plan", &[]);
    assert_eq!(plan.code, Some(2));
    for line in [
        "~ project web  (projects/web.toml)",
        "    default_branch: \"main\" → \"trunk\"",
        "    env.KEY: \"(hidden)\" → \"(hidden)\"",
        "~ agent type web/coder  (projects/web/agent-types/coder.toml)",
        "    description: (none) → \"Codes\"",
        "    workspace.tools: (none) → [\"ls\"]",
        "2 differences: 0 to create, 2 to change, 0 to remove",
    ] {
        assert!(plan.out.lines().any(|shown| shown == line), "{line}: {}", plan.out);
    }
    assert!(!plan.out.contains("s3cret") && !plan.out.contains("0ther"));
    declared.config("apply", &[]).ok();
    let after = declared.get("/agent-types/coder?project=web");
    assert_eq!((&after["description"], &after["created_at"]), (&json!("Codes"), &created), "{after}");
    assert_eq!(declared.get("/projects/web")["env"]["KEY"], "0ther");
}

#[test]
fn only_prune_removes_and_projects_need_a_yes() {
    let declared = usual();
    declared.config("apply", &[]).ok();
    // `stead up` and others may have declared more.
    declared.server.agent_type("other", json!({"enabled": false}));
    declared.remove("projects/web/agent-types/coder.toml");
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
    assert_eq!(declared.plan(&["--prune"]), ["remove agent type web/coder", "remove agent type other"]);
    declared.config("apply", &["--prune"]).ok();
    assert_eq!(declared.server.client().get("/agent-types/other").status, 404);
    std::fs::remove_dir_all(declared.directory.path().join("projects/web")).unwrap();
    declared.remove("projects/web.toml");
    let refused = declared.config("apply", &["--prune"]);
    assert!(refused.err.contains("would delete the project web") && refused.err.contains("--yes"), "{refused:?}");
    assert_eq!(declared.get("/projects/web")["default_branch"], "main");
    // Without its folder a kind is not pruned.
    std::fs::remove_dir_all(declared.directory.path().join("projects")).unwrap();
    assert_eq!(declared.plan(&["--prune"]), Vec::<String>::new());
    std::fs::create_dir(declared.directory.path().join("projects")).unwrap();
    declared.config("apply", &["--prune", "--yes"]).ok();
    let gone = |reply: stead_testkit::Reply| (reply.status == 404).then_some(());
    stead_testkit::until("the project is gone", || gone(declared.server.client().get("/projects/web")));
}

#[test]
fn every_mistake_is_named_and_nothing_is_changed() {
    let declared = usual();
    declared.file("platform.toml", "");
    declared.file("agent-types/broken.json", "{\"workspace\": {\"token\": \"s3cret\" ");
    declared.file("agent-types/other.toml", "id = \"another\"\n");
    declared.file("projects/web.toml", "colour = 1\n[quotas]\nper_user = { sessions = \"many\" }\n");
    declared.file("projects/late/agent-types/a.toml", WORKSPACE);
    declared.file("projects/Not A Name.toml", "");
    declared.file("stray.yaml", "");
    let refused = declared.config("apply", &[]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    for part in [
        "platform.toml: platform.json declares the same",
        "agent-types/broken.json: line 1: is not JSON",
        "agent-types/other.toml: id: must be the name of the file, or absent",
        "projects/web.toml: colour: unknown field (valid: ",
        "projects/web.toml: quotas.per_user.sessions: expected a whole number",
        "projects/late: there is no file projects/late.toml",
        "projects/Not A Name.toml: its name cannot be used",
        "stray.yaml: is neither platform.toml",
    ] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    assert!(!refused.err.contains("s3cret"));
    assert_eq!(declared.get("/platform")["allowed_git_hosts"], json!([]));
    let missing = run(declared.server.home(), &["config", "plan", "/nonexistent/declared"]);
    assert!(missing.code == Some(1) && missing.err.contains("cannot read /nonexistent/declared"), "{missing:?}");
}

#[test]
fn a_null_that_removes_a_binding_is_a_difference() {
    let declared = Declared::new(&[]);
    let bindings = |bindings: &str| {
        let text = format!(r#"{{"name": null, "content": {{"version": null, "bindings": {bindings}}}}}"#);
        declared.file("agent-types/writer.json", &text);
    };
    let stored = || declared.get("/agent-types/writer")["content"]["bindings"].clone();
    bindings(r#"{"note": "read"}"#);
    declared.config("apply", &[]).ok();
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
    bindings(r#"{"note": "read", "deploy": null}"#);
    let plan = declared.config("plan", &[]);
    assert_eq!(plan.code, Some(2), "{plan:?}");
    assert!(plan.out.contains("    content.bindings.deploy: (none) → \"(removed)\"\n"), "{plan:?}");
    declared.config("apply", &[]).ok();
    assert_eq!(stored().get("deploy"), Some(&Value::Null), "{}", stored());
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
    bindings(r#"{"note": "read"}"#);
    assert_eq!(declared.plan(&[]), ["change agent type writer"]);
    declared.config("apply", &[]).ok();
    assert_eq!(stored().get("deploy"), None, "{}", stored());
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
}

#[test]
fn links_other_kinds_of_files_and_large_files_are_refused() {
    let declared = usual();
    let (outside, place) = (tempfile::tempdir().unwrap(), declared.directory.path());
    std::fs::create_dir(outside.path().join("agent-types")).unwrap();
    std::fs::write(outside.path().join("linked.toml"), WORKSPACE).unwrap();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(outside.path().join(target), place.join(name)).unwrap();
    };
    link("linked.toml", "agent-types/linked.toml");
    link("nothing", "agent-types/dangling.toml");
    std::fs::create_dir(place.join("projects/other")).unwrap();
    link("agent-types", "projects/other/agent-types");
    let _socket = std::os::unix::net::UnixListener::bind(place.join("agent-types/socket.toml")).unwrap();
    let line = format!("# {}\n", "x".repeat(1021));
    let text = |lines: usize| line.repeat(lines);
    declared.file("agent-types/large.toml", &format!("{}#", text(1024)));
    declared.file("agent-types/full.toml", &text(1024));
    let refused = declared.config("apply", &[]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    let kind = "is neither a regular file nor a directory; symbolic links are not followed";
    for part in [
        format!("agent-types/linked.toml: {kind}"),
        format!("agent-types/dangling.toml: {kind}"),
        format!("projects/other/agent-types: {kind}"),
        format!("agent-types/socket.toml: {kind}"),
        "agent-types/large.toml: is larger than 1 MiB".to_owned(),
    ] {
        assert!(refused.err.contains(&part), "{part}: {}", refused.err);
    }
    assert!(!refused.err.contains("full.toml"), "1 MiB is accepted: {}", refused.err);
    assert_eq!(declared.get("/platform")["allowed_git_hosts"], json!([]), "nothing was changed");
}

#[test]
fn a_refusal_of_the_server_names_the_file_and_a_second_apply_continues() {
    let declared = usual();
    let pooled = format!("{WORKSPACE}warm_pool = 1\n");
    declared.file("projects/web/agent-types/coder.toml", &pooled);
    let refused = declared.config("apply", &[]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("error: projects/web/agent-types/coder.toml: an agent type of a project cannot"),
        "{refused:?}"
    );
    assert_eq!(declared.plan(&[]), ["create agent type web/coder"], "the rest was done");
    declared.file("projects/web/agent-types/coder.toml", WORKSPACE);
    declared.config("apply", &[]).ok();
    assert_eq!(declared.plan(&[]), Vec::<String>::new());
}

#[test]
fn a_token_of_a_project_declares_only_that_project() {
    let declared = usual();
    declared.config("apply", &[]).ok();
    let token = json!({"name": "ci", "project": "web", "role": "owner"});
    let token =
        declared.server.client().post("/api/v1/tokens", token).expect(201)["token"].as_str().unwrap().to_owned();
    let plan = |directory: &Path| {
        let mut command = crate::cli::kit::stead(declared.server.home());
        crate::cli::kit::finish(command.args(["config", "plan"]).arg(directory).env("STEAD_TOKEN", &token))
    };
    let refused = plan(declared.directory.path());
    assert!(refused.err.contains("platform.json: the token belongs to project web"), "{refused:?}");
    declared.remove("platform.json");
    std::fs::remove_dir_all(declared.directory.path().join("agent-types")).unwrap();
    assert_eq!(plan(declared.directory.path()).ok(), "the server is as declared\n");
}

#[test]
fn a_settings_file_is_checked_without_a_server() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let check = |text: &str| {
        let file = directory.path().join("stead.toml");
        std::fs::write(&file, text).unwrap();
        run(home.path(), &["config", "check", file.to_str().unwrap()])
    };
    assert!(check("listen = '127.0.0.1:0'\n").ok().ends_with("is valid\n"));
    for (text, part) in [
        ("lissten = 'x'", "line 1: unknown field `lissten`"),
        ("workspace_default_cpu = 'lots'", "workspace_default_cpu in "),
        ("podman_pull = 'always'", "podman_pull in "),
        ("[git]\nmax_transfer = 'x'", "git.max_transfer"),
        ("listen = '0.0.0.0:1'", "has no [[tokens]]"),
    ] {
        let refused = check(text);
        assert!(refused.code == Some(1) && refused.err.contains(part), "{text}: {refused:?}");
    }
    assert!(run(home.path(), &["config", "check"]).ok().contains("does not exist: the defaults apply"));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing was started");
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() {
    let home = tempfile::tempdir().unwrap();
    let hash = "ab".repeat(32);
    std::fs::write(
        home.path().join("stead.toml"),
        format!("listen = '127.0.0.1:7'\ndatabase_url = 'postgres://u:s3cret@127.0.0.1/x'\n[[tokens]]\nname = 'ci'\nhash = '{hash}'\n"),
    )
    .unwrap();
    let mut command = crate::cli::kit::stead(home.path());
    command.args(["--json", "config", "show"]).env("WORKSPACE_DEFAULT_CPU", "3").env("STEAD_TOKEN", "stead_s3cret");
    let shown = crate::cli::kit::finish(&mut command);
    assert!(!shown.out.contains("s3cret") && !shown.out.contains(&hash), "{shown:?}");
    let shown = shown.json();
    let of = |name: &str| {
        let found = shown["settings"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
        (found["value"].as_str().unwrap().to_owned(), found["from"].as_str().unwrap().to_owned())
    };
    let file = home.path().join("stead.toml").display().to_string();
    assert_eq!(of("listen"), ("127.0.0.1:7".to_owned(), format!("listen in {file}")));
    assert_eq!(of("workspace_default_cpu"), ("3".to_owned(), "WORKSPACE_DEFAULT_CPU".to_owned()));
    assert_eq!(of("workspace_default_memory"), ("4G".to_owned(), "default".to_owned()));
    assert_eq!(of("token"), ("(hidden)".to_owned(), "STEAD_TOKEN".to_owned()));
    assert_eq!(of("tokens").0, "ci");
}
