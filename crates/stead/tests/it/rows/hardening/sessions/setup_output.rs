//! The output of setup commands is kept for both streams and shown, also if they fail or time out.

use std::process::Command;

use serde_json::{Value, json};

use crate::rows::{Files, events};

fn setups(session: &Value) -> Vec<Value> {
    let steps = session["provisioning"]["steps"].as_array().unwrap().iter();
    steps.map(|step| step["setup"].clone()).filter(|setup| !setup.is_null()).collect()
}

fn output_is_kept_and_shown(files: Files) {
    let server = files.server();
    let noisy = "echo begun; head -c 20000 /dev/zero | tr '\\0' x; echo; echo end; echo careful >&2; exit 7";
    let workspace = json!({
        "enabled": true, "provider": files.provider(), "workspace_policy": "empty", "require_workspace": true,
        "setup_commands": ["echo fine; echo quietly >&2", noisy, "echo never"],
    });
    server.agent_type("s", workspace);
    let session = server.session(json!({"agent_type": "s"}));
    let setups = setups(&session);
    assert_eq!(setups.len(), 2, "the third did not run: {session}");
    let first = json!({
        "number": 1, "command": "echo fine; echo quietly >&2", "exit_code": 0, "timed_out": false,
        "stdout_head": "", "stdout": "fine\n", "stderr_head": "", "stderr": "quietly\n",
        "stdout_total": 5, "stderr_total": 8,
    });
    assert_eq!(setups[0], first);
    let second = &setups[1];
    assert_eq!((&second["exit_code"], &second["stderr"]), (&json!(7), &json!("careful\n")), "{second}");
    let kept = second["stdout"].as_str().unwrap();
    assert!(kept.ends_with("x\nend\n") && kept.len() <= 4096 && !kept.contains("begun"), "{} bytes", kept.len());
    let head = second["stdout_head"].as_str().unwrap();
    assert!(head.starts_with("begun\nx") && head.len() == 4096, "{} bytes", head.len());
    assert_eq!((&second["stdout_total"], &second["stderr_head"]), (&json!(20_011), &json!("")), "{second}");
    let id = session["id"].as_str().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    let shown = command.env_clear().env("STEAD_HOME", server.home()).args(["session", "show", id]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        "Setup command 1 (exit code 0)",
        "quietly",
        "begun",
        "omitted",
        "Setup command 2 (exit code 7)",
        "careful",
        "end",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    assert!(!shown.contains("Setup command 3"), "{shown}");
}

/// The two lines are written seconds apart, so a client that follows the events sees the first one
/// long before the command ends.
fn output_is_streamed_while_the_command_runs(files: Files) {
    let server = files.server();
    let workspace = json!({
        "enabled": true, "provider": files.provider(), "workspace_policy": "empty", "require_workspace": true,
        "setup_commands": ["echo first line; echo on stderr >&2; sleep 5; echo last line"],
    });
    server.agent_type("s", workspace);
    let session = server.session(json!({"agent_type": "s"}));
    let id = session["id"].as_str().unwrap();
    let received = events(&server, id, "SetupOutputReceived");
    assert!(received.len() >= 2, "{received:?}");
    let text = |stream: &str| -> String {
        let chunks = received.iter().flat_map(|event| event["chunks"].as_array().unwrap());
        let of_stream = chunks.filter(|chunk| chunk["stream"] == stream);
        of_stream.map(|chunk| chunk["text"].as_str().unwrap()).collect()
    };
    assert_eq!((text("stdout").as_str(), text("stderr").as_str()), ("first line\nlast line\n", "on stderr\n"));
    assert!(!received[0].to_string().contains("last line"), "{received:?}");
    let finished = events(&server, id, "InitStepFinished");
    assert!(received.iter().all(|event| event["seq"].as_u64() < finished[0]["seq"].as_u64()), "{received:?}");
    let steps = session["provisioning"]["steps"].as_array().unwrap();
    let setup = steps.iter().find(|step| step["name"] == "run_setup_command").unwrap();
    assert_eq!(setup["progress"], json!({"stage": "running", "percent": 0, "detail": "last line"}), "{session}");
}

fn a_timeout_is_logged_with_what_was_written(files: Files) {
    let server = files.server();
    let workspace = |command: &str| {
        json!({
            "enabled": true, "provider": files.provider(), "workspace_policy": "empty", "require_workspace": true,
            "setup_commands": [command], "setup_timeout_seconds": 2,
        })
    };
    server.agent_type("slow", workspace("echo waiting; sleep 600"));
    server.agent_type("quick", workspace("echo done"));
    let session = server.session(json!({"agent_type": "slow"}));
    let setup = &setups(&session)[0];
    assert_eq!((&setup["timed_out"], &setup["stdout"]), (&json!(true), &json!("waiting\n")), "{session}");
    assert!(session["warnings"].to_string().contains("timed out after 2 s"), "{session}");
    let logged = |session: &Value| {
        let id = session["id"].as_str().unwrap();
        server.log().lines().any(|line| line.contains("a setup command failed") && line.contains(id))
    };
    assert!(logged(&session), "{}", server.log());
    // Control: a command that ends in time is not logged.
    let quick = server.session(json!({"agent_type": "quick"}));
    assert!(setups(&quick)[0]["timed_out"] == false && !logged(&quick), "{quick}");
}

mod disk {
    #[test]
    fn output_is_kept_and_shown() {
        super::output_is_kept_and_shown(super::Files::Disk);
    }

    #[test]
    fn output_is_streamed_while_the_command_runs() {
        super::output_is_streamed_while_the_command_runs(super::Files::Disk);
    }

    #[test]
    fn a_timeout_is_logged_with_what_was_written() {
        super::a_timeout_is_logged_with_what_was_written(super::Files::Disk);
    }
}

mod container {
    #[test]
    fn output_is_kept_and_shown() {
        super::output_is_kept_and_shown(super::Files::Container);
    }
}
