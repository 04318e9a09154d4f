//! Boxes from start to removal, interrupted at any moment.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use stead_box::build::{Order, Report};
use stead_box::{BoxError, BoxSpec, Primitive, RunningBox, Volume, doctor, launch, remove, restart};

use crate::home::{Home, chain, init, is_root};

fn rounds(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

pub(crate) fn a_removed_box_leaves_nothing(home: &Home) {
    for _ in 0..rounds("STEAD_TEST_CYCLES", 10) {
        let sandbox = home.start();
        sandbox.says("echo 1 > a; (setsid sleep 300 &); sleep 300 & disown; mkdir -p d/e; chmod 000 d");
        assert!(home.census() != home.census_before());
        remove(sandbox.running.directory()).unwrap();
        // The removal is idempotent; the drop removes it a third time.
        remove(sandbox.running.directory()).unwrap();
        drop(sandbox);
        home.assert_clean();
    }
}

pub(crate) fn a_box_is_found_again(home: &Home) {
    let sandbox = home.start();
    sandbox.says("echo kept > a");
    let again = RunningBox::find(sandbox.running.directory()).unwrap();
    assert_eq!(again.held(), sandbox.running.held());
    drop(again.connect().unwrap());
    assert_eq!(sandbox.says("cat a"), "kept\n");
    again.kill().unwrap();
    assert!(RunningBox::find(sandbox.running.directory()).is_err());
    assert!(again.connect().is_err());
}

pub(crate) fn a_dead_box_is_started_again_over_its_files(home: &Home) {
    let spec = home.spec();
    let sandbox = home.start_with(&spec);
    sandbox.says("mkdir d; echo kept > d/a; echo home > ~/b; sync");
    sandbox.running.kill().unwrap();
    let again = restart(&init(), &spec).unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(again.held(), sandbox.running.held());
    assert_eq!(sandbox.says("cat d/a ~/b; echo more > c; cat c"), "kept\nhome\nmore\n");
    // A restart of a running box ends it first.
    restart(&init(), &spec).unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(sandbox.says("cat d/a c"), "kept\nmore\n");
    let mut other = spec.clone();
    other.directory = home.path().join("boxes/none");
    other.volume_directory = other.directory.clone();
    assert!(matches!(restart(&init(), &other), Err(BoxError::Gone { .. })));
}

pub(crate) fn hostile_trees_are_removed(home: &Home) {
    let mut spec = home.spec();
    spec.volume = Volume::Directory;
    let sandbox = home.start_with(&spec);
    // A hostile tree: deeper than PATH_MAX and the file descriptor limit, without permissions, with
    // odd names and links out, and a running fork bomb.
    let depth = rounds("STEAD_TEST_DEPTH", 2_500);
    let deep = format!(
        "python3 -c 'import os\nfor i in range({depth}): os.mkdir(\"deep-directory\"); os.chdir(\"deep-directory\")'"
    );
    sandbox.says(&format!(
        "{deep}; mkdir -p no/no/no; touch no/no/f; chmod 000 no/no/no no/no no; ln -s / out; ln -s /etc/passwd link; mkfifo pipe; \
         touch $'odd\\nname' -- -rf; mkdir wide; (cd wide; touch $(seq 2000))"
    ));
    let bomb = sandbox.order("f() { while :; do (setsid sleep 9 &) ; done; }; f & f & f & f");
    sandbox.connect().start(bomb, &[]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    if is_root() {
        // Immutable files, which the box itself cannot create but another program could.
        let locked = sandbox.running.directory().join("volume/g0/locked");
        std::fs::create_dir(&locked).unwrap();
        std::fs::write(locked.join("f"), "").unwrap();
        for path in [locked.join("f"), locked] {
            assert!(Command::new("chattr").arg("+i").arg(path).status().unwrap().success());
        }
    }
    let began = Instant::now();
    drop(sandbox);
    // Removing one directory takes 2.4 ms on this disk, also with `rm -rf`.
    assert!(
        began.elapsed() < Duration::from_secs(60) + Duration::from_millis(10) * depth as u32,
        "{:?}",
        began.elapsed()
    );
    home.assert_clean();
}

/// Kills the helper after a random time, so that a start is interrupted at every point, and removes
/// what it left.
pub(crate) fn a_start_that_is_broken_off_leaves_nothing(home: &Home) {
    let (mut broken, mut begun) = (0, 0);
    for number in 0..rounds("STEAD_TEST_KILLS", 60) {
        let spec = home.spec();
        std::fs::create_dir(&spec.directory).unwrap();
        let mut helper =
            Command::new(init()).arg("launch").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let order = format!("{}\n", json!(Order::Start(Box::new(spec.clone()))));
        helper.stdin.take().unwrap().write_all(order.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_micros(number as u64 * 397 % 24_000));
        // A helper that has ended has created a whole box; a running one has created part of a box.
        broken += usize::from(helper.try_wait().unwrap().is_none());
        helper.kill().unwrap();
        helper.wait().unwrap();
        begun += usize::from(stead_box::OwnerRecord::read(&spec.directory).is_ok_and(|record| record.is_some()));
        remove(&spec.directory).unwrap_or_else(|error| panic!("{}", chain(&error)));
        home.ranges().give_back(&spec.id).unwrap();
        settle(home, helper.id());
    }
    assert!(broken > 0, "every helper was faster than its killer");
    assert!(begun > 0, "no helper made anything that could have been left");
}

/// The child of a killed helper ends by itself, but with a delay. If it was not recorded yet, this
/// process must reap it through the helper's process group.
fn settle(home: &Home, helper: u32) {
    let helper = rustix::process::Pid::from_raw(helper.cast_signed()).unwrap();
    for _ in 0..2_000 {
        while let Ok(Some(_)) = rustix::process::waitpgid(helper, rustix::process::WaitOptions::NOHANG) {}
        if home.census() == home.census_before() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    home.assert_clean();
}

pub(crate) fn a_killed_init_takes_everything_with_it(home: &Home) {
    for number in 0..rounds("STEAD_TEST_KILLS", 20) {
        let sandbox = home.start();
        let order = sandbox.order("(setsid sleep 300 &); yes | head -c 100M > /dev/null; sleep 300");
        sandbox.connect().start(order, &[]).unwrap();
        std::thread::sleep(Duration::from_micros(number as u64 * 997 % 30_000));
        let init = sandbox.running.record().unwrap().init.unwrap();
        let pid = rustix::process::Pid::from_raw(init.pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        drop(sandbox);
        home.assert_clean();
    }
}

pub(crate) fn a_box_that_cannot_be_as_ordered_is_not_started(home: &Home) {
    let refused = |change: &dyn Fn(&mut BoxSpec)| {
        let mut spec = home.spec();
        change(&mut spec);
        let error = launch(&init(), &spec).unwrap_err();
        assert!(!spec.directory.exists());
        home.ranges().give_back(&spec.id).unwrap();
        match error {
            BoxError::Refused(refused) => refused.primitive,
            other => panic!("{}", chain(&other)),
        }
    };
    assert_eq!(
        refused(&|spec| spec.layers.push(stead_box::LayerSpec::Directory { path: "/nowhere".into() })),
        Primitive::Mount
    );
    assert_eq!(refused(&|spec| spec.instance = "../x".to_owned()), Primitive::Spec);
    assert_eq!(refused(&|spec| spec.base = Some("/nowhere".into())), Primitive::Mount);
    if !is_root() {
        assert_eq!(refused(&|spec| spec.ids = stead_box::Ids::Range { first: 1 << 30 }), Primitive::Namespaces);
        assert_eq!(refused(&|spec| spec.volume = Volume::Image), Primitive::Volume);
    }
    let spec = home.spec();
    std::fs::create_dir(&spec.directory).unwrap();
    assert!(matches!(launch(&init(), &spec), Err(BoxError::Exists { .. })));
    std::fs::remove_dir(&spec.directory).unwrap();
    home.ranges().give_back(&spec.id).unwrap();
}

/// A base with links where the builder expects mount points and system files.
pub(crate) fn a_hostile_base_spoils_only_itself(home: &Home) {
    let base = home.path().join("base");
    std::fs::create_dir(&base).unwrap();
    let victim = home.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    for name in ["proc", "dev", "tmp", "workspace", "home", "run", "sys", "odd"] {
        std::os::unix::fs::symlink(&victim, base.join(name)).unwrap();
    }
    for (name, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")] {
        std::os::unix::fs::symlink(target, base.join(name)).unwrap();
    }
    std::fs::create_dir_all(base.join("etc")).unwrap();
    for name in ["passwd", "resolv.conf", "hosts", "odd"] {
        std::os::unix::fs::symlink(victim.join("file"), base.join("etc").join(name)).unwrap();
    }
    let mut spec = home.spec();
    spec.base = Some(base.clone());
    // Without /usr no program runs there, and the start of a command fails.
    let sandbox = home.start_with(&spec);
    assert_eq!(sandbox.bash("true").result.exit_code, 127);
    drop(sandbox);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);

    // A link in place of /etc itself is refused.
    std::fs::remove_dir_all(base.join("etc")).unwrap();
    std::os::unix::fs::symlink(&victim, base.join("etc")).unwrap();
    let mut spec = home.spec();
    spec.base = Some(base);
    assert!(matches!(launch(&init(), &spec), Err(BoxError::Refused(_))));
    home.ranges().give_back(&spec.id).unwrap();
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

pub(crate) fn the_doctor_says_what_this_host_can_do(home: &Home) {
    let clinic = home.path().join("boxes");
    let checks = doctor(&init(), &clinic);
    let failed: Vec<_> = checks.iter().filter(|check| !check.ok).map(|check| check.name.as_str()).collect();
    let expected: &[&str] = if is_root() { &[] } else { &["a limit of cpu", "a limit of memory", "a limit of disk"] };
    assert_eq!(failed, expected, "{checks:#?}");
    assert!(checks.iter().all(|check| check.ok == check.blocker.is_none() && (check.ok || check.advice.is_some())));
    let nothing = doctor(Path::new("/nowhere/stead-init"), &clinic);
    assert!(nothing.len() == 1 && !nothing[0].ok, "{nothing:#?}");
}

/// Without user namespaces no box starts, and the error names the missing protection.
pub(crate) fn without_user_namespaces_nothing_starts(home: &Home) {
    let mut spec = home.spec();
    home.ranges().give_back(&spec.id).unwrap();
    (spec.ids, spec.volume) = (stead_box::Ids::Own, Volume::Directory);
    std::fs::create_dir(&spec.directory).unwrap();
    // Run in a new user namespace, where the number of namespaces can be limited.
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {} launch", init().display());
    let mut helper = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(helper.stdin.take().unwrap(), "{}", json!(Order::Start(Box::new(spec.clone())))).unwrap();
    let said = helper.wait_with_output().unwrap();
    let report: Report = serde_json::from_slice(&said.stdout).unwrap();
    assert!(matches!(&report, Report::Refused(refused) if refused.primitive == Primitive::Namespaces), "{report:?}");
    remove(&spec.directory).unwrap();
}
