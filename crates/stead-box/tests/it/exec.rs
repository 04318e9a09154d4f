//! Commands in a box.

use std::time::{Duration, Instant};

use stead_box::protocol::{GuestErrorKind, Input, TerminalSize};
use stead_box::{BoxError, Finished};

use crate::home::{Home, Running, text};

pub(crate) fn commands_run_as_ordered(home: &Home) {
    let mut spec = home.spec();
    spec.env.insert("OF_THE_BOX".to_owned(), "box".to_owned());
    let sandbox = home.start_with(&spec);
    assert_eq!(sandbox.says("echo hello; pwd; id -u; id -un"), "hello\n/workspace\n1000\nagent\n");
    let finished = sandbox.bash("echo out; echo err >&2; exit 7");
    let Finished { result, stdout, stderr } = &finished;
    assert_eq!((text(stdout).as_str(), text(stderr).as_str(), result.exit_code), ("out\n", "err\n", 7));
    assert_eq!(sandbox.bash("kill -TERM $$").result.signal, Some(15));
    assert_eq!(sandbox.bash("kill -TERM $$").result.exit_code, 143);

    let mut order = sandbox.order("cat; echo $OF_THE_BOX $OF_THE_ORDER; pwd");
    (order.input, order.cwd) = (Input::Bytes, "/tmp".to_owned());
    order.env.insert("OF_THE_ORDER".to_owned(), "order".to_owned());
    let input = "x".repeat(1 << 20) + "\n";
    order.output.kept_bytes = 3 << 20;
    let finished = sandbox.run(order, input.as_bytes());
    assert_eq!(text(&finished.stdout), format!("{input}box order\n/tmp\n"));

    sandbox.says("echo kept > /workspace/a; mkdir -p ~/b /tmp/c /dev/shm/d");
    assert_eq!(
        sandbox.says("cat /workspace/a; ls ~ /tmp /dev/shm"),
        "kept\n/dev/shm:\nd\n\n/home/agent:\nb\n\n/tmp:\nc\n"
    );
    assert_eq!(sandbox.says("python3 -c 'print(6 * 7)'; seq 3 | awk '{s += $1} END {print s}'"), "42\n6\n");

    let mut order = sandbox.order("tty; stty size; echo -n done");
    order.terminal = Some(TerminalSize { rows: 33, columns: 77 });
    assert_eq!(text(&sandbox.run(order, &[]).stdout), "/dev/pts/0\r\n33 77\r\ndone");
}

pub(crate) fn what_cannot_start_says_why(home: &Home) {
    let sandbox = home.start();
    let code = |change: &dyn Fn(&mut stead_box::protocol::ExecOrder)| {
        let mut order = sandbox.order("true");
        change(&mut order);
        match sandbox.connect().start(order, &[]) {
            Err(BoxError::Guest(refusal)) => refusal.kind,
            other => panic!("{other:?}"),
        }
    };
    for (program, code) in [("no-such-program", 127), ("/etc", 126)] {
        let mut order = sandbox.order("true");
        order.argv = vec![program.to_owned()];
        let Finished { result, stderr, .. } = sandbox.run(order, &[]);
        assert_eq!(result.exit_code, code, "{}", text(&stderr));
        assert!(text(&stderr).contains(program));
    }
    assert_eq!(code(&|order| order.argv = Vec::new()), GuestErrorKind::CannotExecute);
    for cwd in ["/nowhere", "relative", "/proc/self/fd/3", "/proc/1/root", "/proc/self/cwd/..", "/proc/self/root"] {
        assert_eq!(code(&|order| order.cwd = cwd.to_owned()), GuestErrorKind::InvalidCwd, "{cwd}");
    }
    // The box still works.
    assert_eq!(sandbox.says("echo fine"), "fine\n");
}

pub(crate) fn the_result_comes_with_the_exit_not_with_the_pipes(home: &Home) {
    let sandbox = home.start();
    let began = Instant::now();
    let finished = sandbox.bash("echo now; sleep 300 & disown; (setsid sleep 300 &)");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!((text(&finished.stdout).as_str(), finished.result.exit_code), ("now\n", 0));
    // They were left running on purpose; the end of the box or a kill of the exec ends them.
    let both =
        "for i in $(seq 600); do [ $(pgrep -fc '^sleep 300') = 2 ] && break; sleep 0.05; done; pgrep -fc '^sleep 300'";
    assert_eq!(sandbox.says(both), "2\n");
    // A background process that writes to the finished command's output is not killed either.
    sandbox.says("(while :; do echo line; echo line >&2; sleep 0.01; done) & echo $! > pid");
    std::thread::sleep(Duration::from_millis(200));
    sandbox.says("kill -0 $(cat pid)");
}

/// Process trees that try to survive in different ways.
const NASTY: &[&str] = &[
    "sleep 300",
    "trap '' TERM INT HUP; sleep 300; sleep 300",
    "(setsid sleep 300 &); sleep 300",
    "(setsid bash -c '(setsid sleep 300 &) ; sleep 300' &); sleep 300",
    "sleep 300 & kill -STOP $!; kill -STOP $$",
    "for i in 1 2 3 4 5 6 7 8; do (setsid sleep 300 < /dev/null > /dev/null 2>&1 &); done; sleep 300",
    "python3 -c 'import os,time\nfor _ in range(5):\n  if os.fork(): os._exit(0) if os.getpid() % 2 else time.sleep(300)\n  os.setsid() if os.getpid() % 3 else None\ntime.sleep(300)'; sleep 300",
    "f() { while :; do (sleep 300 &); sleep 0.01; done; }; f & f & wait",
    "(setsid sleep 300 &); kill -STOP $PPID; sleep 300",
    "yes & yes >&2 & (setsid yes &); sleep 300",
    "exec 3< <(sleep 300); (trap '' HUP; setsid sleep 300 <&3 &); cat <&3",
];

/// Usual programs work with the seccomp filter and without capabilities.
pub(crate) fn usual_programs_work(home: &Home) {
    let sandbox = home.start();
    sandbox.says("git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --oneline");
    sandbox.says("printf 'int main(){return 7;}' > a.c && gcc a.c -o a; ./a; test $? = 7");
    sandbox.says("python3 -c 'import threading, socket, subprocess, multiprocessing as m; p = m.Process(target=print); p.start(); p.join()'");
    sandbox.says("perl -e 'print 1' && tar cf - /etc/passwd 2>/dev/null | tar tf - && seq 9 | xargs -P 4 -n 1 echo | sort | tail -1");
    let server = "python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & for i in $(seq 100); do \
                  python3 -c 'import urllib.request as u; print(len(u.urlopen(\"http://127.0.0.1:8123/\").read()) > 0)' 2> /dev/null && break; sleep 0.05; done";
    assert_eq!(sandbox.says(server), "True\n");
    sandbox.says("test -w /workspace && ! touch /usr/x 2> /dev/null && ! ls /root 2> /dev/null && cat /proc/meminfo > /dev/null && nproc");
}

pub(crate) fn a_timeout_leaves_nobody(home: &Home) {
    let trees: usize = std::env::var("STEAD_TEST_TREES").ok().and_then(|count| count.parse().ok()).unwrap_or(120);
    let sandbox = home.start();
    assert_eq!(alone(&sandbox), 1);
    for number in 0..trees {
        let command = NASTY[number % NASTY.len()];
        let timeout = 20 + (number as u64 * 37) % 180;
        let mut order = sandbox.order(command);
        order.timeout_ms = Some(timeout);
        let began = Instant::now();
        let result = sandbox.run(order, &[]).result;
        let took = began.elapsed();
        assert!(result.timed_out && result.exit_code == 124 && result.survivors == 0, "{command}: {result:?}");
        assert!(took < Duration::from_millis(timeout + 1_000), "{command}: {took:?} of {timeout} ms");
        assert_eq!(alone(&sandbox), 1, "{command}");
    }
}

/// Number of processes in the box without the supervisors and the counting shell: 1 if only process
/// 1 is left.
fn alone(sandbox: &Running<'_>) -> usize {
    // /proc lists process 1 and this shell; a glob does not fork.
    sandbox.says("set -- /proc/[0-9]*; echo $#").trim().parse::<usize>().unwrap() - 1 - supervisors(sandbox)
}

/// Without a cgroup each exec has a supervisor, including this one.
fn supervisors(sandbox: &Running<'_>) -> usize {
    let parent: usize = sandbox.says("echo $PPID").trim().parse().unwrap();
    usize::from(parent != 1)
}
