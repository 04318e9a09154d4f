//! Native workspaces as layers: frozen, shared between boxes with different ids, compared, and safe
//! from forged markers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stead_core::plan::Action;
use stead_core::tool::ToolName;
use stead_core::{SnapshotId, Timestamp, WorkspaceId};
use stead_fs::patch::Options;
use stead_providers::{ActionOrder, AdoptOrder, FileOrder, LayerKey, LayerReport, LayerSlot, Provider, Workspace};

use crate::native::{action, as_root_and_as_ordinary_user, call, order, provider, run};

async fn bash(workspace: &Arc<dyn Workspace>, command: &str) -> String {
    let result = call(workspace, ToolName::Bash, json!({"command": command})).await;
    assert!(result["stdout"].is_string(), "{result}");
    format!("{}{}", result["stdout"].as_str().unwrap(), result["stderr"].as_str().unwrap())
}

async fn operate(workspace: &Arc<dyn Workspace>, order: FileOrder) {
    workspace.operate(order, Timestamp::from_millis(0)).await.unwrap();
}

fn snap(number: u128) -> SnapshotId {
    SnapshotId::from_bits(number)
}

/// Puts a shared tree at the root of a workspace; `write` creates it if it does not exist yet.
async fn lay(workspace: &Arc<dyn Workspace>, write: impl FnOnce(&Path)) {
    let layer = match workspace.prepare_layer(LayerKey::of("test", &[b"tree"])).unwrap() {
        LayerSlot::Ready(layer) => layer,
        LayerSlot::Empty(draft) => {
            write(draft.tree());
            draft.complete(LayerReport::checkout(Vec::new())).unwrap()
        }
    };
    let order = ActionOrder { layer: Some(layer), ..action(Action::CreateWorkspace) };
    workspace.perform(order).await.unwrap();
}

fn repository(tree: &Path) {
    std::fs::create_dir_all(tree.join("src/deep")).unwrap();
    std::fs::create_dir_all(tree.join("docs")).unwrap();
    for (path, text) in [("a", "one\n"), ("src/b", "two\n"), ("src/deep/c", "three\n"), ("docs/d", "four\n")] {
        std::fs::write(tree.join(path), text).unwrap();
    }
}

#[test]
fn many_workspaces_share_one_tree_and_a_diff_tells_what_each_did() {
    let name = "native_layers::many_workspaces_share_one_tree_and_a_diff_tells_what_each_did";
    as_root_and_as_ordinary_user(name, |home, init| {
        run(async {
            let provider = provider(home, init);
            let one = provider.create(&order(1001)).await.unwrap();
            let other = provider.create(&order(1002)).await.unwrap();
            lay(&one, repository).await;
            lay(&other, |_| panic!("it is there")).await;
            one.begin().await.unwrap();
            other.begin().await.unwrap();
            let change = "echo more >> a; rm src/b; rm -r docs; mkdir docs; echo new > docs/n; mv src/deep src/moved; \
                          ln -s a link; chmod +x a; mkdir empty; stat -c %u src/moved/c";
            assert_eq!(bash(&one, change).await, "1000\n");
            let patch = one.diff(Options::default()).await.unwrap();
            let changed: Vec<_> = patch.changed.iter().map(ToString::to_string).collect();
            assert_eq!(changed, ["a", "docs/d", "docs/n", "link", "src/b", "src/deep/c", "src/moved/c"]);
            assert!(patch.text.contains("+more") && patch.text.contains("-two"), "{}", patch.text);
            assert_eq!(bash(&other, "cat a src/b docs/d src/deep/c").await, "one\ntwo\nfour\nthree\n");
            assert!(other.diff(Options::default()).await.unwrap().changed.is_empty());
            // The box cannot see the server's paths.
            let shown = format!("grep -c -e {} -e volumes -e layers /proc/self/mountinfo", home.display());
            assert_eq!(bash(&other, &shown).await, "0\n");
            for number in [1001, 1002] {
                provider.remove(order(number).workspace).await.unwrap();
            }
        });
    });
}

#[test]
fn a_fork_stands_on_what_was_frozen_and_outlives_its_origin() {
    as_root_and_as_ordinary_user(
        "native_layers::a_fork_stands_on_what_was_frozen_and_outlives_its_origin",
        |home, init| {
            run(async {
                let provider = provider(home, init.clone());
                let origin = provider.create(&order(2001)).await.unwrap();
                lay(&origin, repository).await;
                origin.begin().await.unwrap();
                bash(
                    &origin,
                    "echo kept > a; rm docs/d; mkdir -m 700 private; echo p > private/p; echo t > /tmp/t; echo h > ~/h",
                )
                .await;
                operate(&origin, FileOrder::Snapshot { snapshot: snap(1) }).await;
                let lineage = home.join("boxes").join(order(2001).workspace.to_string()).join("workspace.json");
                let frozen = std::fs::read_to_string(lineage).unwrap();
                assert!(frozen.contains("\"generation\",\"volume\""), "it was copied, not frozen: {frozen}");
                // The box was restarted, but files outside the workspace are unchanged.
                assert_eq!(bash(&origin, "echo later > a; cat /tmp/t ~/h").await, "t\nh\n");
                let fork = provider.create(&order(2002)).await.unwrap();
                let restore = Action::RestoreSnapshot { session: order(2001).session, snapshot: snap(1) };
                fork.perform(action(restore)).await.unwrap();
                fork.begin().await.unwrap();
                let seen =
                    "cat a private/p; ls docs; stat -c %u:%g private; echo mine > a; rm -r private; cat a; ls ~ /tmp";
                assert_eq!(bash(&fork, seen).await, "kept\np\n1000:1000\nmine\n/home/agent:\n\n/tmp:\n");
                let patch = fork.diff(Options::default()).await.unwrap();
                assert_eq!(patch.changed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "private/p"]);
                operate(&origin, FileOrder::Restore { snapshot: snap(1) }).await;
                assert_eq!(bash(&origin, "cat a private/p").await, "kept\np\n");
                // After the origin is removed, the fork keeps its layers, also with a new server.
                provider.remove(order(2001).workspace).await.unwrap();
                assert_eq!(bash(&fork, "cat a src/b").await, "mine\ntwo\n");
                drop((provider, fork));
                let provider = crate::native::provider(home, init);
                let fork = provider.adopt(&AdoptOrder { create: order(2002), history: Vec::new() }).await.unwrap();
                assert_eq!(bash(&fork, "cat a src/b; ls").await, "mine\ntwo\na\ndocs\nsrc\n");
                provider.remove(order(2002).workspace).await.unwrap();
            });
        },
    );
}

/// The last process of a command may end shortly after its result. A snapshot must not copy the
/// whole tree because of it.
#[test]
fn a_snapshot_waits_for_what_is_about_to_end() {
    as_root_and_as_ordinary_user("native_layers::a_snapshot_waits_for_what_is_about_to_end", |home, init| {
        run(async {
            let provider = provider(home, init);
            let workspace = provider.create(&order(2101)).await.unwrap();
            workspace.begin().await.unwrap();
            let kept = |number: u128| {
                let lineage = home.join("boxes").join(order(2101).workspace.to_string()).join("workspace.json");
                let lineage: serde_json::Value = serde_json::from_slice(&std::fs::read(lineage).unwrap()).unwrap();
                lineage["snapshots"][snap(number).to_string()].to_string()
            };
            bash(&workspace, "echo one > a; (setsid sleep 0.1 >/dev/null 2>&1 &)").await;
            operate(&workspace, FileOrder::Snapshot { snapshot: snap(1) }).await;
            assert!(kept(1).contains("generation"), "it was copied, not frozen: {}", kept(1));
            // The control: if a process keeps running, the files are copied.
            bash(&workspace, "echo two > a; (setsid sleep 600 >/dev/null 2>&1 &)").await;
            operate(&workspace, FileOrder::Snapshot { snapshot: snap(2) }).await;
            assert!(!kept(2).contains("generation"), "{}", kept(2));
            provider.remove(order(2101).workspace).await.unwrap();
        });
    });
}

#[test]
fn a_restore_that_fails_leaves_the_files_as_they_were() {
    let name = "native_layers::a_restore_that_fails_leaves_the_files_as_they_were";
    as_root_and_as_ordinary_user(name, |home, init| {
        run(async {
            let provider = provider(home, init);
            let origin = provider.create(&order(2201)).await.unwrap();
            lay(&origin, repository).await;
            origin.begin().await.unwrap();
            operate(&origin, FileOrder::Snapshot { snapshot: snap(1) }).await;
            let other = provider.create(&order(2202)).await.unwrap();
            other.begin().await.unwrap();
            bash(&other, "echo mine > own").await;
            let lineage = home.join("boxes").join(order(2202).workspace.to_string()).join("workspace.json");
            let before = std::fs::read(&lineage).unwrap();
            // A layer without its label cannot be used.
            let label = home.join("layers").join(LayerKey::of("test", &[b"tree"]).to_string()).join("layer.json");
            let aside = home.join("label");
            std::fs::rename(&label, &aside).unwrap();
            let restore = || FileOrder::Restore { snapshot: snap(1) };
            assert!(other.operate(restore(), Timestamp::from_millis(0)).await.is_err());
            assert_eq!(std::fs::read(&lineage).unwrap(), before, "the record of the layers has changed");
            assert_eq!(bash(&other, "cat own; ls").await, "mine\nown\n");
            // A restarted box has its files too: the old files are not above the new layers.
            operate(&other, FileOrder::Snapshot { snapshot: snap(2) }).await;
            assert_eq!(bash(&other, "cat own; ls").await, "mine\nown\n");
            // The control: with the label the restore succeeds.
            std::fs::rename(&aside, &label).unwrap();
            operate(&other, restore()).await;
            assert_eq!(bash(&other, "cat a; ls").await, "one\na\ndocs\nsrc\n");
            for number in [2201, 2202] {
                provider.remove(order(number).workspace).await.unwrap();
            }
        });
    });
}

#[test]
fn marks_an_agent_forges_hide_nothing_in_a_layer() {
    as_root_and_as_ordinary_user("native_layers::marks_an_agent_forges_hide_nothing_in_a_layer", |home, init| {
        run(async {
            let provider = provider(home, init);
            // The files written here become a layer of the fork, so forged markers must have no
            // effect.
            for number in [3001, 3002] {
                let workspace = provider.create(&order(number)).await.unwrap();
                lay(&workspace, repository).await;
                workspace.begin().await.unwrap();
                let forge = "import os\n\
                    def mark(path, name, value):\n\
                    \x20 for space in ('user', 'trusted'):\n\
                    \x20  try: os.setxattr(path, f'{space}.overlay.{name}', value)\n\
                    \x20  except OSError: pass\n\
                    os.makedirs('src/deep', exist_ok=True); os.utime('src'); open('src/x', 'w').close(); open('f', 'w').close()\n\
                    for p in ('src', 'docs', 'f', '.'):\n\
                    \x20 mark(p, 'opaque', b'y'); mark(p, 'opaque', b'x'); mark(p, 'redirect', b'/docs'); mark(p, 'whiteout', b'y'); mark(p, 'metacopy', b'')\n\
                    for p in ('a', 'src/w', 'docs/w'):\n\
                    \x20 try: os.mknod(p + '.wh', 0o020000, os.makedev(0, 0))\n\
                    \x20 except OSError: pass\n\
                    print(sorted(n for n in os.listdir('.')))\n";
                let before = call(&workspace, ToolName::Python, json!({"code": forge})).await;
                assert_eq!(before["stdout"], "['a', 'docs', 'f', 'src']\n", "{before}");
                operate(&workspace, FileOrder::Snapshot { snapshot: snap(number) }).await;
                let fork = provider.create(&order(number + 10)).await.unwrap();
                let restore = Action::RestoreSnapshot { session: order(number).session, snapshot: snap(number) };
                fork.perform(action(restore)).await.unwrap();
                for seen in [&workspace, &fork] {
                    assert_eq!(
                        bash(seen, "find . -type f | sort | xargs; cat docs/d src/b").await,
                        "./a ./docs/d ./f ./src/b ./src/deep/c ./src/x\nfour\ntwo\n"
                    );
                }
                provider.remove(order(number).workspace).await.unwrap();
                provider.remove(order(number + 10).workspace).await.unwrap();
            }
        });
    });
}

#[test]
fn a_snapshot_of_a_busy_box_ends_nothing_in_it() {
    as_root_and_as_ordinary_user("native_layers::a_snapshot_of_a_busy_box_ends_nothing_in_it", |home, init| {
        run(async {
            let provider = provider(home, init);
            let workspace = provider.create(&order(4001)).await.unwrap();
            // The process already runs when the session starts.
            workspace
                .perform(crate::native::setup(1, "echo one > a; (setsid sleep 600 >/dev/null 2>&1 &)", 5))
                .await
                .unwrap();
            workspace.begin().await.unwrap();
            bash(&workspace, "echo two > b; ln -s /etc/passwd link; chmod +x b").await;
            let patch = workspace.diff(Options::default()).await.unwrap();
            assert_eq!(patch.changed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["b", "link"]);
            operate(&workspace, FileOrder::Snapshot { snapshot: snap(1) }).await;
            assert_eq!(bash(&workspace, "rm a b; pgrep -c sleep").await, "1\n");
            operate(&workspace, FileOrder::Restore { snapshot: snap(1) }).await;
            assert_eq!(
                bash(&workspace, "cat a b; readlink link; test -x b; pgrep -c sleep").await,
                "one\ntwo\n/etc/passwd\n0\n"
            );
            provider.remove(order(4001).workspace).await.unwrap();
        });
    });
}

/// Copies lie outside the volume, but count against the disk limit.
#[test]
fn copies_of_a_busy_box_are_bounded_by_its_disk_limit() {
    as_root_and_as_ordinary_user("native_layers::copies_of_a_busy_box_are_bounded_by_its_disk_limit", |home, init| {
        run(async {
            let provider = provider(home, init);
            // The disk limit is 64 MiB.
            let workspace = provider.create(&order(4101)).await.unwrap();
            workspace.begin().await.unwrap();
            bash(&workspace, "head -c 25M /dev/zero > a; (setsid sleep 600 >/dev/null 2>&1 &)").await;
            for number in [1, 2] {
                operate(&workspace, FileOrder::Snapshot { snapshot: snap(number) }).await;
            }
            let at = Timestamp::from_millis(1);
            let third = workspace.operate(FileOrder::Snapshot { snapshot: snap(3) }, at).await.err().unwrap();
            assert_eq!(third.code(), stead_fs::ErrorCode::NoRoom, "{third}");
            assert_eq!(bash(&workspace, "stat -c %s a; pgrep -c sleep").await, "26214400\n1\n");
            // No process runs, so nothing has to be copied.
            bash(&workspace, "pkill sleep; while pgrep -x sleep; do true; done").await;
            operate(&workspace, FileOrder::Snapshot { snapshot: snap(4) }).await;
            provider.remove(order(4101).workspace).await.unwrap();
        });
    });
}

#[test]
fn long_chains_are_made_short() {
    as_root_and_as_ordinary_user("native_layers::long_chains_are_made_short", |home, init| {
        run(async {
            let provider = provider(home, init);
            let workspace = provider.create(&order(5001)).await.unwrap();
            workspace.begin().await.unwrap();
            for number in 0..30u128 {
                bash(&workspace, &format!("echo {number} > f{number}; rm -f f{}", number.wrapping_sub(1))).await;
                operate(&workspace, FileOrder::Snapshot { snapshot: snap(100 + number) }).await;
            }
            let lineage =
                std::fs::read(home.join("boxes").join(order(5001).workspace.to_string()).join("workspace.json"));
            let lineage: serde_json::Value = serde_json::from_slice(&lineage.unwrap()).unwrap();
            assert!(lineage["layers"].as_array().unwrap().len() < 24, "{}", lineage["layers"]);
            assert_eq!(bash(&workspace, "ls; cat f29").await, "f29\n29\n");
            operate(&workspace, FileOrder::Restore { snapshot: snap(103) }).await;
            assert_eq!(bash(&workspace, "ls").await, "f3\n");
            provider.remove(WorkspaceId::from_bits(5001)).await.unwrap();
        });
    });
}

#[test]
fn a_host_directory_is_mounted_as_it_was_asked_for() {
    as_root_and_as_ordinary_user("native_layers::a_host_directory_is_mounted_as_it_was_asked_for", |home, init| {
        use stead_core::policy::MountMode;
        let host = home.join("host");
        std::fs::create_dir(&host).unwrap();
        repository(&host);
        std::os::unix::fs::symlink("/etc", host.join("out")).unwrap();
        run(async {
            let provider = provider(home, init);
            let roots = vec![host.display().to_string()];
            let mount = |path: &Path, mode, allowed_host_roots| {
                let host_path = path.display().to_string();
                // The tests run as root and as an ordinary user, so the owner of the directory
                // differs.
                let allowed_root_owned_mounts = vec![host.display().to_string()];
                action(Action::MountDirectory { host_path, mode, allowed_host_roots, allowed_root_owned_mounts })
            };
            let change = "echo more >> a; rm -r docs; cat a 2>&1; ls";
            for (number, mode) in
                [(6001, MountMode::Overlay), (6002, MountMode::ReadOnly), (6003, MountMode::ReadWrite)]
            {
                let workspace = provider.create(&order(number)).await.unwrap();
                for refused in
                    [(host.as_path(), vec![]), (Path::new("/etc"), roots.clone()), (&host.join("out"), roots.clone())]
                {
                    assert!(workspace.perform(mount(refused.0, mode, refused.1.clone())).await.is_err(), "{refused:?}");
                }
                workspace.perform(mount(&host, mode, roots.clone())).await.unwrap();
                workspace.begin().await.unwrap();
                let seen = bash(&workspace, change).await;
                let changed: Vec<_> =
                    workspace.diff(Options::default()).await.unwrap().changed.iter().map(ToString::to_string).collect();
                let on_host = std::fs::read_to_string(host.join("a")).unwrap();
                match mode {
                    MountMode::Overlay => {
                        assert!(seen.starts_with("one\nmore\na\nout\nsrc\n"), "{seen}");
                        assert_eq!(
                            (on_host.as_str(), changed.as_slice()),
                            ("one\n", ["a", "docs/d"].map(str::to_owned).as_slice())
                        );
                    }
                    MountMode::ReadOnly => {
                        assert!(seen.starts_with("one\na\ndocs\nout\nsrc\n") && seen.contains("Read-only"), "{seen}");
                        assert_eq!((on_host.as_str(), changed.len()), ("one\n", 0));
                    }
                    MountMode::ReadWrite => {
                        assert!(seen.starts_with("one\nmore\na\nout\nsrc\n"), "{seen}");
                        assert_eq!(
                            (on_host.as_str(), changed.as_slice()),
                            ("one\nmore\n", ["a", "docs/d"].map(str::to_owned).as_slice())
                        );
                        assert!(!host.join("docs").exists());
                    }
                }
                provider.remove(order(number).workspace).await.unwrap();
            }
        });
    });
}

/// Tries to set every special bit in the workspace with the usual tools, and prints how many were
/// set.
const SPECIAL_BITS: &str = "touch f; for m in 4755 2755 1755 6755; do chmod $m f 2>/dev/null; done; mkdir -m 1777 d 2>/dev/null; \
    mkdir e; chmod g+s e 2>/dev/null; install -m 4755 f g 2>/dev/null; stat -c %a f d e g 2>/dev/null | grep -cE '^[1-7]...$'";

#[test]
fn no_special_bits_are_set_in_a_writable_host_directory() {
    let name = "native_layers::no_special_bits_are_set_in_a_writable_host_directory";
    as_root_and_as_ordinary_user(name, |home, init| {
        use std::os::unix::fs::MetadataExt;
        use stead_core::policy::MountMode;
        let host = home.join("host");
        std::fs::create_dir(&host).unwrap();
        run(async {
            let provider = provider(home, init);
            let mount = |named: Vec<String>| {
                let host_path = host.display().to_string();
                action(Action::MountDirectory {
                    allowed_host_roots: vec![host_path.clone()],
                    host_path,
                    mode: MountMode::ReadWrite,
                    allowed_root_owned_mounts: named,
                })
            };
            let workspace = provider.create(&order(6101)).await.unwrap();
            let unnamed = workspace.perform(mount(Vec::new())).await;
            assert_eq!(unnamed.is_err(), std::fs::metadata(&host).unwrap().uid() == 0);
            workspace.perform(mount(vec![host.display().to_string()])).await.unwrap();
            workspace.begin().await.unwrap();
            assert_eq!(bash(&workspace, SPECIAL_BITS).await.trim(), "0");
            for entry in std::fs::read_dir(&host).unwrap() {
                let entry = entry.unwrap();
                assert_eq!(entry.metadata().unwrap().mode() & 0o7000, 0, "{:?}", entry.file_name());
            }
            provider.remove(order(6101).workspace).await.unwrap();
            // The control: without a host directory the same commands set the bits.
            let workspace = provider.create(&order(6102)).await.unwrap();
            workspace.begin().await.unwrap();
            assert_eq!(bash(&workspace, SPECIAL_BITS).await.trim(), "4");
            provider.remove(order(6102).workspace).await.unwrap();
        });
    });
}

/// Boxes, cgroups, devices and open files are the same before and after. `STEAD_TEST_CYCLES` sets
/// the number of cycles.
#[test]
fn cycles_leave_nothing() {
    as_root_and_as_ordinary_user("native_layers::cycles_leave_nothing", |home, init| {
        let cycles: u128 = std::env::var("STEAD_TEST_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
        run(async {
            let provider = provider(home, init);
            // Number of attached volumes: of spares and of boxes.
            let devices = || {
                let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
                let files = devices
                    .filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok())
                    .filter(|file| file.contains(home.to_str().unwrap()));
                let (spare, used): (Vec<_>, Vec<_>) = files.partition(|file| file.contains("/spares/"));
                (spare.len(), used.len())
            };
            let count = || {
                let of_home =
                    |file: &str| std::fs::read_to_string(file).unwrap().matches(home.to_str().unwrap()).count();
                // Other tests run at the same time, so count only files below this home.
                let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
                let files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
                let files = files.filter(|file| file.starts_with(home)).count();
                (of_home("/proc/self/mountinfo"), devices().1, files)
            };
            for number in 0..cycles {
                let (one, fork) = (order(7000 + number * 2), order(7001 + number * 2));
                let workspace = provider.create(&one).await.unwrap();
                workspace.begin().await.unwrap();
                bash(&workspace, "mkdir -p a/b; echo x > a/b/c; chmod 000 a/b; (setsid sleep 600 >/dev/null 2>&1 &)")
                    .await;
                bash(&workspace, "chmod 700 a/b; pkill sleep; true").await;
                operate(&workspace, FileOrder::Snapshot { snapshot: snap(7000 + number) }).await;
                let other = provider.create(&fork).await.unwrap();
                let restore = Action::RestoreSnapshot { session: one.session, snapshot: snap(7000 + number) };
                other.perform(action(restore)).await.unwrap();
                assert_eq!(bash(&other, "cat a/b/c").await, "x\n");
                // Remove them in either order.
                for gone in if number % 2 == 0 { [&one, &fork] } else { [&fork, &one] } {
                    provider.remove(gone.workspace).await.unwrap();
                }
                drop((workspace, other));
                assert_eq!(count(), (0, 0, 0), "after {number}");
                assert!(devices().0 <= 1, "more than one box to come");
            }
            provider.retire();
            // The kernel frees a device shortly after its last user has ended.
            for _ in 0..1_000 {
                if devices() == (0, 0) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(devices(), (0, 0));
        });
    });
}
