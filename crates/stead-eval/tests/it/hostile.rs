//! Hostile code: the limits on time and memory stop each snippet, its worker ends, and the next
//! evaluation works.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stead_eval::{EvalError, EvalParams, Evaluator, NoFiles};

use crate::evaluator;

/// Time for one evaluation on a busy machine. The worker's own limit is 5 seconds.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Snippets that must raise an error, time out or run out of memory.
const BOMBS: &[&str] = &[
    "while True: pass",
    "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass",
    "def f():\n    try:\n        while True: pass\n    finally:\n        f()\nf()",
    "for i in range(10**18): pass",
    "sum(range(10**12))",
    "max(range(10**11))",
    "list(range(10**11))",
    "sorted(range(10**9))",
    "10**10**8",
    "10**10**10",
    "n = 3\nwhile True: n *= n",
    "n = 2\nwhile True: n = n ** n",
    "1 << 10**10",
    "x = 1\nwhile True: x <<= 1000000",
    "[0] * 10**10",
    "'a' * 10**10",
    "b'a' * 10**10",
    "(0,) * 10**10",
    "x = [0]\nwhile True: x += x",
    "x = 'a'\nwhile True: x += x",
    "x = []\nwhile True: x.append('x' * 1000000)",
    "d = {}\ni = 0\nwhile True:\n    d[i] = [0] * 1000\n    i += 1",
    "s = set()\ni = 0\nwhile True:\n    s.add((i, str(i)))\n    i += 1",
    "def f(): return f()\nf()",
    "def f(n): return [f(n + 1)]\nf(0)",
    "f = lambda x: x(x)\nf(f)",
    "class A:\n    def __repr__(self): return repr(self)\nA()",
    "class A:\n    def __eq__(self, o): return self == o\nA() == A()",
    "class A:\n    def __add__(self, o): return self + o\nA() + 1",
    "x = ()\nfor i in range(1000000): x = (x,)\nx == x[0]",
    "('a ' * 10**7).split()",
    "list('a' * 10**8)",
    "list(zip(range(10**9), range(10**9)))",
    "list(map(str, range(10**9)))",
    "list(enumerate(range(10**9)))",
    "[x for x in range(10**9)]",
    "{x: x for x in range(10**9)}",
    "'%1000000000d' % 1",
    "'%.1000000000f' % 1.5",
    "f'{1:1000000000}'",
    "f'{1.5:.1000000000f}'",
    "'{:1000000000}'.format('a')",
    "'a'.ljust(10**10)",
    "'a'.center(10**10)",
    "'a'.zfill(10**10)",
    "','.join(['a' * 10**6] * 10**5)",
    "('a' * 10**7).replace('a', 'b' * 1000)",
    "'\\t'.expandtabs(10**10)",
    "math.factorial(10**7)",
    "math.comb(10**7, 5 * 10**6)",
    "math.perm(10**6)",
    "math.prod(range(1, 10**7))",
    "pow(3, 10**9)",
    "str(3 ** 10**7)",
    "int('9' * 10**7)",
    "statistics.mean(range(10**10))",
    "statistics.stdev([2.0 ** 1000, 2.0 ** -1000] * 10**6)",
    "statistics.quantiles([1, 2], n=10**9)",
    "statistics.NormalDist().samples(10**9)",
    "bytes(10**11)",
    "x = list(range(1000))\nwhile True: x = sorted(x + x)",
    "x = [1]\nfor i in x: x.append(i)",
    "i = 0\nwhile True:\n    i += 1\n    print('x' * 1000000)",
    "vfs_reads.update({i: 'x' * 1000 for i in range(10**9)})",
    "while True:\n    try:\n        read_text('x')\n    except Exception:\n        pass",
    "while True:\n    try:\n        write_text('x', 'y' * 1000000)\n    except Exception:\n        pass",
    "def f(*a): return f(*a, *a)\nf(1, 2)",
    "list(range(10**18))",
    "factorial(10**9)",
    "factorial(10**6)",
    "fsum(range(10**12))",
    "fsum([0.1] * 10**9)",
    "hypot(*range(10**9))",
    "ldexp(1.0, 10**18)",
    "log(10**10**8)",
    "exp(10**10)",
    "e = 2\nwhile True: e **= e",
    "ValueError(*range(10**9))",
    "ValueError('x' * 10**10)",
    "i = 0\nwhile True:\n    i += 1\n    ValueError(i, 'x' * 1000)",
    "def f():\n    raise ValueError(f(), 1)\nf()",
    "x = [0] * 10**6\nwhile True:\n    x += x\n    del x[::2]\n    x += x",
    "x = 1\ndef f(n):\n    x = f(n + 1)\n    del x\nf(0)",
    "(lambda f: f(f))(lambda f: [f(f), f(f)])",
    "'a'.join(str(n) for n in range(10**9))",
    "('ab' * 10**7).count('ba' * 10**6 + 'x') or [0] * 10**10",
    "x = 'a' * 10**6\nx.count('') and [x + str(i) for i in range(10**6)]",
];

/// Deeply nested code, which may fail but must not break anything.
fn deep() -> Vec<String> {
    let nested = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    vec![
        nested("(", ")", 999),
        nested("[", "]", 999),
        nested("{1:", "}", 490),
        nested("-", "", 1990),
        nested("not ", "", 490),
        nested("lambda:", "", 280),
        nested("f(", ")", 650),
        format!("x{}", ".a".repeat(990)),
        format!("x{}", "[0]".repeat(660)),
        format!("1{}", "+1".repeat(990)),
        format!("1{}", "**1".repeat(660)),
        format!("1{}", " if 1 else 1".repeat(150)),
        format!("{}1", "a=".repeat(990)),
        "(".repeat(2000),
        "f'{".repeat(600),
        (0..50).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect::<String>() + &" ".repeat(50) + "1",
        "x = []\nfor i in range(100000): x = [x]\nrepr(x)".to_owned(),
        "x = {}\nfor i in range(100000): x = {'a': x}\nstr(x)".to_owned(),
    ]
}

fn run(evaluator: &Evaluator, code: &str) -> (String, Duration) {
    let started = Instant::now();
    let outcome = match evaluator.evaluate(&EvalParams::code(code), &mut NoFiles) {
        Ok(evaluation) if evaluation.succeeded() => format!("SUCCEEDED: {:?}", evaluation.result.value_repr),
        Ok(evaluation) => {
            assert!(
                evaluation.result.stdout.chars().count() <= 4_096 && evaluation.result.stderr.chars().count() <= 4_096
            );
            format!("{:?}", evaluation.ending)
        }
        // The worker ended without a report. The tests count this as a failure.
        Err(EvalError::Worker { reason }) => format!("WORKER: {reason}"),
        Err(error) => panic!("{code}: {error}"),
    };
    (outcome, started.elapsed())
}

fn in_parallel(codes: Vec<String>) -> Vec<(String, String, Duration)> {
    let queue = Mutex::new(VecDeque::from(codes));
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // One evaluator per thread, so that threads do not wait for each other.
                let evaluator = evaluator();
                loop {
                    let Some(code) = queue.lock().unwrap().pop_front() else { return };
                    let (outcome, took) = run(&evaluator, &code);
                    found.lock().unwrap().push((code, outcome, took));
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn bombs_are_contained() {
    assert!(BOMBS.len() >= 60, "only {} bombs", BOMBS.len());
    let mut loose = Vec::new();
    for (code, outcome, took) in in_parallel(BOMBS.iter().map(ToString::to_string).collect()) {
        let contained = matches!(outcome.as_str(), "Raised" | "TimedOut" | "OutOfMemory");
        if !contained || took > MOST_TIME {
            loose.push(format!("{code}: {outcome} after {took:?}"));
        }
    }
    assert!(loose.is_empty(), "{}", loose.join("\n"));
    assert_eq!(run(&evaluator(), "1 + 1").0, "SUCCEEDED: Some(\"2\")");
    assert_eq!(workers_of_this_process(), 0, "workers are left");
}

#[test]
fn deep_code_breaks_nothing() {
    for (code, outcome, took) in in_parallel(deep()) {
        assert!(!outcome.starts_with("WORKER"), "{code}: {outcome}");
        assert!(took < MOST_TIME, "{code}: took {took:?}");
    }
}

/// Reads an idle worker's limits from the kernel: they apply before the worker receives code.
#[test]
fn a_worker_is_confined_before_it_is_used() {
    let evaluator = evaluator();
    run(&evaluator, "1");
    let deadline = Instant::now() + Duration::from_secs(10);
    let worker = loop {
        if let Some(worker) = workers().into_iter().find(|worker| confined(worker)) {
            break worker;
        }
        assert!(Instant::now() < deadline, "no worker is confined");
        std::thread::sleep(Duration::from_millis(5));
    };
    let limits = std::fs::read_to_string(worker.join("limits")).unwrap_or_default();
    for (name, most) in
        [("Max address space", 256 << 20), ("Max cpu time", 6), ("Max open files", 3), ("Max file size", 0)]
    {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let soft = line[name.len()..].split_whitespace().next().unwrap_or_default();
        assert_eq!(soft, most.to_string(), "{name}");
    }
    assert_eq!(std::fs::read(worker.join("environ")).unwrap_or_default(), b"");
    drop(evaluator);
}

/// Workers are forked from one process, but do not share state.
#[test]
fn nothing_is_left_for_the_next() {
    let evaluator = evaluator();
    let value = |code: &str| {
        let evaluation = evaluator.evaluate(&EvalParams::code(code), &mut NoFiles).unwrap();
        evaluation.result.value_repr.unwrap_or(evaluation.result.stderr)
    };
    for _ in 0..10 {
        assert!(value("kept").contains("NameError"), "a variable was kept");
        assert_eq!(value("kept = [1]; len = 7; sum = None; mean = 3; len"), "7");
        assert_eq!(value("len([1, 2]) + sum([3, 4])"), "9");
        assert_eq!(value("statistics.mean([1, 2, 3])"), "2");
    }
}

fn confined(process: &std::path::Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1")
}

/// The /proc directories of the workers below this process.
fn workers() -> Vec<std::path::PathBuf> {
    let ours = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|process| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        stat.contains("(stead-eval-work") && parent == Some(&ours)
    })
    .collect()
}

/// Number of workers that remain below this process after the evaluators were dropped.
fn workers_of_this_process() -> usize {
    // Other tests of this process evaluate at the same time, so wait until their workers are gone.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !workers().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    workers().len()
}
