//! `bash` in the background with `bash_output` and `bash_kill`, and processes that commands leave.

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use super::execs::{at, ended, exec};
use super::native::{box_session, with_boxes};
use crate::rows::hardening::limits::ordinary_user;
use crate::rows::{Files, events, on_boxes, put, writer};

/// Calls a tool that must succeed and returns its result.
#[track_caller]
fn tool(server: &TestServer, session: &Value, tool: &str, arguments: Value) -> Value {
    let answer = server.tool(session, tool, arguments);
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"].clone()
}

#[track_caller]
fn begin(server: &TestServer, session: &Value, command: &str) -> String {
    let begun = tool(server, session, "bash", json!({"command": command, "background": true}));
    assert_eq!(begun["status"], "running", "{begun}");
    begun["id"].as_str().unwrap().to_owned()
}

/// Reads the output after a chunk until it contains `text`. Returns the number of the last chunk.
#[track_caller]
fn read_until(server: &TestServer, session: &Value, id: &str, mut after: u64, text: &str) -> u64 {
    let mut seen = String::new();
    until("the output of the command", || {
        let page = tool(server, session, "bash_output", json!({"id": id, "after": after}));
        for chunk in page["chunks"].as_array().unwrap() {
            assert_eq!(chunk["seq"], after + 1, "each chunk comes once: {page}");
            after += 1;
            seen += chunk["data"].as_str().unwrap();
        }
        assert_eq!(page["after"], after, "{page}");
        seen.contains(text).then_some(())
    });
    after
}

fn x3_a_background_command_is_read_and_ended_with_tools(files: Files) {
    let mut server = files.server();
    let session = writer(&server, files);
    let script = "echo one; until [ -e go ]; do sleep 0.02; done; echo two >&2; exit 5";
    let id = begin(&server, &session, script);
    let after = read_until(&server, &session, &id, 0, "one\n");
    let listed = server.client().get(&at(&session, "")).expect(200);
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["command"]), (&json!(id), &json!(script)), "{listed}");
    let started = events(&server, session["id"].as_str().unwrap(), "ExecStarted");
    assert_eq!(started[0]["exec"], json!(id), "{started:?}");
    server.restart(None);
    tool(&server, &session, "write", json!({"path": "go", "content": "go"}));
    let after = read_until(&server, &session, &id, after, "two\n");
    let exec = ended(&server, &session, &id);
    assert_eq!((&exec["exit_code"], &exec["background"]), (&json!(5), &json!(true)), "{exec}");
    let last = tool(&server, &session, "bash_output", json!({"id": id, "after": after}));
    assert_eq!((&last["status"], &last["exit_code"]), (&json!("finished"), &json!(5)), "{last}");
    assert_eq!((&last["chunks"], &last["more"]), (&json!([]), &json!(false)), "{last}");
    // The same over HTTP without a stream.
    let page = server.client().get(&at(&session, &format!("/{id}/output"))).expect(200);
    let text: String = page["chunks"].as_array().unwrap().iter().map(|chunk| chunk["data"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), &page["after"]), ("one\ntwo\n", &json!(after)), "{page}");
    assert_eq!(page["chunks"][1]["stream"], "stderr", "{page}");
    let page = server.client().get(&at(&session, &format!("/{id}/output?after=1"))).expect(200);
    assert_eq!(page["chunks"][0]["seq"], 2, "{page}");
    server.client().get(&at(&session, "/exec_00000000000000000000000000/output")).problem(404, "not_found");
}

fn x2_bash_kill_ends_the_whole_tree(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let id = begin(&server, &session, "(setsid sleep 311 &); (trap '' TERM; sleep 311) & echo up; sleep 311");
    read_until(&server, &session, &id, 0, "up\n");
    let killed = tool(&server, &session, "bash_kill", json!({"id": id}));
    assert_eq!((&killed["status"], &killed["exit_code"]), (&json!("finished"), &json!(137)), "{killed}");
    let left = tool(&server, &session, "bash", json!({"command": "ps -eo args | grep -c '[s]leep 311'"}));
    assert_eq!(left["stdout"], "0\n");
    tool(&server, &session, "bash_kill", json!({"id": id}));
    for (name, arguments, code) in [
        ("bash_kill", json!({"id": "exec_00000000000000000000000000"}), "not_found"),
        ("bash_output", json!({"id": "exec_00000000000000000000000000"}), "not_found"),
        ("bash_output", json!({"id": "nonsense"}), "invalid_argument"),
        ("bash_output", json!({}), "invalid_argument"),
        ("bash", json!({"command": "true", "background": true, "cwd": "/nowhere"}), "invalid_cwd"),
        ("bash", json!({"background": true}), "invalid_argument"),
        ("bash", json!({"command": "true", "background": true, "capture_output": false}), "invalid_argument"),
    ] {
        let answer = server.tool(&session, name, arguments);
        assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!(code)), "{answer}");
    }
}

fn x3_large_output_is_paged_for_a_model(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let id = begin(&server, &session, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end");
    ended(&server, &session, &id);
    let (mut after, mut pages, mut text) = (0, 0, String::new());
    loop {
        let page = tool(&server, &session, "bash_output", json!({"id": id, "after": after}));
        let data: String = page["chunks"].as_array().unwrap().iter().map(|one| one["data"].as_str().unwrap()).collect();
        assert!(data.len() <= 65_536, "output_bytes bounds a page: {}", data.len());
        text.push_str(&data);
        (after, pages) = (page["after"].as_u64().unwrap(), pages + 1);
        if page["more"] == false {
            break;
        }
    }
    assert!(pages > 1 && text.ends_with("\nend\n"), "{pages} pages");
}

/// The texts of a page over HTTP. Each chunk must be text.
#[track_caller]
fn texts(page: &Value) -> String {
    let text = |chunk: &Value| {
        assert_eq!(chunk["encoding"], "utf8", "{chunk}");
        chunk["data"].as_str().unwrap().to_owned()
    };
    page["chunks"].as_array().unwrap().iter().map(text).collect()
}

fn x3_a_character_in_two_writes_is_one_character(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let output = |id: &str, after: u64| server.client().get(&at(&session, &format!("/{id}/output?after={after}")));
    let id = begin(&server, &session, r"printf 'caf\303'; until [ -e go ]; do sleep 0.02; done; printf '\251 ok\n'");
    let after = read_until(&server, &session, &id, 0, "caf");
    let page = output(&id, 0).expect(200);
    assert_eq!((texts(&page).as_str(), &page["after"]), ("caf", &json!(after)), "the é is not there yet: {page}");
    tool(&server, &session, "write", json!({"path": "go", "content": "go"}));
    read_until(&server, &session, &id, after, "é ok\n");
    ended(&server, &session, &id);
    assert_eq!(texts(&output(&id, after).expect(200)), "é ok\n");
    // Writes of bash end inside characters, and so do full chunks.
    let id = begin(&server, &session, "printf x; printf 'é→😀%.0s' $(seq 20000)");
    ended(&server, &session, &id);
    let expected = format!("x{}", "é→😀".repeat(20_000));
    let (mut after, mut by_tool) = (0, String::new());
    while by_tool.len() < expected.len() {
        let page = tool(&server, &session, "bash_output", json!({"id": id, "after": after}));
        assert!(!page["chunks"].as_array().unwrap().is_empty(), "{} bytes", by_tool.len());
        by_tool += &texts(&page);
        after = page["after"].as_u64().unwrap();
    }
    assert!(by_tool == expected, "{} bytes", by_tool.len());
    let (mut after, mut over_http) = (0, String::new());
    while over_http.len() < expected.len() {
        let page = output(&id, after).expect(200);
        over_http += &texts(&page);
        after = page["after"].as_u64().unwrap();
    }
    assert!(over_http == expected, "{} bytes", over_http.len());
    // A start without an end is reported as it is when the command has ended.
    let id = begin(&server, &session, r"printf '\303'");
    ended(&server, &session, &id);
    let page = output(&id, 0).expect(200);
    assert_eq!(page["chunks"], json!([{"seq": 1, "stream": "stdout", "encoding": "base64", "data": "ww=="}]));
    let page = tool(&server, &session, "bash_output", json!({"id": id}));
    assert_eq!(page["chunks"][0]["data"], "\u{fffd}");
}

fn x3_a_background_command_is_as_long_as_one_in_the_foreground(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let command = |bytes: usize| {
        let end = "'; echo end";
        format!(": '{}{end}", "x".repeat(bytes - 3 - end.len()))
    };
    let begun = tool(&server, &session, "bash", json!({"command": command(131_071), "background": true}));
    let id = begun["id"].as_str().unwrap();
    let exec = ended(&server, &session, id);
    assert_eq!((&exec["exit_code"], &exec["stdout"]), (&json!(0), &json!("end\n")));
    // The state keeps the start of the command, and the journal all of it.
    let shown = exec["command"].as_str().unwrap();
    assert!(shown.len() < 5_000 && shown.ends_with('…'), "{} bytes", shown.len());
    let started = events(&server, session["id"].as_str().unwrap(), "ExecStarted");
    assert_eq!(started[0]["spec"]["command"], json!(command(131_071)));
    let over = json!({"command": command(131_072), "background": true});
    let answer = server.tool(&session, "bash", over);
    assert_eq!(answer["error"]["code"], "invalid_argument", "{}", answer["message"]);
}

fn x3_a_background_command_obeys_any_whole_timeout_and_is_echoed_in_short(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let command = format!("sleep 313 # {}", "x".repeat(20_000));
    let begun = tool(&server, &session, "bash", json!({"command": command, "background": true, "timeout": 1.0}));
    let echo = begun["command"].as_str().unwrap();
    assert!(echo.len() < 5_000 && echo.ends_with('…'), "{echo}");
    let exec = ended(&server, &session, begun["id"].as_str().unwrap());
    assert_eq!((&exec["timed_out"], &exec["exit_code"]), (&json!(true), &json!(124)), "{}", exec["exit_code"]);
}

fn x1_what_a_command_leaves_running_is_reported(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let quiet = tool(&server, &session, "bash", json!({"command": "echo hi"}));
    assert_eq!((&quiet["left_running"], &quiet["left_running_total"]), (&json!([]), &json!(0)), "{quiet}");
    let command = "sleep 312 & (setsid sleep 312 >/dev/null 2>&1 &); echo hi";
    let answer = server.tool(&session, "bash", json!({"command": command}));
    let result = &answer["result"];
    assert_eq!((&result["stdout"], &result["left_running_total"]), (&json!("hi\n"), &json!(2)), "{answer}");
    let names: Vec<_> = result["left_running"].as_array().unwrap().iter().map(|one| &one["command"]).collect();
    assert_eq!(names, ["sleep 312", "sleep 312"]);
    assert!(answer["message"].as_str().unwrap().contains("2 processes still run"), "{answer}");
    let pid = result["left_running"][0]["pid"].as_i64().unwrap();
    let seen = tool(&server, &session, "bash", json!({"command": format!("tr '\\0' ' ' < /proc/{pid}/cmdline")}));
    assert_eq!(seen["stdout"], "sleep 312 ");
}

fn x1_a_missing_program_exits_as_in_a_shell(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    for (argv, code) in [(json!(["no-such-program"]), 127), (json!(["/etc"]), 126), (json!(["/etc/passwd"]), 126)] {
        let ended = exec(&server, &session, json!({"argv": argv}));
        assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("finished"), &json!(code)), "{ended}");
    }
    for tool_name in ["bash", "shell"] {
        let ended = tool(&server, &session, tool_name, json!({"command": "no-such-program"}));
        assert_eq!(ended["exit_code"], 127, "{ended}");
    }
}

on_boxes!(
    x3_a_background_command_is_read_and_ended_with_tools,
    x2_bash_kill_ends_the_whole_tree,
    x3_large_output_is_paged_for_a_model,
    x3_a_character_in_two_writes_is_one_character,
    x3_a_background_command_is_as_long_as_one_in_the_foreground,
    x3_a_background_command_obeys_any_whole_timeout_and_is_echoed_in_short,
    x1_what_a_command_leaves_running_is_reported,
    x1_a_missing_program_exits_as_in_a_shell,
);

#[test]
fn x4_programs_see_the_limits_of_their_container() {
    let files = Files::Container;
    let server = files.server();
    let limits = json!({"cpu": "1", "memory": "128M"});
    server.agent_type("small", json!({"enabled": true, "provider": files.provider(), "resource_limits": limits}));
    let session = server.session(json!({"agent_type": "small"}));
    let says = |command: &str| tool(&server, &session, "bash", json!({"command": command}))["stdout"].clone();
    assert_eq!(
        says("grep -E '^Mem(Total|Available)' /proc/meminfo | tr -s ' '"),
        "MemTotal: 131072 kB\nMemAvailable: 131072 kB\n"
    );
    assert_ne!(says("echo 1 > /proc/meminfo; echo $?"), "0\n");
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        assert_eq!(says("grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat"), "1\n1\n");
        assert_eq!(says("cat /sys/devices/system/cpu/online"), "0\n");
    }
    // A box without limits sees the host.
    let open = writer(&server, files);
    let host = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = tool(&server, &open, "bash", json!({"command": "head -1 /proc/meminfo"}))["stdout"].clone();
    let limited = open["workspace"]["limits"]["memory"].is_string();
    assert!(limited || host.starts_with(total.as_str().unwrap()), "{total}");
}

#[test]
fn x4_out_of_memory_is_said_for_execs_and_shells() {
    let server = with_boxes();
    let session = box_session(&server, json!({"resource_limits": {"memory": "128M"}}));
    let enforced = session["workspace"]["limits"]["enforced"].as_array().unwrap();
    assert!(enforced.contains(&json!("memory")), "this test needs a host that enforces memory limits: {session}");
    let hungry = "python3 -c 'x = [bytearray(1 << 20) for _ in range(1000)]'";
    let ended = exec(&server, &session, json!({"command": hungry}));
    assert_eq!((&ended["oom"], &ended["exit_code"]), (&json!(true), &json!(137)), "{ended}");
    let ended = tool(&server, &session, "shell", json!({"command": hungry}));
    assert_eq!(ended["oom"], true, "{ended}");
    let next = tool(&server, &session, "shell", json!({"command": "echo works"}));
    assert_eq!(next["stdout"], "works\n", "{next}");
}

#[test]
fn x4_a_java_virtual_machine_sizes_itself_by_its_box() {
    let server = with_boxes();
    let session = box_session(&server, json!({"resource_limits": {"cpu": "1", "memory": "512M"}}));
    let flags = "java -XX:+PrintFlagsFinal -version | awk '$2 ~ /^(MaxHeapSize|UseSerialGC)$/ {print $2, $4}'";
    let ended = tool(&server, &session, "bash", json!({"command": flags, "timeout": 120}));
    assert_eq!(ended["stdout"], "MaxHeapSize 134217728\nUseSerialGC true\n", "a quarter of the memory: {ended}");
    // The caller's own value replaces it.
    let own = json!({"command": flags, "timeout": 120, "env": {"JAVA_TOOL_OPTIONS": "-Xmx64m"}});
    let ended = tool(&server, &session, "bash", own);
    assert!(ended["stdout"].as_str().unwrap().contains("MaxHeapSize 67108864\n"), "{ended}");
}

#[test]
fn x4_programs_see_the_limits_of_their_box() {
    let server = with_boxes();
    let session = box_session(&server, json!({"resource_limits": {"cpu": "1", "memory": "128M"}}));
    let says = |command: &str| tool(&server, &session, "bash", json!({"command": command}))["stdout"].clone();
    assert_eq!(
        says("grep MemTotal /proc/meminfo | tr -s ' '; cat /sys/fs/cgroup/memory.max"),
        "MemTotal: 131072 kB\n134217728\n"
    );
    assert_eq!(says("free -k | awk '/^Mem/ {print $2}'"), "131072\n");
    assert_eq!(says("cat /sys/fs/cgroup/cpu.max"), "100000 100000\n");
    assert_ne!(says("echo 1 > /proc/meminfo; echo $?"), "0\n");
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        assert_eq!(says("grep -c ^processor /proc/cpuinfo; grep -c ^cpu[0-9] /proc/stat; nproc"), "1\n1\n1\n");
        assert_eq!(says("cat /sys/devices/system/cpu/online; getconf _NPROCESSORS_ONLN"), "0\n1\n");
        assert_eq!(says("python3 -c 'import os; print(os.cpu_count())'"), "1\n");
    }
    // `ps` still knows when a process began, and a box without limits sees the host.
    assert_eq!(says("ps -o lstart= -p $$ | grep -c \"$(date +%Y)\""), "1\n");
    server.agent_type("open", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let open = server.session(json!({"agent_type": "open"}));
    assert_eq!(
        tool(&server, &open, "bash", json!({"command": "ls /sys 2>/dev/null; free -k | wc -l"}))["exit_code"],
        0
    );
}

/// Prints the processors that Python and Node count.
const PROCESSORS: &str = r#"
python3 -c 'import os; print(len(os.sched_getaffinity(0)), len(os.sched_getaffinity(1)))'
python3 -c 'import os; os.sched_setaffinity(0, {1}); print(os.sched_getaffinity(0))'
"$NODE" -p 'os.availableParallelism() + " " + os.cpus().length'
"#;

#[track_caller]
fn counts_one_processor(server: &TestServer, session: &Value, node: &str) {
    assert!(
        std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
        "this test needs more than one processor"
    );
    let counted = json!({"command": PROCESSORS, "env": {"NODE": node, "LD_LIBRARY_PATH": "/workspace"}});
    let counted = tool(server, session, "bash", counted);
    assert_eq!(counted["stdout"], "1 1\n{1}\n1 1\n", "{counted}");
    // Many threads ask at once, and the box goes on to answer its server.
    let many = "import os, threading\n\
                def ask():\n  for _ in range(200): assert len(os.sched_getaffinity(0)) == 1\n\
                threads = [threading.Thread(target=ask) for _ in range(8)]\n\
                [thread.start() for thread in threads]; [thread.join() for thread in threads]; print('done')";
    let asked = tool(server, session, "python", json!({"code": many}));
    assert_eq!(asked["stdout"], "done\n", "{asked}");
}

#[test]
fn x4_node_counts_the_processors_of_its_box() {
    let server = with_boxes();
    let session = box_session(&server, json!({"resource_limits": {"cpu": "1"}}));
    counts_one_processor(&server, &session, "node");
    let counted = json!({"command": "env -u OMP_NUM_THREADS nproc"});
    assert_eq!(tool(&server, &session, "bash", counted)["stdout"], "1\n");
    // The scheduler may still use every processor.
    let status = tool(&server, &session, "bash", json!({"command": "grep Cpus_allowed_list /proc/self/status"}));
    assert_ne!(status["stdout"], "Cpus_allowed_list:\t0\n", "{status}");
}

#[test]
fn x4_node_counts_the_processors_of_its_box_without_root() {
    let ordinary = ordinary_user::server();
    let session = box_session(&ordinary.server, json!({"resource_limits": {"cpu": "1"}}));
    counts_one_processor(&ordinary.server, &session, "node");
}

#[test]
fn x4_node_counts_the_processors_of_its_container() {
    let files = Files::Container;
    let server = files.server();
    server.agent_type("one", json!({"enabled": true, "provider": files.provider(), "resource_limits": {"cpu": "1"}}));
    let session = server.session(json!({"agent_type": "one"}));
    // The image has no Node: use the host's, with the libraries that it needs.
    let linked = std::process::Command::new("ldd").arg("/usr/bin/node").output().unwrap();
    let linked = String::from_utf8(linked.stdout).unwrap();
    let libraries = linked.lines().filter_map(|line| line.split_once("=> ")?.1.split(' ').next());
    for library in libraries.filter(|path| !path.ends_with("/libc.so.6")) {
        let name = library.rsplit('/').next().unwrap();
        put(&server, &session, name, &std::fs::read(library).unwrap());
    }
    put(&server, &session, "node", &std::fs::read("/usr/bin/node").unwrap());
    tool(&server, &session, "bash", json!({"command": "chmod +x node"}));
    counts_one_processor(&server, &session, "/workspace/node");
}
