//! The tool `shell`: state across calls, timeouts, restarts, and commands that try to break it.

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::{Files, events, on_boxes, server, writer};

#[track_caller]
fn call(server: &TestServer, session: &Value, arguments: Value) -> Value {
    let answer = server.tool(session, "shell", arguments);
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"].clone()
}

fn at(session: &Value) -> String {
    format!("/sessions/{}", session["id"].as_str().unwrap())
}

/// Runs a command and returns its result.
#[track_caller]
fn shell(server: &TestServer, session: &Value, command: &str) -> Value {
    call(server, session, json!({"command": command}))
}

/// Runs a command that must succeed and returns its output.
#[track_caller]
fn says(server: &TestServer, session: &Value, command: &str) -> String {
    let result = shell(server, session, command);
    assert_eq!((&result["exit_code"], &result["stderr"]), (&json!(0), &json!("")), "{command}: {result}");
    result["stdout"].as_str().unwrap().to_owned()
}

fn x1_a_shell_keeps_its_state_between_calls(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let first = shell(&server, &session, "pwd; echo err >&2; (exit 3)");
    let facts = (&first["exit_code"], &first["stdout"], &first["stderr"], &first["shell"]["origin"]);
    assert_eq!(facts, (&json!(3), &json!("/workspace\n"), &json!("err\n"), &json!("new")), "{first}");
    assert!(first["notice"].as_str().unwrap().contains("new shell was started"), "{first}");
    assert_eq!(says(&server, &session, "echo $?"), "3\n", "the exit code of the previous call");
    let set = "mkdir -p sub; cd sub; export EXPORTED='a b'; plain=\"c'd\"; list=(1 '2 3'); declare -A map=([k]=v); \
               greet() { echo \"hello $1\"; }; alias shout='echo loud'; set -- p q; umask 027; set -o pipefail";
    says(&server, &session, set);
    let got = "pwd; bash -c 'echo $EXPORTED'; echo \"$plain|${list[1]}|${map[k]}|$2\"; greet you; shout; umask; false | true; echo $?";
    let expected = "/workspace/sub\na b\nc'd|2 3|v|q\nhello you\nloud\n0027\n1\n";
    assert_eq!(says(&server, &session, got), expected);
    // A call that writes files may stop the box for a checkpoint. The state stays.
    let wrote = shell(&server, &session, "echo x > file");
    assert_eq!(wrote["shell"]["cwd"], "/workspace/sub", "{wrote}");
    assert_eq!(says(&server, &session, got), expected);
    assert_eq!(says(&server, &session, "echo $plain > ../other; cat file"), "x\n");
    assert_eq!(says(&server, &session, got), expected);
    // A one-shot command has no part in it.
    let other = server.tool(&session, "bash", json!({"command": "pwd; echo -$EXPORTED-"}));
    assert_eq!(other["result"]["stdout"], "/workspace\n--\n", "{other}");
    let other = server.session(json!({"agent_type": "w"}));
    assert_eq!(says(&server, &other, "pwd; echo -$EXPORTED-"), "/workspace\n--\n", "another session, another shell");
}

fn x1_jobs_of_a_shell_stay_and_are_known(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    // The job is a copy of the shell until it has executed its program.
    let begin = "sleep 301 & until grep -q sleep /proc/$!/cmdline; do :; done; echo begun";
    let begun = shell(&server, &session, begin);
    assert_eq!((&begun["stdout"], &begun["left_running_total"]), (&json!("begun\n"), &json!(1)), "{begun}");
    assert_eq!(begun["left_running"][0]["command"], "sleep 301", "{begun}");
    assert!(begun["notice"].as_str().unwrap().contains("sleep 301"), "{begun}");
    assert!(says(&server, &session, "jobs").contains("sleep 301"));
    let ended = shell(&server, &session, "kill %1; wait %1; echo $?");
    assert_eq!((&ended["stdout"], &ended["left_running_total"]), (&json!("143\n"), &json!(0)), "{ended}");
    // Output that a job writes after its call is part of the next call's output.
    let begun = shell(&server, &session, "(until [ -e go ]; do sleep 0.02; done; echo from the job) &");
    assert!(begun["left_running"].to_string().contains("bash (subshell)"), "{begun}");
    let text = says(&server, &session, "touch go; wait; echo waited");
    assert!(text.contains("from the job") && text.contains("waited"), "{text}");
}

fn x2_a_timeout_ends_the_command_and_not_what_was_before(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    says(&server, &session, "kept=before; cd /tmp; f() { echo f; }");
    says(&server, &session, "sleep 302 & true");
    let nasty = "kept=after; (setsid sleep 303 &); trap '' TERM INT; sleep 303; echo went on > /workspace/went-on";
    let late = call(&server, &session, json!({"command": nasty, "timeout": 1}));
    assert_eq!((&late["exit_code"], &late["timed_out"]), (&json!(124), &json!(true)), "{late}");
    assert!(late["notice"].as_str().unwrap().contains("before the command"), "{late}");
    assert_eq!(says(&server, &session, "echo $kept; pwd; f; ls /workspace"), "before\n/tmp\nf\n");
    let ps = "ps -eo args | grep -c '[s]leep 303'; ps -eo args | grep -c '[s]leep 302'; true";
    let (counted, all) = (says(&server, &session, ps), says(&server, &session, "ps -eo pid,ppid,stat,args"));
    assert_eq!(counted, "0\n1\n", "the job of an earlier call goes on: {all}");
    // A loop of the shell itself, and commands that wait for input.
    let late = call(&server, &session, json!({"command": "while :; do :; done", "timeout": 1}));
    assert_eq!(late["timed_out"], true, "{late}");
    let silent = shell(&server, &session, "read x; echo \"$? <$x>\"; cat; python3 -q; test -t 0 || echo no tty");
    assert_eq!(silent["stdout"], "1 <>\nno tty\n", "{silent}");
    let late = call(&server, &session, json!({"command": "cat < <(sleep 304)", "timeout": 1}));
    assert_eq!(late["timed_out"], true, "{late}");
    assert_eq!(says(&server, &session, "echo $kept"), "before\n");
}

fn x2_a_timeout_in_a_shell_ends_no_other_command(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let started = server.tool(&session, "bash", json!({"command": "sleep 316", "background": true}));
    assert_eq!(started["ok"], true, "{started}");
    says(&server, &session, "kept=before");
    let late = call(&server, &session, json!({"command": "sleep 317", "timeout": 1}));
    assert_eq!(late["timed_out"], true, "{late}");
    // A killed process is listed until the kernel has taken it down.
    until("the end of the late command", || {
        let processes = says(&server, &session, "ps -eo args; echo $kept");
        assert!(processes.contains("sleep 316") && processes.ends_with("before\n"), "{processes}");
        (!processes.contains("sleep 317")).then_some(())
    });
}

fn x2_a_timeout_in_a_restored_shell_keeps_the_state(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    says(&server, &session, "kept=before; echo x > file; cd /tmp");
    // A snapshot ends the idle shell, if it stops the box. The next call starts one with its state.
    server.client().post(&format!("{}/snapshots", at(&session)), json!({})).expect(201);
    let late = call(&server, &session, json!({"command": "kept=after; sleep 308", "timeout": 1}));
    assert_eq!((&late["timed_out"], &late["shell"]["ended"]), (&json!(true), &json!(false)), "{late}");
    if files == Files::Disk {
        assert_eq!(late["shell"]["origin"], "restored", "{late}");
    }
    assert_eq!(says(&server, &session, "echo $kept; pwd"), "before\n/tmp\n");
}

fn x2_a_cancelled_command_keeps_the_state_and_has_another_exit_code(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    says(&server, &session, "kept=before");
    let client = || server.client().with_token(session["token"].as_str().unwrap());
    let say = |mcp: &str, message: Value| {
        let (client, mcp) = (client(), mcp.to_owned());
        move || {
            let mut headers = vec![("accept", "application/json, text/event-stream")];
            headers.extend((!mcp.is_empty()).then_some(("mcp-session-id", mcp.as_str())));
            client.try_send("POST", "/mcp", &headers, Some(message.to_string()))
        }
    };
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begun = say("", json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))().unwrap();
    let mcp = begun.header("mcp-session-id").unwrap().to_owned();
    say(&mcp, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))().unwrap();
    let arguments = json!({"command": "kept=after; touch begun; sleep 309", "timeout": 120});
    let params = json!({"name": "shell", "arguments": arguments});
    // A cancelled request need not be answered: this thread ends with the server at the latest.
    std::thread::spawn(say(&mcp, json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})));
    until("the command runs", || {
        (server.client().get(&format!("{}/files/begun", at(&session))).status == 200).then_some(())
    });
    say(&mcp, json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))().unwrap();
    let result = until("the record of the call", || {
        let finished = events(&server, session["id"].as_str().unwrap(), "ToolCallFinished");
        let results = finished.into_iter().map(|mut event| event["answer"]["result"].take());
        results.into_iter().find(|result| result["command"].to_string().contains("sleep 309"))
    });
    assert_eq!((&result["exit_code"], &result["timed_out"]), (&json!(137), &json!(false)), "{result}");
    assert_eq!(says(&server, &session, "echo $kept"), "before\n");
}

fn x1_a_shell_that_cannot_start_keeps_its_state(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    says(&server, &session, "kept=before; cd /tmp");
    // The timeout ends the shell, and a new one cannot start in its directory.
    let late = call(&server, &session, json!({"command": "chmod 0 /workspace; sleep 315", "timeout": 1}));
    assert_eq!(late["timed_out"], true, "{late}");
    let refused = server.tool(&session, "shell", json!({"command": "true"}));
    // In a container the agent may not own the directory of the workspace.
    assert!(files == Files::Container || refused["ok"] == false, "{refused}");
    server.tool(&session, "bash", json!({"command": "chmod 755 /workspace", "cwd": "/tmp"}));
    assert_eq!(says(&server, &session, "echo $kept; pwd"), "before\n/tmp\n");
}

fn x1_a_shell_ends_with_its_session_in_a_shared_box(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    says(&server, &session, "mine=1; sleep 313 & true");
    let count = |seconds: u32| {
        let command = format!("ps -eo args | grep -c '[s]leep {seconds}'");
        server.tool(&session, "bash", json!({"command": command}))["result"]["stdout"].clone()
    };
    let made = server.client().post(&format!("{}/clone?wait=20", at(&session)), json!({"isolation": "none"}));
    let clone = made.expect(201)["items"][0].clone();
    says(&server, &clone, "(setsid sleep 314 &); sleep 314 & true");
    until("the jobs of the clone", || (count(314) == "2\n").then_some(()));
    assert_eq!(server.client().delete(&at(&clone)).status, 204);
    until("the end of the clone's jobs", || (count(314) == "0\n").then_some(()));
    assert_eq!((says(&server, &session, "echo $mine"), count(313)), ("1\n".to_owned(), json!("1\n")));
}

fn x1_a_job_cannot_end_a_later_call(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let forge = "(until [ -e go ]; do sleep 0.02; done; for i in 1 2 3 4 5; do for f in /proc/$$/fd/*; do \
                 printf '0 8\\0/\\0x\\0' >$f; done; done; touch forged) 2>/dev/null & mine=1";
    says(&server, &session, forge);
    let victim = "touch go; until [ -e forged ]; do sleep 0.02; done; echo; echo ended; (exit 7)";
    let ended = shell(&server, &session, victim);
    assert_eq!((&ended["exit_code"], &ended["timed_out"]), (&json!(7), &json!(false)), "{ended}");
    assert!(ended["stdout"].as_str().unwrap().contains("ended\n"), "{ended}");
    let next = shell(&server, &session, "wait; echo; echo $mine");
    assert_eq!(next["stdout"].as_str().unwrap().lines().last(), Some("1"), "{next}");
}

fn x1_a_new_shell_says_so(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    says(&server, &session, "X=1; sleep 305 & true");
    let ended = shell(&server, &session, "exit 7");
    let facts = (&ended["exit_code"], &ended["shell"]["ended"]);
    assert_eq!(facts, (&json!(7), &json!(true)), "{ended}");
    assert!(ended["notice"].as_str().unwrap().contains("state is lost"), "{ended}");
    let next = shell(&server, &session, "echo -$X-");
    assert_eq!((&next["stdout"], &next["shell"]["origin"]), (&json!("--\n"), &json!("new")), "{next}");
    let again = call(&server, &session, json!({"restart": true}));
    assert_eq!((&again["exit_code"], &again["shell"]["origin"]), (&json!(0), &json!("new")), "{again}");
    says(&server, &session, "X=2; (setsid sleep 306 &) ; true");
    let again = call(&server, &session, json!({"restart": true, "command": "echo -$X-"}));
    assert_eq!(again["stdout"], "--\n", "{again}");
    // The restart ends the processes of the shell, also those that hide.
    let count = server.tool(&session, "bash", json!({"command": "ps -eo args | grep -c '[s]leep 306'"}));
    assert_eq!(count["result"]["stdout"], "0\n", "{count}");
    let wrong = server.tool(&session, "shell", json!({}));
    assert_eq!(wrong["error"]["code"], "invalid_argument", "{wrong}");
    let wrong = server.tool(&session, "shell", json!({"command": "a\u{0}b"}));
    assert_eq!(wrong["error"]["code"], "invalid_argument", "{wrong}");
}

fn x1_a_shell_survives_hostile_commands(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    // Commands after which the shell is the same.
    for command in [
        "printf '0 8\\0/\\0x=1\\0'; printf 'ready 1\\0\\0\\0' >&2",
        "printf '0 8\\0/\\0x=1\\0' >&199",
        "break; continue; return 3",
        "kill -9 $PPID",
        "stty -echo; stty size; stty sane",
        "exec >/dev/null 2>&1 </dev/zero; echo lost",
        "trap 'echo never' EXIT HUP; if then",
        "set -x; set -v; set +xv",
        "(while :; do echo noise; done) & sleep 0.2; kill $!; wait",
    ] {
        says(&server, &session, "mine=1");
        shell(&server, &session, command);
        assert_eq!(says(&server, &session, "wait; echo; echo $mine").lines().last(), Some("1"), "after {command}");
    }
    // A command that ends the shell's parent, which in a container ends the shell too.
    says(&server, &session, "mine=1");
    call(&server, &session, json!({"command": "mine=2; kill -9 $PPID; sleep 318", "timeout": 3}));
    assert_eq!(says(&server, &session, "echo $mine"), "1\n", "the state of before the command");
    // Commands that end the shell, or make it unusable until the timeout.
    for command in [
        "for fd in /proc/$$/fd/*; do eval \"exec ${fd##*/}>&-\"; done; exec 196>&- 197>&- 198>&- 199>&-",
        "kill -9 $$",
        "exec true",
        "exec sleep 307",
        "set -n",
        "set -e; false",
        "declare() { exit 1; }; builtin() { exit 1; }; printf() { exit 1; }; read() { exit 1; }",
        "kill -STOP $$",
        "exec 10>&- 11>&- 12>&- 13>&- 14>&-",
    ] {
        call(&server, &session, json!({"command": command, "timeout": 1}));
        let next = call(&server, &session, json!({"command": "echo works", "timeout": 20}));
        let next = if next["stdout"] == "works\n" { next } else { shell(&server, &session, "echo works") };
        assert_eq!(next["stdout"], "works\n", "after {command}: {next}");
    }
    let long = shell(&server, &session, "head -c 10000000 /dev/zero | tr '\\0' x");
    assert_eq!((&long["truncated"], &long["stdout_total"]), (&json!(true), &json!(10_000_000)));
    assert!(long["stdout"].as_str().unwrap().len() < 70_000);
    // A state that is too large to keep only lives as long as the shell.
    says(&server, &session, "big=$(head -c 600000 /dev/zero | tr '\\0' y); cd /tmp");
    assert_eq!(says(&server, &session, "echo ${#big}; pwd"), "600000\n/tmp\n");
}

fn x1_a_rewind_ends_the_shell(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let id = session["id"].as_str().unwrap();
    let kept = server.client().post(&format!("/sessions/{id}/snapshots"), json!({})).expect(201);
    says(&server, &session, "mkdir later; cd later; X=1");
    let path = format!("/sessions/{id}/snapshots/{}/restore", kept["id"].as_str().unwrap());
    server.client().post(&path, json!({})).expect(200);
    let next = shell(&server, &session, "pwd; echo -$X-");
    assert_eq!((&next["stdout"], &next["shell"]["origin"]), (&json!("/workspace\n--\n"), &json!("new")), "{next}");
}

on_boxes!(
    x1_a_shell_keeps_its_state_between_calls,
    x1_jobs_of_a_shell_stay_and_are_known,
    x2_a_timeout_ends_the_command_and_not_what_was_before,
    x2_a_timeout_in_a_shell_ends_no_other_command,
    x2_a_timeout_in_a_restored_shell_keeps_the_state,
    x2_a_cancelled_command_keeps_the_state_and_has_another_exit_code,
    x1_a_shell_that_cannot_start_keeps_its_state,
    x1_a_shell_ends_with_its_session_in_a_shared_box,
    x1_a_job_cannot_end_a_later_call,
    x1_a_new_shell_says_so,
    x1_a_shell_survives_hostile_commands,
    x1_a_rewind_ends_the_shell,
);

#[test]
fn c7_bash_enables_the_shell_tools_and_nothing_else_does() {
    let server = server();
    for (named, shell, bash) in [(json!(["read"]), 403, 403), (json!(["bash"]), 200, 200), (json!(["shell"]), 200, 403)]
    {
        let name = format!("t{shell}{bash}");
        server.agent_type(&name, json!({"enabled": true, "provider": "memory", "tools": named}));
        let session = server.session(json!({"agent_type": name}));
        let status = |tool: &str| {
            let path = format!("/sessions/{}/tools/{tool}", session["id"].as_str().unwrap());
            server.client().post(&path, json!({"command": "true"})).status
        };
        assert_eq!((status("shell"), status("bash")), (shell, bash), "{named}");
    }
}

#[test]
fn x1_a_memory_workspace_has_no_shell() {
    let server = server();
    let session = writer(&server, Files::Memory);
    for tool in ["shell", "bash_output", "bash_kill"] {
        let answer = server.tool(&session, tool, json!({"id": "exec_00000000000000000000000000", "command": "true"}));
        assert_eq!(answer["error"]["code"], "tool_unavailable", "{answer}");
    }
    let plan = server.client().post("/sessions:plan", json!({"agent_type": "w"})).expect(200);
    let tools = plan["tools"].to_string();
    assert!(!tools.contains("shell") && !tools.contains("bash_output"), "{plan}");
}
