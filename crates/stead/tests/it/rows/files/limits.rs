//! F1, F3, X1, X5: presets of limits, and the output budget of every tool.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use super::tools::{fails, works};
use crate::rows::{Files, on_all, put, writer};

/// The default budget of an answer.
const OUTPUT_BYTES: usize = 65_536;

fn session_with(server: &TestServer, files: Files, limits: Value) -> Value {
    server.agent_type("limited", json!({"enabled": true, "provider": files.provider(), "limits": limits}));
    server.session(json!({"agent_type": "limited"}))
}

/// Calls a tool, follows `next` until the answer is complete, and returns the results.
#[track_caller]
fn pages(server: &TestServer, session: &Value, tool: &str, mut arguments: Value) -> Vec<Value> {
    let mut pages = Vec::new();
    loop {
        let answer = server.tool(session, tool, arguments.clone());
        assert_eq!(answer["ok"], true, "{answer}");
        let page = answer["result"].clone();
        let size = page.to_string().len();
        assert!(size <= OUTPUT_BYTES, "{tool} answered with {size} bytes");
        let next = page["next"]["offset"].clone();
        pages.push(page);
        if next.is_null() {
            return pages;
        }
        let message = answer["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("call {tool} again with offset {next}.")), "{message}");
        arguments["offset"] = next;
    }
}

fn joined(pages: &[Value], field: &str) -> usize {
    pages.iter().map(|page| page[field].as_array().unwrap().len()).sum()
}

/// Unpacks a tar archive with these files.
fn unpack(server: &TestServer, session: &Value, names: impl Iterator<Item = String>) {
    let mut tar = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_ustar();
        header.set_size(1);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, b"x".as_slice()).unwrap();
    }
    let path = format!("/sessions/{}/files/many?format=tar", session["id"].as_str().unwrap());
    let headers = [("content-type", "application/x-tar")];
    let reply = server.client().bytes("PUT", &path, &headers, &tar.into_inner().unwrap()).reply();
    assert!([200, 201].contains(&reply.status), "{}", reply.text);
}

fn f1_open_takes_the_names_of_real_repositories(files: Files) {
    let server = files.server();
    let session = session_with(&server, files, json!({"preset": "open"}));
    let limits = &session["workspace"]["limits"];
    let expected = json!({"preset": "open", "write_bytes": 1_048_576, "path_depth": 64, "segment_bytes": 255,
                          "command_bytes": 131_071, "output_bytes": 65_536});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&limits[name], value, "{limits}");
    }
    let plan = server.client().post("/sessions:plan", json!({"agent_type": "limited"})).expect(200);
    assert_eq!(plan["workspace"]["limits"]["preset"], "open");
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    works(&server, &session, "write", write("caf\u{e9}.txt", "\u{2713}"));
    assert_eq!(works(&server, &session, "read", json!({"path": "caf\u{e9}.txt"}))["content"], "\u{2713}");
    works(&server, &session, "write", write(&vec!["d"; 64].join("/"), "x"));
    works(&server, &session, "write", write(&"s".repeat(255), &"x".repeat(1_048_576)));
    for (path, content, text) in [
        (vec!["e"; 65].join("/"), "x".to_owned(), "Path depth exceeds the allowed limit (64 segments)."),
        ("\u{e9}".repeat(128), "x".to_owned(), "Path segments must be 255 bytes or fewer."),
        ("\\xff".to_owned(), "x".to_owned(), "Path segment must be UTF-8 text."),
        ("a\u{0}b".to_owned(), "x".to_owned(), "Path segments may not include control characters."),
        ("big".to_owned(), "x".repeat(1_048_577), "Content exceeds maximum length of 1,048,576 bytes."),
    ] {
        assert_eq!(fails(&server, &session, "write", write(&path, &content)).1, text);
    }
    if files != Files::Memory {
        let ran = works(&server, &session, "bash", json!({"command": "echo \u{2713}; ls caf*"}));
        assert_eq!(ran["stdout"], "\u{2713}\ncaf\u{e9}.txt\n");
    }
}

fn f1_wink_is_the_contract_and_the_default_of_memory(files: Files) {
    let server = files.server();
    let preset = |session: &Value| session["workspace"]["limits"]["preset"].clone();
    let default = if files == Files::Memory { "wink" } else { "open" };
    assert_eq!(preset(&writer(&server, files)), default);
    let session = session_with(&server, files, json!({"preset": "wink", "path_depth": 2}));
    assert_eq!(preset(&session), "wink");
    assert_eq!(session["workspace"]["limits"]["write_bytes"], 48_000);
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    works(&server, &session, "write", write("a/b", &"\u{e9}".repeat(48_000)));
    for (path, content, text) in [
        ("caf\u{e9}", "x".to_owned(), "Path segment must be ASCII text."),
        (&"s".repeat(81), "x".to_owned(), "Path segments must be 80 characters or fewer."),
        ("a/c/d", "x".to_owned(), "Path depth exceeds the allowed limit (2 segments)."),
        ("e", "x".repeat(48_001), "Content exceeds maximum length of 48,000 characters."),
    ] {
        assert_eq!(fails(&server, &session, "write", write(path, &content)).1, text);
    }
    if files != Files::Memory {
        let (_, message) = fails(&server, &session, "bash", json!({"command": "echo \u{2713}"}));
        assert_eq!(message, "command must be ASCII; write other text to a file first.");
        let limits = &session["workspace"]["limits"];
        assert_eq!((&limits["cpu"], &limits["memory"]), (&json!("1"), &json!("1G")));
    }
}

fn f3_answers_stay_within_the_budget(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let text: String = (0..2_000).map(|line| format!("{line:04}{}\n", "x".repeat(596))).collect();
    put(&server, &session, "wide", text.as_bytes());
    let read = pages(&server, &session, "read", json!({"path": "wide"}));
    let content: String = read.iter().map(|page| page["content"].as_str().unwrap()).collect();
    assert!(content == text && read.iter().all(|page| page["total_lines"] == 2_000));
    let found = pages(&server, &session, "grep", json!({"pattern": "^0[0-4]"}));
    assert_eq!(joined(&found, "matches"), 500);

    unpack(&server, &session, (0..20_000).map(|number| format!("{number:05}")));
    let listed = server.tool(&session, "ls", json!({"path": "many"}));
    assert_eq!((&listed["result"]["total"], &listed["result"]["truncated"]), (&json!(20_000), &json!(true)));
    let last = pages(&server, &session, "ls", json!({"path": "many", "offset": 18_500}));
    assert!(last.len() > 1 && joined(&last, "entries") == 1_500);
    let globbed = pages(&server, &session, "glob", json!({"pattern": "many/01*"}));
    assert_eq!(joined(&globbed, "paths"), 1_000);

    let line = format!("short\n{}\nlast\n", "\u{e9}".repeat(100_000));
    put(&server, &session, "line", line.as_bytes());
    let answer = server.tool(&session, "read", json!({"path": "line", "offset": 1}));
    let page = &answer["result"];
    let shown = page["content"].as_str().unwrap().len();
    assert!(shown > 60_000 && page.to_string().len() <= OUTPUT_BYTES);
    assert_eq!((&page["truncated"], &page["lines"], &page["total_lines"]), (&json!(true), &json!(1), &json!(3)));
    assert_eq!(page["next"], json!({"byte_offset": 6 + shown}));
    let message = answer["message"].as_str().unwrap();
    let rest =
        format!("Line 2 is cut: {shown} of its 200001 bytes are shown. Its rest is at bytes {} to 200007", 6 + shown);
    assert!(message.contains(&rest), "{message}");
}

fn x1_streams_share_the_budget(files: Files) {
    if files == Files::Memory {
        return;
    }
    let server = files.server();
    let session = session_with(&server, files, json!({"output_bytes": 8_192}));
    let command = "seq 1 5000; seq 1 5000 >&2; head -c 3000 /dev/zero | tr '\\0' '\\377'";
    let answer = server.tool(&session, "bash", json!({"command": command}));
    let result = &answer["result"];
    assert_eq!((&result["stdout_total"], &result["truncated"]), (&json!(26_893), &json!(true)), "{answer}");
    for stream in ["stdout", "stderr"] {
        let text = result[stream].as_str().unwrap();
        assert!(text.len() <= 4_096 + 60 && text.starts_with("1\n2\n"), "{} bytes", text.len());
    }
    let stderr: Vec<&str> = result["stderr"].as_str().unwrap().lines().collect();
    let marker = stderr.iter().position(|line| line.starts_with("[\u{2026} ")).unwrap();
    let number = |line: &str| line.parse::<u64>().unwrap();
    assert_eq!((number(stderr[marker - 1]), stderr.last()), (marker as u64, Some(&"5000")), "whole lines");
    assert!(answer["message"].as_str().unwrap().contains("then read out.txt"), "{}", answer["message"]);
    for timeout in [json!(0), json!(121), json!(1.5), json!("5")] {
        let (code, message) = fails(&server, &session, "bash", json!({"command": "true", "timeout": timeout}));
        assert_eq!(code, "invalid_argument");
        assert_eq!(message, "timeout must be a whole number of seconds from 1 to 120.");
    }
}

fn x1_an_answer_full_of_escapes_stays_within_the_budget(files: Files) {
    if files == Files::Memory {
        return;
    }
    let server = files.server();
    let session = writer(&server, files);
    let call = |tool: &str, arguments: Value| {
        let path = format!("/sessions/{}/tools/{tool}", session["id"].as_str().unwrap());
        let reply = server.client().post(&path, arguments);
        let answer = reply.expect(200);
        assert_eq!(answer["ok"], true, "{answer}");
        assert!(reply.text.len() <= OUTPUT_BYTES, "{tool} answered with {} bytes", reply.text.len());
        answer["result"].clone()
    };
    let size = |result: &Value| result["stdout"].to_string().len() + result["stderr"].to_string().len();
    for byte in [r"\001", r"\033", "\"", r"\n", "x", r"\377"] {
        let large = format!("head -c 40000 /dev/zero | tr '\\0' '{byte}'");
        for command in [large.clone(), format!("{large} >&2"), format!("{large}; {large} >&2")] {
            for tool in ["bash", "shell"] {
                let result = call(tool, json!({"command": command}));
                assert_eq!(result["truncated"], true, "{command}");
                assert!(size(&result) > 30_000, "{tool} {command}: {} bytes", size(&result));
            }
        }
        let begun = call("bash", json!({"command": large, "background": true}));
        let (mut after, mut bytes, mut more) = (0, 0, true);
        while more || bytes == 0 {
            let page = call("bash_output", json!({"id": begun["id"], "after": after}));
            let data = |chunk: &Value| chunk["data"].as_str().unwrap().chars().count();
            bytes += page["chunks"].as_array().unwrap().iter().map(data).sum::<usize>();
            after = page["after"].as_u64().unwrap();
            more = page["more"] == true || page["status"] == "running";
        }
        assert_eq!(bytes, 40_000, "no chunk is cut: {byte}");
    }
    // Half of the answer is whole, if it needs few escapes.
    let whole = call("bash", json!({"command": "head -c 32768 /dev/zero | tr '\\0' x"}));
    assert_eq!((&whole["truncated"], whole["stdout"].as_str().unwrap().len()), (&json!(false), 32_768));
    // The echo of a command counts, too.
    let long = format!("head -c 40000 /dev/zero | tr '\\0' '\\001' # {}", "\u{1}".repeat(3_000));
    call("bash", json!({"command": long}));
}

fn f3_the_answer_names_the_call_for_the_files_that_do_not_fit(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    unpack(&server, &session, (0..100).map(|number| format!("{number:03}-{}", "n".repeat(70))));
    for number in 0..100 {
        let path = format!("many/{number:03}-{}", "n".repeat(70));
        put(&server, &session, &path, "line\n".repeat(300).as_bytes());
    }
    let paths: Vec<String> = (0..100).map(|number| format!("many/{number:03}-{}", "n".repeat(70))).collect();
    let mut arguments = json!({"paths": paths, "limit": 200});
    let (mut seen, mut calls) = (Vec::new(), 0);
    while !arguments.is_null() {
        let result = works(&server, &session, "read", arguments);
        assert!(result.to_string().len() <= OUTPUT_BYTES, "{} bytes", result.to_string().len());
        let files = result["files"].as_array().unwrap();
        assert!(!files.is_empty() && files.iter().all(|file| file["total_lines"] == 300), "{result}");
        seen.extend(files.iter().map(|file| file["path"].as_str().unwrap().to_owned()));
        arguments = result["next"].clone();
        assert!(arguments.is_null() || arguments["limit"] == 200, "{arguments}");
        calls += 1;
    }
    assert!(seen == paths && calls > 1, "{calls} calls, {} files", seen.len());
}

fn f3_the_wink_profile_takes_the_stricter_limits(files: Files) {
    let server = files.server();
    let session = session_with(&server, files, json!({"preset": "open", "write_bytes": 60_000}));
    let at = |path: &str| format!("/sessions/{}{path}", session["id"].as_str().unwrap());
    let run = json!({"provider": "anthropic", "model": "m", "tool_catalog": "wink"});
    let run = server.client().post(&at("/runs"), run).expect(201)["id"].as_str().unwrap().to_owned();
    let write = |path: &str, content: String| {
        let arguments = json!({"file_path": path, "content": content});
        let call = json!({"name": "write_file", "arguments": arguments});
        server.client().post(&at(&format!("/runs/{run}/tool-calls")), call).expect(200)
    };
    for (path, content, text) in [
        ("caf\u{e9}", "x".to_owned(), "Path segment must be ASCII text."),
        ("a", "x".repeat(48_001), "Content exceeds maximum length of 48,000 characters."),
        ("b", "\u{e9}".repeat(40_000), "Content exceeds maximum length of 60,000 bytes."),
    ] {
        let answer = write(path, content);
        assert_eq!(answer["error"]["message"], text, "{answer}");
    }
    works(&server, &session, "write", json!({"path": "caf\u{e9}", "content": "x".repeat(60_000)}));
}

on_all!(
    f1_open_takes_the_names_of_real_repositories,
    f1_wink_is_the_contract_and_the_default_of_memory,
    f3_answers_stay_within_the_budget,
    f3_the_wink_profile_takes_the_stricter_limits,
    f3_the_answer_names_the_call_for_the_files_that_do_not_fit,
    x1_an_answer_full_of_escapes_stays_within_the_budget,
    x1_streams_share_the_budget,
);
