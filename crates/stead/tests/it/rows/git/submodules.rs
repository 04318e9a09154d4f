//! Submodules, if the agent type enables them: the rules of any repository apply, and only the
//! repository's own host is used.

use serde_json::{Value, json};
use stead_testkit::{GitServer, Repository};

use super::{active, agent, allow, failed, git_server, sh, start};

/// `app` with `lib` at `libs/lib`, which contains `inner`.
fn nested(git: &GitServer) -> (Repository, String) {
    git.repository("inner", &[("deep.txt", "deep\n")]);
    let lib = git.repository("lib", &[("lib.txt", "lib\n")]);
    lib.git(&["submodule", "--quiet", "add", "../inner", "in ner"]);
    let at = lib.commit(&[], "with inner");
    let app = git.repository("app", &[("a", "1\n")]);
    app.git(&["submodule", "--quiet", "add", "../lib", "libs/lib"]);
    app.commit(&[], "with lib");
    (app, at)
}

#[test]
fn on_request_they_are_there_and_theirs_too() {
    let (server, git) = git_server();
    let (_, lib) = nested(&git);
    agent(&server, json!({"git": {"submodules": true}}));
    let kept = server.client().get("/agent-types/g/workspace-config").expect(200);
    assert_eq!(kept["git"]["submodules"], true, "{kept}");
    let context = json!({"repository_url": git.url("app"), "branch": "main"});
    let session = active(&server, context.clone());
    assert_eq!(sh(&server, &session, "cat a libs/lib/lib.txt 'libs/lib/in ner/deep.txt'"), "1\nlib\ndeep");
    assert_eq!(sh(&server, &session, "git status --porcelain; git -C libs/lib status --porcelain"), "");
    assert_eq!(sh(&server, &session, "git -C libs/lib rev-parse HEAD"), lib);
    assert!(
        sh(&server, &session, "git submodule status").starts_with(&format!(" {lib} libs/lib")),
        "git knows it as one"
    );
    assert_eq!(sh(&server, &session, "git -C libs/lib remote get-url origin"), git.url("lib"));
    let warnings = session["warnings"].as_array().cloned().unwrap_or_default();
    assert!(!json!(warnings).to_string().contains("submodules_left_out"), "{warnings:?}");
    // Known submodules need no transfer, and the checkout is one layer.
    let asked = git.packs();
    active(&server, context);
    assert_eq!((asked, git.packs()), (3, 3), "{:?}", git.requests());
    assert_eq!(server.client().get("/usage").expect(200)["layers"]["count"], 1);
    // A commit in the submodule is a modification of the outer repository.
    sh(&server, &session, "cd libs/lib && echo 2 >> lib.txt && git commit -qam two");
    assert_eq!(sh(&server, &session, "git status --porcelain"), " M libs/lib");
}

#[test]
fn a_memory_workspace_has_the_files_of_all_of_them() {
    let (server, git) = git_server();
    nested(&git);
    let workspace =
        json!({"enabled": true, "provider": "memory", "require_workspace": true, "git": {"submodules": true}});
    server.agent_type("g", workspace);
    let session = active(&server, json!({"repository_url": git.url("app"), "branch": "main"}));
    let found = server.tool(&session, "glob", json!({"pattern": "**/*", "hidden": true})).to_string();
    assert!(found.contains("libs/lib/in ner/deep.txt") && !found.contains("/.git/"), "{found}");
}

/// A repository `name` whose submodule `sub` has this URL.
fn with_url(git: &GitServer, name: &str, url: &str, commit: &str) {
    let repository = git.repository(name, &[("a", "1\n")]);
    let modules = format!("[submodule \"sub\"]\n\tpath = sub\n\turl = {url}\n");
    std::fs::write(repository.work().join(".gitmodules"), modules).unwrap();
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
    repository.git(&["add", ".gitmodules"]);
    repository.git(&["commit", "-q", "-m", "sub"]);
    repository.git(&["push", "-q", "origin", "HEAD"]);
}

#[test]
fn g6_a_submodules_url_is_a_strangers_word() {
    let (server, git) = git_server();
    let (other, outside) = (GitServer::start(), tempfile::tempdir().unwrap());
    let secret = other.repository("secret", &[("s", "secret\n")]).remote("main");
    let local = Repository::create(&outside.path().join("local"), &[("l", "local\n")]);
    let here = git.repository("here", &[("h", "here\n")]).remote("main");
    // Hosts and directories that a session may use, but that the author of a repository may not
    // choose.
    let allowed = json!({"allowed_git_hosts": [git.host(), other.host()], "allowed_host_roots": [outside.path()]});
    server.client().put("/platform", allowed).expect(200);
    agent(&server, json!({"git": {"submodules": true}}));
    let path = local.bare().to_str().unwrap().to_owned();
    let pwn = outside.path().join("pwn");
    let urls = [
        ("other", other.url("secret"), &secret),
        ("path", path.clone(), &local.remote("main")),
        ("file", format!("file://{path}"), &local.remote("main")),
        ("ext", format!("ext::sh -c touch% {}", pwn.display()), &here),
        ("option", format!("--upload-pack=touch {}", pwn.display()), &here),
        ("user", git.url("here").replace("http://", "http://me@"), &here),
        ("ssh", format!("ssh://git@{}/here", git.host()), &here),
        ("climb", format!("../../../../{}/secret", other.host()), &secret),
        ("gone", git.url("here"), &"1".repeat(40)),
        ("none", git.url("nothing"), &here),
    ];
    for (name, url, commit) in urls {
        with_url(&git, name, &url, commit);
        let session = start(&server, json!({"repository_url": git.url(name), "branch": "main"}));
        let (code, message) = failed(&session);
        assert!(code == "git_submodule_failed" || code == "git_failed", "{name}: {code}: {message}");
        assert!(code == "git_failed" || message.contains("the submodule sub "), "{name}: {message}");
    }
    assert!(other.requests().is_empty() && !pwn.exists());
    // With submodules disabled, the same repositories work without them, with a warning.
    agent_off(&server);
    let session = server.session(
        json!({"agent_type": "off", "task": {"context": {"repository_url": git.url("other"), "branch": "main"}}}),
    );
    assert_eq!(session["status"], "active", "{session}");
    assert!(json!(session["warnings"]).to_string().contains("submodules_left_out"), "{session}");
}

fn agent_off(server: &stead_testkit::TestServer) {
    let workspace: Value = json!({"enabled": true, "provider": "native", "require_workspace": true});
    server.agent_type("off", workspace);
}

#[test]
fn a_repository_within_itself_has_an_end() {
    let (server, git) = git_server();
    allow(&server, &git);
    let repository = git.repository("loop", &[("a", "1\n")]);
    for _ in 0..6 {
        let at = repository.git(&["rev-parse", "HEAD"]);
        std::fs::write(repository.work().join(".gitmodules"), "[submodule \"s\"]\n\tpath = s\n\turl = ./\n").unwrap();
        repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{at},s")]);
        repository.git(&["add", ".gitmodules"]);
        repository.git(&["commit", "-q", "-m", "within"]);
        repository.git(&["push", "-q", "origin", "HEAD"]);
    }
    agent(&server, json!({"git": {"submodules": true}}));
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("loop"), "branch": "main"})));
    assert!(code == "git_submodule_failed" && message.contains("s/s/s/s"), "{code}: {message}");
}
