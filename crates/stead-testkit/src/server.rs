//! A real server as a child process.

use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;

/// Options of a test server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    pub env: Vec<(String, String)>,
    /// Value of `FAILPOINTS`: named places in the code where this server waits or fails.
    pub failpoints: Option<String>,
}

impl ServerOptions {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn failpoints(mut self, points: &str) -> Self {
        self.failpoints = Some(points.to_owned());
        self
    }
}

pub struct TestServer {
    binary: PathBuf,
    home: PathBuf,
    /// The temporary directory of the home, if the server has one of its own. It is removed with
    /// this value.
    directory: Option<tempfile::TempDir>,
    options: ServerOptions,
    child: Option<Child>,
    client: Client,
    /// True if dropping this verifies the journals. False for tests that damage them.
    prove: bool,
}

impl TestServer {
    /// Starts the binary with a new home and waits until it is ready.
    pub fn start(binary: &str) -> Self {
        Self::start_with(binary, ServerOptions::default())
    }

    pub fn start_with(binary: &str, options: ServerOptions) -> Self {
        let directory = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
        let mut server = Self::new(binary, directory.path(), options);
        server.directory = Some(directory);
        server.launch();
        server
    }

    /// Starts the binary with a home of the caller.
    pub fn start_at(binary: &str, home: &Path, options: ServerOptions) -> Self {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home).unwrap();
        let mut server = Self::new(binary, home, options);
        server.launch();
        server
    }

    fn new(binary: &str, home: &Path, options: ServerOptions) -> Self {
        Self {
            binary: PathBuf::from(binary),
            home: home.to_owned(),
            directory: None,
            options,
            child: None,
            client: Client::new("http://127.0.0.1:9", None),
            prove: true,
        }
    }

    fn launch(&mut self) {
        let _ = std::fs::remove_file(self.home().join("server.json"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = Command::new(&self.binary);
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).env_clear().env("STEAD_HOME", self.home());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("RUST_BACKTRACE", "1");
        // Tests of boxes set another provider. All others use memory.
        command.env("WORKSPACE_DEFAULT_PROVIDER", "memory");
        command.envs(self.options.env.iter().map(|(name, value)| (name, value)));
        if let Some(points) = &self.options.failpoints {
            command.env("FAILPOINTS", points);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.child = Some(child);
        self.wait_ready();
    }

    fn log_path(&self) -> PathBuf {
        self.home().join("server.log")
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn wait_ready(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            if let Some((url, token)) = self.address() {
                self.client = Client::new(&url, Some(token));
                if self.client.try_send("GET", "/readyz", &[], None).is_ok_and(|reply| reply.status == 200) {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "the server is not ready after 30 s:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn address(&self) -> Option<(String, String)> {
        let text = std::fs::read_to_string(self.home().join("server.json")).ok()?;
        let record: Value = serde_json::from_str(&text).ok()?;
        let pid = self.child.as_ref().map(Child::id);
        (record["pid"].as_u64() == pid.map(u64::from)).then_some(())?;
        let token = std::fs::read_to_string(self.home().join("token")).ok()?;
        Some((record["url"].as_str()?.trim_end_matches('/').to_owned(), token.trim().to_owned()))
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns a client with the admin token.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Waits until the server exits by itself, and returns its exit status.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server was started");
        crate::until("the server's own end", || child.try_wait().unwrap())
    }

    /// Moves the home of a stopped server, and starts the server there.
    pub fn start_moved(&mut self, home: &Path) {
        assert!(self.child.is_none(), "stop the server before its home is moved");
        std::fs::rename(&self.home, home).unwrap();
        self.home = home.to_owned();
        self.launch();
    }

    /// Starts a stopped server again.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "the server runs");
        self.launch();
    }

    /// Kills the server with SIGKILL, which counts as normal operation.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Waits up to 60 seconds until the server exits by itself. Returns its exit status.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let Some(mut child) = self.child.take() else { panic!("the server has ended before") };
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("the server did not end by itself within 60 s:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the server with SIGTERM. Returns its exit status.
    pub fn terminate(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("the server did not end within 20 s of SIGTERM:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the server and starts it again on the same home, with other fail points.
    pub fn restart(&mut self, failpoints: Option<&str>) {
        self.kill();
        self.options.failpoints = failpoints.map(str::to_owned);
        self.launch();
    }

    /// Creates an agent type.
    #[track_caller]
    pub fn agent_type(&self, id: &str, workspace: Value) -> Value {
        self.client.post("/agent-types", json!({"id": id, "workspace": workspace})).expect(201)
    }

    /// Creates a session and waits until provisioning has ended.
    #[track_caller]
    pub fn session(&self, body: Value) -> Value {
        let mut session = self.client.post("/sessions?wait=30", body).expect(201);
        let deadline = Instant::now() + Duration::from_secs(180);
        while session["status"] == "provisioning" && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            let later = self.client.get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
            // Keeps the token, which only the create response contains.
            session.as_object_mut().unwrap().extend(later.as_object().unwrap().clone());
        }
        session
    }

    /// Calls a tool. Panics if the call is refused.
    #[track_caller]
    pub fn tool(&self, session: &Value, tool: &str, arguments: Value) -> Value {
        let id = session["id"].as_str().unwrap();
        self.client.post(&format!("/sessions/{id}/tools/{tool}"), arguments).expect(200)
    }

    /// Disables the verification of the journals at the end, because this test damages them on
    /// purpose.
    pub fn broken_on_purpose(&mut self) {
        self.prove = false;
    }

    /// Closes every session that is not closed.
    fn close_all(&self) -> Result<(), ureq::Error> {
        for status in ["active", "provisioning", "closing", "failed"] {
            let page = self.client.try_send("GET", &format!("/sessions?limit=500&status={status}"), &[], None)?;
            for session in page.json()["items"].as_array().into_iter().flatten() {
                let id = session["id"].as_str().unwrap_or_default();
                self.client.try_send("DELETE", &format!("/sessions/{id}"), &[], None)?;
            }
        }
        Ok(())
    }

    /// Verifies that every session replays to its live state.
    fn prove_journals(&self) {
        let mut cursor = String::new();
        loop {
            let page = self.client.get(&format!("/sessions?limit=100{cursor}")).expect(200);
            for session in page["items"].as_array().into_iter().flatten() {
                let id = session["id"].as_str().unwrap();
                let report = self.client.get(&format!("/sessions/{id}/replay")).expect(200);
                assert_eq!(report["identical"], true, "{report}");
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return,
            }
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- server log\n{}", self.log());
            // Boxes outlive a server by design. A failed test must not leave them to the next one.
            let _ = self.close_all();
            if let Some(mut child) = self.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
            return;
        }
        if self.child.is_none() {
            return;
        }
        if self.prove {
            self.prove_journals();
        }
        let instance = instance(self.home());
        self.close_all().unwrap();
        let below = self.pid().map(descendants).unwrap_or_default();
        let status = self.terminate().unwrap();
        assert!(status.success(), "the server ended with {status}:\n{}", self.log());
        // Check this after the server has ended, because the boxes of a warm pool live as long as
        // the server.
        for boxes in ["boxes", "podman/boxes"] {
            let left = std::fs::read_dir(self.home().join(boxes)).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{boxes} are left of closed sessions");
        }
        // Helper processes exit when they notice the end of the server. A mount of the host ends
        // with the last namespace that has a copy of it.
        let deadline = Instant::now() + Duration::from_secs(20);
        let left = || below.iter().filter(|process| alive(process)).collect::<Vec<_>>();
        while !(held_by(self.home()).is_empty() && left().is_empty()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(left(), Vec::<&Process>::new(), "the server left processes behind");
        assert_eq!(held_by(self.home()), Vec::<String>::new(), "the host still holds something of the server");
        let groups = instance.map(|instance| groups_of(&instance)).unwrap_or_default();
        assert_eq!(groups, Vec::<PathBuf>::new(), "control groups are left");
    }
}

/// Returns the instance name of a home's boxes, if there is a box.
fn instance(home: &Path) -> Option<String> {
    let mut boxes = std::fs::read_dir(home.join("boxes")).into_iter().flatten().flatten();
    let record = |path: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(path.join("box.json")).ok()?).ok();
    boxes.find_map(|entry| Some(record(entry.path())?["instance"].as_str()?.to_owned()))
}

/// Returns the control groups with that name, in every hierarchy.
fn groups_of(instance: &str) -> Vec<PathBuf> {
    let list = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let top = list("/sys/fs/cgroup".into()).filter(|path| path.is_dir()).collect::<Vec<_>>();
    let below = top.iter().cloned().flat_map(list).collect::<Vec<_>>();
    let name = format!("stead-{instance}-");
    let named = |path: &PathBuf| path.file_name().is_some_and(|found| found.to_string_lossy().starts_with(&name));
    top.into_iter().chain(below).filter(named).collect()
}

/// Returns mounts and loop devices that refer to files below a directory.
fn held_by(home: &Path) -> Vec<String> {
    let home = home.to_string_lossy().into_owned();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut held: Vec<String> = mounts.lines().filter(|line| line.contains(&home)).map(str::to_owned).collect();
    for device in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(&home) {
            held.push(format!("{}: {}", device.file_name().to_string_lossy(), backing.trim()));
        }
    }
    held
}

/// A process id with its start time, so that a reused id does not match.
type Process = (u32, String);

/// Returns all descendants of a process.
fn descendants(root: u32) -> Vec<Process> {
    let all: Vec<(Process, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| facts(pid).map(|(parent, start)| ((pid, start), parent)))
        .collect();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (process, _) in all.iter().filter(|(_, above)| *above == parent) {
            parents.push(process.0);
            found.push(process.clone());
        }
    }
    found
}

/// Returns the parent and the start time of a running process; `None` for a zombie.
fn facts(pid: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields after the command name in parentheses: state, parent, …, and the start time as the
    // 20th.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let running = !matches!(*fields.first()?, "Z" | "X");
    running.then_some((fields.get(1)?.parse().ok()?, (*fields.get(19)?).to_owned()))
}

fn alive(process: &Process) -> bool {
    facts(process.0).is_some_and(|(_, start)| start == process.1)
}
