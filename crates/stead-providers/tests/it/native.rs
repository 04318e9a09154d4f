//! The native provider on the real kernel: as root, and again as an ordinary user.

use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use stead_box::protocol::{Answer, Reply, VERSION, encode};
use stead_core::command::CreateOrder;
use stead_core::command::FileAccess;
use stead_core::config::{CallLimits, ResourceLimits};
use stead_core::env::Env;
use stead_core::event::{Existing, Parents};
use stead_core::identity::Tenant;
use stead_core::network::Reach;
use stead_core::plan::Action;
use stead_core::tool::ToolName;
use stead_core::{CallId, SessionId, Timestamp, WorkspaceId};
use stead_fs::patch::Options;
use stead_providers::{
    ActionOrder, AdoptOrder, FileOrder, Images, LayerStore, NativeConfig, NativeProvider, OperateError, OutputSink,
    Placement, Provider, ProviderError, ToolOrder, Workspace, conformance,
};

const ORDINARY: &str = "65534";

/// Path of the current `stead-init`, which the test runner builds.
fn init() -> PathBuf {
    if let Ok(program) = std::env::var("STEAD_TEST_INIT") {
        return program.into();
    }
    let status = Command::new(env!("CARGO")).args(["build", "--quiet", "--package", "stead-box", "--bins"]).status();
    assert!(status.unwrap().success(), "stead-init does not build");
    // target/debug/deps/it-… → target/debug/stead-init
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("stead-init")
}

/// Runs the case in this process and, if this is root, again as an ordinary user.
pub(crate) fn as_root_and_as_ordinary_user(name: &str, case: fn(&Path, PathBuf)) {
    let home = tempfile::tempdir().unwrap();
    let program = init();
    case(home.path(), program.clone());
    for directory in ["boxes", "volumes", "uids", "layers/.holders"] {
        let left: Vec<_> = std::fs::read_dir(home.path().join(directory)).into_iter().flatten().collect();
        assert!(left.is_empty(), "{directory}: {left:?}");
    }
    if std::env::var_os("STEAD_TEST_INIT").is_some() {
        return;
    }
    let shelf = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let (test, copy, tmp) = (shelf.path().join("test"), shelf.path().join("stead-init"), shelf.path().join("tmp"));
    std::fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    std::fs::copy(program, &copy).unwrap();
    std::fs::create_dir(&tmp).unwrap();
    allow(shelf.path(), 0o755);
    allow(&tmp, 0o1777);
    let status = Command::new("setpriv")
        .args(["--reuid", ORDINARY, "--regid", ORDINARY, "--clear-groups", "--inh-caps=-all", "--"])
        .arg(&test)
        .args(["--exact", name, "--nocapture"])
        .env("STEAD_TEST_INIT", &copy)
        .env("TMPDIR", &tmp)
        .current_dir("/")
        .status();
    assert!(status.unwrap().success(), "{name} as an ordinary user");
}

pub(crate) fn provider(home: &Path, init: PathBuf) -> NativeProvider {
    // Tests that run beside each other make workspaces of the same number.
    let own = home.file_name().unwrap().to_str().unwrap().trim_start_matches('.');
    named(home, init, format!("t{}{own}", std::process::id()))
}

fn named(home: &Path, init: PathBuf, instance: String) -> NativeProvider {
    let layers = Arc::new(LayerStore::open(home.join("layers")).unwrap());
    let images = Arc::new(Images::open(home.join("images"), layers.clone()).unwrap());
    NativeProvider::new(
        NativeConfig { home: home.to_owned(), instance, former_instances: Vec::new(), init },
        layers,
        images,
    )
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

pub(crate) fn order(number: u128) -> CreateOrder {
    let limits = ResourceLimits {
        cpu: Some("1".parse().unwrap()),
        memory: Some("256M".parse().unwrap()),
        disk: Some("64M".parse().unwrap()),
        pids: Some(128),
    };
    let mut env = Env::default();
    env.set("OF_THE_BOX", "box");
    let (workspace, session) = (WorkspaceId::from_bits(number), SessionId::from_bits(number));
    let (base_image, image_roots, image_digest, image_tenant) = (None, Vec::new(), None, Tenant::Platform);
    CreateOrder {
        workspace,
        session,
        limits,
        env,
        base_image,
        image_roots,
        image_digest,
        image_tenant,
        network: Reach::None,
        trust: None,
    }
}

pub(crate) async fn call(workspace: &Arc<dyn Workspace>, tool: ToolName, arguments: Value) -> Value {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let call = CallId::from_bits(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
    let now = Timestamp::from_millis(1_700_000_000_000);
    let evaluator = stead_eval::Evaluator::beside_this_program();
    let (limits, files) = (CallLimits::default(), FileAccess::ALL);
    let session = stead_core::SessionId::from_bits(1);
    let order = ToolOrder { call, session, tool, arguments, limits, files, now, evaluator };
    let answer = workspace.call(order).await.answer;
    match (answer.result, answer.error) {
        (Some(result), None) => result,
        (None, Some(error)) => json!({"code": error.code, "message": error.message}),
        both => panic!("{both:?}"),
    }
}

pub(crate) fn action(action: Action) -> ActionOrder {
    let mut env = Env::default();
    env.set("OF_THE_PLAN", "plan");
    ActionOrder {
        action,
        env,
        bundle: None,
        layer: None,
        output: OutputSink::default(),
        now: Timestamp::from_millis(0),
    }
}

pub(crate) fn setup(number: u64, command: &str, timeout_seconds: u64) -> ActionOrder {
    action(Action::RunSetupCommand { number, command: command.to_owned(), timeout_seconds })
}

#[test]
fn native_conforms() {
    as_root_and_as_ordinary_user("native::native_conforms", |home, init| {
        run(conformance::check(&provider(home, init), 5000)).unwrap();
    });
}

#[test]
fn commands_are_results_and_their_ends_are_kept() {
    as_root_and_as_ordinary_user("native::commands_are_results_and_their_ends_are_kept", |home, init| {
        run(async {
            let provider = provider(home, init);
            let workspace = provider.create(&order(1)).await.unwrap();
            let result = call(
                &workspace,
                ToolName::Bash,
                json!({"command": "echo $OF_THE_BOX $A; cat; exit 3", "stdin": "in", "env": {"A": "a"}}),
            )
            .await;
            assert_eq!(
                (&result["exit_code"], &result["stdout"], &result["truncated"]),
                (&json!(3), &json!("box a\nin"), &json!(false))
            );
            let result =
                call(&workspace, ToolName::Bash, json!({"command": "(setsid sleep 60 &); sleep 60", "timeout": 1}))
                    .await;
            assert_eq!((&result["exit_code"], &result["timed_out"]), (&json!(124), &json!(true)));
            let result = call(&workspace, ToolName::Bash, json!({"command": "seq 100000", "cwd": "/tmp"})).await;
            let text = result["stdout"].as_str().unwrap();
            assert!(text.starts_with("1\n2\n") && text.ends_with("99999\n100000\n") && text.contains("bytes omitted"));
            assert_eq!((&result["stdout_total"], &result["truncated"]), (&json!(588_895), &json!(true)));
            let result =
                call(&workspace, ToolName::Python, json!({"code": "import sys; print(sys.version_info[0] * 7)"})).await;
            assert_eq!(result["stdout"], "21\n");
            let result = call(&workspace, ToolName::Bash, json!({"command": "true", "cwd": "/proc/self/fd/3"})).await;
            assert_eq!(result["code"], "invalid_cwd");
            provider.remove(order(1).workspace).await.unwrap();
            let gone = call(&workspace, ToolName::Bash, json!({"command": "true"})).await;
            assert_eq!(gone["code"], "box_failed");
        });
    });
}

#[test]
fn setup_commands_run_or_say_why_not() {
    as_root_and_as_ordinary_user("native::setup_commands_run_or_say_why_not", |home, init| {
        run(async {
            let provider = provider(home, init);
            let workspace = provider.create(&order(2)).await.unwrap();
            assert!(workspace.perform(setup(1, "echo $OF_THE_PLAN > made", 5)).await.is_ok());
            let failed = workspace.perform(setup(2, "echo because >&2; exit 9", 5)).await.err().unwrap();
            assert!(
                matches!(&failed, ProviderError::Setup { report, .. } if (report.number, report.exit_code, report.stderr.trim()) == (2, 9, "because")),
                "{failed}"
            );
            let late = workspace.perform(setup(3, "(setsid sleep 60 &) ; sleep 60", 1)).await.err().unwrap();
            assert!(
                matches!(&late, ProviderError::Setup { report, .. } if report.exit_code == 124 && report.timed_out),
                "{late}"
            );
            let left = call(&workspace, ToolName::Bash, json!({"command": "cat made; pgrep -c sleep"})).await;
            assert_eq!(left["stdout"], "plan\n0\n");
            provider.remove(order(2).workspace).await.unwrap();
        });
    });
}

#[test]
fn files_go_in_and_out_and_are_compared() {
    as_root_and_as_ordinary_user("native::files_go_in_and_out_and_are_compared", |home, init| {
        run(async {
            let provider = provider(home, init);
            let workspace = provider.create(&order(3)).await.unwrap();
            call(&workspace, ToolName::Bash, json!({"command": "mkdir d; echo one > d/a"})).await;
            workspace.begin().await.unwrap();
            call(&workspace, ToolName::Edit, json!({"path": "d/a", "old_string": "one", "new_string": "two"})).await;
            let patch = workspace.diff(Options::default()).await.unwrap();
            assert!(patch.text.contains("-one\n+two"), "{}", patch.text);
            let mut opened = workspace.open("d/a").await.unwrap();
            let stead_fs::Content::Stream { reader, size: 4 } = &mut opened.content else {
                panic!("not a stream of 4")
            };
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), opened.hash), ("two\n", stead_fs::ContentHash::of(b"two\n")));
            let refused = workspace.open_within("d/a", 3).await.err();
            assert!(matches!(refused, Some(stead_fs::FsError::TooLarge { size: 4, limit: 3, .. })), "{refused:?}");
            assert!(workspace.open_within("d/a", 4).await.is_ok());
            let listed = workspace.list("d").await.unwrap();
            assert_eq!((listed.total, listed.entries[0].path.to_string()), (1, "d/a".to_owned()));
            assert!(matches!(workspace.list("x").await, Err(stead_fs::FsError::NotFound { .. })));
            let mut tar = tempfile::tempfile().unwrap();
            workspace.export("d", tar.try_clone().unwrap()).await.unwrap();
            tar.rewind().unwrap();
            let mut bytes = Vec::new();
            tar.read_to_end(&mut bytes).unwrap();
            assert!(bytes.windows(4).any(|window| window == b"two\n"));
            let mut content = tempfile::tempfile().unwrap();
            content.write_all(b"put").unwrap();
            let put = |existing| FileOrder::Put {
                path: "e/put".to_owned(),
                content: content.try_clone().unwrap(),
                bytes: 3,
                if_match: None,
                existing,
                parents: Parents::Make,
            };
            let now = Timestamp::from_millis(0);
            let done = workspace.operate(put(Existing::Replace), now).await.unwrap();
            assert_eq!(done.placement, Some(Placement::Created));
            let refused = workspace.operate(put(Existing::Refuse), now).await.err().unwrap();
            assert!(matches!(refused, OperateError::Present { .. }), "{refused}");
            let result = call(&workspace, ToolName::Bash, json!({"command": "cat e/put"})).await;
            assert_eq!(result["stdout"], "put");
            provider.remove(order(3).workspace).await.unwrap();
        });
    });
}

/// A new server finds the boxes of the previous one, running or not.
#[test]
fn a_new_server_takes_up_the_boxes_of_the_old_one() {
    as_root_and_as_ordinary_user("native::a_new_server_takes_up_the_boxes_of_the_old_one", |home, init| {
        run(async {
            let before = provider(home, init.clone());
            let workspace = before.create(&order(4)).await.unwrap();
            call(&workspace, ToolName::Bash, json!({"command": "echo kept > a; sync; (setsid sleep 60 &)"})).await;
            let held = workspace.enforced_limits();
            drop((workspace, before));

            let after = provider(home, init.clone());
            assert_eq!(after.list().await.unwrap(), [order(4).workspace]);
            let adopt = AdoptOrder { create: order(4), history: Vec::new() };
            let workspace = after.adopt(&adopt).await.unwrap();
            assert_eq!(workspace.enforced_limits(), held);
            let result = call(&workspace, ToolName::Bash, json!({"command": "cat a; pgrep -c sleep"})).await;
            assert_eq!(result["stdout"], "kept\n1\n");
            // The box ends, but its files stay.
            stead_box::RunningBox::find(&home.join("boxes").join(order(4).workspace.to_string()))
                .unwrap()
                .kill()
                .unwrap();
            let workspace = after.adopt(&adopt).await.unwrap();
            let result = call(&workspace, ToolName::Bash, json!({"command": "cat a; pgrep -c sleep"})).await;
            assert_eq!(result["stdout"], "kept\n0\n");
            let unknown = AdoptOrder { create: order(5), history: Vec::new() };
            assert!(matches!(after.adopt(&unknown).await, Err(ProviderError::Gone { .. })));
            // A server with another instance name neither sees nor removes it.
            let other = named(home, init, "other".to_owned());
            assert_eq!(other.list().await.unwrap(), []);
            other.remove(order(4).workspace).await.unwrap();
            assert_eq!(after.list().await.unwrap(), [order(4).workspace]);
            after.remove(order(4).workspace).await.unwrap();
        });
    });
}

/// Answers every greeting of the server like a box with another protocol version.
fn answer_with_another_version(directory: &Path) {
    let path = directory.join("control.sock");
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let hello = encode(&Reply { id: 1, answer: Answer::Hello { version: VERSION + 1 } }, &[]).unwrap();
    std::thread::spawn(move || {
        // A closed connection would lose the answer.
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(&hello).unwrap();
            open.push(stream);
        }
    });
}

#[test]
fn a_box_of_another_protocol_version_is_replaced_over_its_files() {
    let name = "native::a_box_of_another_protocol_version_is_replaced_over_its_files";
    as_root_and_as_ordinary_user(name, |home, init| {
        run(async {
            let before = provider(home, init.clone());
            let workspace = before.create(&order(6)).await.unwrap();
            call(&workspace, ToolName::Bash, json!({"command": "echo kept > a; sync; (setsid sleep 60 &)"})).await;
            drop((workspace, before));
            answer_with_another_version(&home.join("boxes").join(order(6).workspace.to_string()));

            let after = provider(home, init);
            let adopt = AdoptOrder { create: order(6), history: Vec::new() };
            let workspace = after.adopt(&adopt).await.unwrap();
            assert!(!workspace.execs().unwrap().started_anew(), "the server has not asked the box yet");
            let result = call(&workspace, ToolName::Bash, json!({"command": "cat a; pgrep -c sleep"})).await;
            assert_eq!(result["stdout"], "kept\n0\n", "{result}");
            assert!(workspace.execs().unwrap().started_anew());
            after.remove(order(6).workspace).await.unwrap();
        });
    });
}
