//! Output across reconnects; input, signals, terminals and file tools.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use stead_box::protocol::{
    Answer, FileAsk, GuestErrorKind, IfMissing, IfThere, Input, NewContent, Stream, TerminalSize, ToolCall,
};
use stead_box::{BoxError, Connection, Followed, InputEnd, RunningBox};
use stead_fs::ContentHash;
use stead_fs::patch::Options;

use crate::home::{Home, Running, text};

/// Follows to the end and returns the chunk numbers and the bytes of stdout.
fn follow(connection: &mut Connection, exec: &str, from: u64) -> (Vec<u64>, Vec<u8>) {
    connection.follow(exec, from).unwrap();
    let (mut numbers, mut bytes) = (Vec::new(), Vec::new());
    loop {
        match connection.followed().unwrap() {
            Followed::Output { stream, number, bytes: chunk } => {
                numbers.push(number);
                assert_eq!(stream, Stream::Stdout);
                bytes.extend(chunk);
            }
            Followed::Finished(_) => return (numbers, bytes),
        }
    }
}

pub(crate) fn output_is_resumed_without_loss_or_repeat(home: &Home) {
    let sandbox = home.start();
    let order = sandbox.order("for i in $(seq 300); do echo line $i; sleep 0.005; done");
    let exec = order.exec.clone();
    sandbox.connect().start(order, &[]).unwrap();
    let expected: String = (1..=300).map(|number| format!("line {number}\n")).collect();
    // Connections are dropped in the middle; each new one knows only the box's directory.
    let (mut next, mut seen) = (0, Vec::new());
    for _ in 0..5 {
        let mut connection = RunningBox::find(sandbox.running.directory()).unwrap().connect().unwrap();
        connection.follow(&exec, next).unwrap();
        for _ in 0..20 {
            if let Followed::Output { number, bytes, .. } = connection.followed().unwrap() {
                assert_eq!(number, next);
                seen.extend(bytes);
                next = number + 1;
            }
        }
    }
    let (numbers, rest) = follow(&mut sandbox.connect(), &exec, next);
    assert!(numbers.iter().copied().eq(next..next + numbers.len() as u64));
    seen.extend(rest);
    assert_eq!(text(&seen), expected);
    // The output can be read again from the start after the end.
    assert_eq!(text(&follow(&mut sandbox.connect(), &exec, 0).1), expected);
    let finished = sandbox.connect().wait(&exec).unwrap();
    assert_eq!((finished.result.exit_code, text(&finished.stdout)), (0, expected));
}

pub(crate) fn what_is_no_longer_kept_shows_as_a_gap(home: &Home) {
    let sandbox = home.start();
    let mut order = sandbox.order("head -c 10000000 /dev/zero");
    order.output.ring_bytes = 200_000;
    let exec = order.exec.clone();
    let mut connection = sandbox.connect();
    connection.start(order, &[]).unwrap();
    let finished = connection.wait(&exec).unwrap();
    assert_eq!(finished.result.stdout.total, 10_000_000);
    let (numbers, bytes) = follow(&mut connection, &exec, 0);
    assert!(numbers[0] > 0 && bytes.len() <= 200_000, "{} {}", numbers[0], bytes.len());
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

pub(crate) fn a_slow_reader_stalls_nobody(home: &Home) {
    let sandbox = home.start();
    let order = sandbox.order("timeout 300 yes");
    let exec = order.exec.clone();
    let mut slow = sandbox.connect();
    slow.start(order, &[]).unwrap();
    slow.follow(&exec, 0).unwrap(); // and never reads
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(sandbox.says("echo quick"), "quick\n");
    }
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    let killed = sandbox.connect().kill(&exec).unwrap().result;
    assert!(killed.killed && killed.survivors == 0, "{killed:?}");
}

pub(crate) fn input_signals_and_terminals_reach_the_command(home: &Home) {
    let sandbox = home.start();
    let mut connection = sandbox.connect();
    let mut order =
        sandbox.order("trap 'echo got it; exit 3' USR1; read line; echo \"read $line\"; while :; do sleep 0.01; done");
    order.input = Input::Open;
    let exec = order.exec.clone();
    connection.start(order, &[]).unwrap();
    assert_eq!(connection.input(&exec, b"hello\n", InputEnd::More).unwrap(), 6);
    let mut watcher = sandbox.connect();
    watcher.follow(&exec, 0).unwrap();
    assert!(matches!(watcher.followed().unwrap(), Followed::Output { bytes, .. } if bytes == b"read hello\n"));
    let listed = connection.list().unwrap();
    assert!(listed.iter().any(|status| status.exec == exec && status.running && status.exit_code.is_none()));
    connection.signal(&exec, 10).unwrap();
    let finished = connection.wait(&exec).unwrap();
    assert_eq!((finished.result.exit_code, text(&finished.stdout).as_str()), (3, "read hello\ngot it\n"));
    assert!(
        matches!(connection.signal(&exec, 10), Err(BoxError::Guest(refusal)) if refusal.kind == GuestErrorKind::ExecFinished)
    );
    connection.forget(&exec).unwrap();
    assert!(
        matches!(connection.wait(&exec), Err(BoxError::Guest(refusal)) if refusal.kind == GuestErrorKind::NoSuchExec)
    );

    let mut order = sandbox.order("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done");
    order.terminal = Some(TerminalSize { rows: 24, columns: 80 });
    let exec = order.exec.clone();
    connection.start(order, &[]).unwrap();
    let mut watcher = sandbox.connect();
    watcher.follow(&exec, 0).unwrap();
    watcher.followed().unwrap();
    connection.resize(&exec, TerminalSize { rows: 50, columns: 132 }).unwrap();
    assert_eq!(text(&connection.wait(&exec).unwrap().stdout), "ready\r\n50 132\r\n");
}

fn call(sandbox: &Running<'_>, tool: &str, arguments: serde_json::Value) -> (Option<String>, String) {
    let limits = stead_fs::Limits::default();
    let call = ToolCall { tool: tool.to_owned(), arguments, limits, now_millis: 0, timeout_ms: 10_000 };
    let reply = sandbox.connect().tool(call).unwrap();
    assert_eq!(reply.result.is_some(), reply.code.is_none());
    (reply.code, reply.message)
}

pub(crate) fn file_tools_and_shell_see_one_tree(home: &Home) {
    let layer = home.path().join("layer");
    std::fs::create_dir(&layer).unwrap();
    std::fs::write(layer.join("below.txt"), "from a layer\n").unwrap();
    let mut spec = home.spec();
    spec.layers.push(stead_box::LayerSpec::Directory { path: layer.clone() });
    let sandbox = home.start_with(&spec);
    assert_eq!(call(&sandbox, "write", json!({"path": "d/a.txt", "content": "one\n"})).1, "Created d/a.txt (4 bytes).");
    assert_eq!(
        sandbox.says("cat d/a.txt below.txt; stat -c %U d/a.txt below.txt"),
        "one\nfrom a layer\nagent\nagent\n"
    );
    sandbox.says("echo two >> below.txt; ln -s /etc out; echo x > d/b.txt");
    assert_eq!(std::fs::read_to_string(layer.join("below.txt")).unwrap(), "from a layer\n");
    assert_eq!(call(&sandbox, "read", json!({"path": "below.txt"})).0, None);
    assert!(call(&sandbox, "read", json!({"path": "out/passwd"})).0.is_some());
    assert_eq!(call(&sandbox, "write", json!({"path": "d/a.txt", "content": "no"})).0.as_deref(), Some("exists"));
}

/// A host file with this content, positioned at its start.
fn lend(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

fn back(mut file: File) -> Vec<u8> {
    let mut content = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut content).unwrap();
    content
}

pub(crate) fn whole_files_go_in_and_out(home: &Home) {
    let sandbox = home.start();
    let ask = |ask: FileAsk, file: Option<&File>| sandbox.connect().files(ask, file);
    let kind = |result: Result<_, BoxError>| match result {
        Err(BoxError::Guest(refusal)) => refusal.kind,
        other => panic!("{other:?}"),
    };
    let put = |path: &str, existing| FileAsk::Put {
        path: path.to_owned(),
        if_match: None,
        existing,
        parents: IfMissing::Make,
    };
    let open = |path: &str| FileAsk::Open { path: path.to_owned(), most_bytes: 1 << 30 };

    let content: Vec<u8> = (0..20_000_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(
        ask(put("d/big.bin", IfThere::Replace), Some(&lend(&content))).unwrap().0,
        Answer::Placed { existed: false }
    );
    assert_eq!(sandbox.says("stat -c %s d/big.bin"), "20000000\n");
    let out = lend(b"");
    assert!(
        matches!(ask(open("d/big.bin"), Some(&out)).unwrap().0, Answer::Opened { stat, .. } if stat.size == 20_000_000)
    );
    assert!(back(out) == content);
    let current = Some(ContentHash::of(&content));
    assert_eq!(kind(ask(put("d/big.bin", IfThere::Refuse), Some(&lend(b"")))), GuestErrorKind::Present { current });
    sandbox.says("mkfifo pipe; ln -s /proc/self/environ link; truncate -s 100G hole");
    for path in ["pipe", "link", "missing", "../../etc/passwd"] {
        assert!(ask(open(path), Some(&lend(b""))).is_err(), "{path}");
    }
    // The number of bytes that the box may write into the server's file is limited.
    let small = FileAsk::Open { path: "d/big.bin".to_owned(), most_bytes: 1 << 20 };
    let out = lend(b"");
    assert_eq!(kind(ask(small, Some(&out))), GuestErrorKind::TooLarge { size: Some(20_000_000) });
    assert!(back(out).len() <= 1 << 20);

    // Exports a tree as a tar, changes, compares and restores it. Links are kept unchanged.
    sandbox.says("rm -rf *; mkdir -p a/empty; echo one > a/f; ln -s /usr/bin/env out; printf '#!/bin/sh\\necho ran\\n' > a/x; chmod +x a/x");
    let kept = lend(b"");
    ask(FileAsk::Export { path: String::new(), most_bytes: 1 << 30 }, Some(&kept)).unwrap();
    sandbox.says("echo two > a/f; rm out; touch new");
    let (answer, patch) = ask(FileAsk::Diff { options: Options::default() }, Some(&kept)).unwrap();
    assert_eq!(answer, Answer::Patch);
    assert!(text(&patch).contains("-one") && text(&patch).contains("+two"), "{}", text(&patch));
    ask(FileAsk::Restore, Some(&kept)).unwrap();
    assert_eq!(
        sandbox.says("cat a/f; readlink out; ls; ls a; a/x; ls -A /tmp"),
        "one\n/usr/bin/env\na\nout\nempty\nf\nx\nran\n"
    );
}

pub(crate) fn several_files_are_put_together_or_not_at_all(home: &Home) {
    let sandbox = home.start();
    let hash = |text: &str| Some(ContentHash::of(text.as_bytes()).to_string());
    let content = |path: &str, bytes, replaces| NewContent { path: path.to_owned(), bytes, replaces };
    let put = |files: Vec<NewContent>, bytes: &[u8]| {
        sandbox.connect().files(FileAsk::PutAll { files }, Some(&lend(bytes))).unwrap().0
    };
    let why = |answer| match answer {
        Answer::Unplaced { path, error } => (path, error.kind),
        other => panic!("{other:?}"),
    };
    sandbox.says("echo -n old > old; mkdir dir");
    let good = [content("new/er", 3, None), content("old", 4, hash("old"))];
    let stale = |current| GuestErrorKind::Stale { current };
    let old = Some(ContentHash::of(b"old"));
    for (bad, kind) in [
        (content("dir", 1, None), GuestErrorKind::IsDirectory),
        (content("old", 1, None), stale(old)),
        (content("old", 1, hash("other")), stale(old)),
        (content("gone", 1, hash("x")), stale(None)),
        (content("old/below", 1, None), GuestErrorKind::NotDirectory),
        (content("../out", 1, None), GuestErrorKind::InvalidArgument),
        (content("short", 9, None), GuestErrorKind::Io),
    ] {
        let path = bad.path.clone();
        let files = good.iter().cloned().chain([bad]).collect();
        assert_eq!(why(put(files, b"newnew!x")), (path, kind));
        assert_eq!(sandbox.says("cat old; ls -A"), "olddir\nold\n");
    }
    assert_eq!(put(good.to_vec(), b"newnew!"), Answer::Done);
    assert_eq!(sandbox.says("cat new/er old"), "newnew!");
}

/// Bytes that are not the protocol end that connection only.
pub(crate) fn nonsense_on_the_socket_harms_only_its_sender(home: &Home) {
    let sandbox = home.start();
    let path = sandbox.running.directory().join("control.sock");
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 64], &[2, 0, 0, 0, 2, 0, 0, 0, b'{', b'}'], &[0; 8]] {
        let mut socket = std::os::unix::net::UnixStream::connect(&path).unwrap();
        socket.write_all(nonsense).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(matches!(socket.read(&mut [0; 16]), Ok(0) | Err(_)));
    }
    assert_eq!(sandbox.says("echo alive"), "alive\n");
}
