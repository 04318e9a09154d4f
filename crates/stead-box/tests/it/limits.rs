//! Limits that are enforced, checked from inside the box and on the host.

use std::fs;
use std::time::{Duration, Instant};

use stead_box::{Held, Reserve, Volume};

use crate::home::{Home, is_root, text};

const NONE: Held =
    Held { cpu: false, memory: false, pids: false, disk: false, inodes: false, reserve: Reserve::Unneeded };

/// Limits that this user can enforce on this host: an ordinary user has no cgroups here.
fn expected() -> Held {
    if is_root() {
        Held { cpu: true, memory: true, pids: true, disk: true, inodes: false, reserve: Reserve::Complete }
    } else {
        Held { pids: true, ..NONE }
    }
}

pub(crate) fn what_holds_is_said_and_what_does_not_is_not(home: &Home) {
    let sandbox = home.start();
    assert_eq!(sandbox.running.held(), expected());
    let mut spec = home.spec();
    spec.limits = stead_box::Limits::default();
    let unlimited = home.start_with(&spec).running.held();
    assert_eq!(Held { reserve: Reserve::Unneeded, ..unlimited }, NONE);
    if !is_root() {
        return;
    }
    // The test reads the values itself instead of trusting the code under test.
    let read = |file: &str| {
        let groups = sandbox.running.record().unwrap().cgroups;
        let found = groups.iter().find_map(|group| fs::read_to_string(group.join(file)).ok());
        found.map(|text| text.trim().to_owned())
    };
    let first_of = |files: [&str; 2]| files.iter().find_map(|file| read(file)).unwrap();
    assert_eq!(first_of(["pids.max", "pids.max"]), "128");
    assert_eq!(first_of(["memory.limit_in_bytes", "memory.max"]), (256 << 20).to_string());
    assert_eq!(first_of(["cpu.cfs_quota_us", "cpu.max"]).split(' ').next(), Some("100000"));
}

pub(crate) fn a_fork_bomb_hits_the_limit_and_is_ended(home: &Home) {
    let sandbox = home.start();
    let mut order = sandbox.order("bomb() { bomb | bomb & }; bomb; sleep 60");
    order.timeout_ms = Some(1_500);
    let began = Instant::now();
    let result = sandbox.run(order, &[]).result;
    assert!(result.timed_out && result.survivors == 0, "{result:?}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    // The box can start as many processes as the limit allows, and has room again afterwards.
    let forks = "python3 -c 'import os, signal, time\nn = 0\ntry:\n  while n < 500:\n    if os.fork() == 0: time.sleep(30)\n    n += 1\nexcept BlockingIOError: print(n)\nsignal.signal(15, signal.SIG_IGN); os.killpg(0, 15)'";
    let many = sandbox.says(forks);
    let many: u32 = many.trim().parse().unwrap();
    assert!((100..128).contains(&many), "{many}");
}

pub(crate) fn memory_past_the_limit_is_said_to_be_that(home: &Home) {
    let sandbox = home.start();
    if !sandbox.running.held().memory {
        return; // Reported as unlimited above, so there is nothing to test.
    }
    let hog = "python3 -c 'x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1'";
    let result = sandbox.bash(hog).result;
    assert!(result.oom && result.exit_code == 137, "{result:?}");
    // Shared memory counts as memory.
    let result =
        sandbox.bash("dd if=/dev/zero of=/dev/shm/x bs=1M count=60; exec 3</dev/shm/x; rm /dev/shm/x; true").result;
    assert!(!result.oom, "{result:?}");
    assert!(!sandbox.bash("true").result.oom);
}

/// Locked memory, many small mappings and files in memory: each is refused or ends the process, and
/// the box still works.
pub(crate) fn no_kind_of_memory_goes_past_the_limit(home: &Home) {
    let sandbox = home.start();
    if !sandbox.running.held().memory {
        return; // Reported as unlimited above, so there is nothing to test.
    }
    let bombs = [
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mlockall(3)\nx = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1",
        "import mmap\nkept = []\nfor i in range(200_000):\n  m = mmap.mmap(-1, 4096); m[0] = 1; kept.append(m)",
        "import mmap\nfor i in range(40):\n  m = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_SHARED)\n  for at in range(0, 16 << 20, 4096): m[at] = 1\n  globals()[f'm{i}'] = m",
        "import os\nfor i in range(40):\n  f = os.memfd_create(str(i)); os.write(f, bytes(16 << 20))",
    ];
    for bomb in bombs {
        let result = sandbox.bash(&format!("python3 - <<'END'\n{bomb}\nEND")).result;
        assert!(result.exit_code != 0, "{bomb}: {result:?}");
        assert_eq!(sandbox.says("echo alive"), "alive\n");
    }
    let peak = sandbox.running.record().unwrap().cgroups.iter().find_map(|group| {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        read("memory.max_usage_in_bytes").or_else(|| read("memory.peak"))?.trim().parse::<u64>().ok()
    });
    assert!(peak.is_some_and(|peak| peak <= 256 << 20), "{peak:?}");
}

/// Empty files use inodes: without a configured limit the volume's own limit applies.
pub(crate) fn empty_files_run_out(home: &Home) {
    let mut spec = home.spec();
    spec.volume = if is_root() { Volume::Image } else { Volume::Memory };
    let sandbox = home.start_with(&spec);
    let fill = "import os\nos.mkdir('f')\nn = 0\ntry:\n  while n < 2_000_000:\n    os.close(os.open(f'f/{n}', os.O_CREAT | os.O_WRONLY)); n += 1\nexcept OSError as error: print(n, error.strerror)";
    let said = sandbox.says(&format!("python3 - <<'END'\n{fill}\nEND"));
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(sandbox.says("rm -rf f; echo again > g; cat g"), "again\n");
}

pub(crate) fn a_write_past_the_disk_limit_gets_enospc(home: &Home) {
    let mut spec = home.spec();
    spec.volume = if is_root() { Volume::Image } else { Volume::Memory };
    spec.limits.inodes = Some(2_000);
    let sandbox = home.start_with(&spec);
    assert!(sandbox.running.held().disk && sandbox.running.held().inodes);
    for place in ["/workspace", "/tmp", "/home/agent"] {
        let finished = sandbox.bash(&format!("cd {place} && head -c 200M /dev/zero > big; stat -c %s big; rm big"));
        assert!(text(&finished.stderr).contains("No space left on device"), "{place}: {}", text(&finished.stderr));
        let size: u64 = text(&finished.stdout).trim().parse().unwrap();
        assert!(size > 40 << 20 && size <= 64 << 20, "{place}: {size}");
    }
    let files = "mkdir f; for i in $(seq 5000); do : > f/$i || break; done 2>&1 | head -1; ls f | wc -l";
    let said = sandbox.says(files);
    assert!(said.contains("No space left on device"), "{said}");
    let count: u32 = said.lines().last().unwrap().parse().unwrap();
    assert!((1_900..2_100).contains(&count), "{count}");
    // A sparse file does not count.
    sandbox.says("rm -rf f; truncate -s 1T sparse; rm sparse");
}

pub(crate) fn endless_output_costs_bounded_memory(home: &Home) {
    let sandbox = home.start();
    let mut order = sandbox.order("(timeout 2 yes; timeout 2 yes >&2) & timeout 4 cat /dev/zero; wait");
    order.timeout_ms = Some(6_000);
    let finished = sandbox.run(order, &[]);
    assert!(finished.result.stdout.total > 100 << 20, "{:?}", finished.result);
    assert!(finished.result.stdout.truncated());
    assert_eq!((finished.stdout.len(), finished.stderr.len()), (32 << 10, 32 << 10));
    let init = sandbox.running.record().unwrap().init.unwrap().pid;
    let status = fs::read_to_string(format!("/proc/{init}/status")).unwrap();
    let kilobytes: u64 =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok()).unwrap();
    assert!(kilobytes < 64 << 10, "init had {kilobytes} kB");
}
