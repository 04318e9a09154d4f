//! A real smart-HTTP git server on loopback: git's own `http-backend` behind a minimal HTTP server,
//! with faults for tests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::lfs_server::{self, Asked, LfsFault};

/// Number of bytes that [`Fault::Held`] delays.
const LAST_BYTES: usize = 64;

/// A fault of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// Redirects every request to this base URL.
    Redirect(String),
    Status(u16),
    /// Responds to every request with this web page.
    Page(String),
    /// Reads the request and never responds.
    Silent,
    /// Cuts each response after this many bytes.
    Cut(usize),
    /// Responds to this many requests with 503.
    Busy(usize),
    /// Delays the last bytes of a pack until the fault changes.
    Held,
    /// Offers the repositories as plain files.
    Dumb,
}

#[derive(Debug, Clone)]
pub struct GitRequest {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    /// True if this is the request of a fetch that transfers the objects.
    pub wants_pack: bool,
}

#[derive(Default)]
struct Behaviour {
    auth: Option<(String, String)>,
    fault: Fault,
    lfs_fault: LfsFault,
    requests: Vec<GitRequest>,
}

pub struct GitServer {
    root: tempfile::TempDir,
    port: u16,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl GitServer {
    pub fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let behaviour = Arc::new(Mutex::new(Behaviour::default()));
        let (shared, root_path) = (behaviour.clone(), root.path().to_owned());
        // The thread ends with the process. An idle listener costs nothing.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, root_path) = (shared.clone(), root_path.clone());
                std::thread::spawn(move || {
                    let _ = answer(stream, &root_path, &shared);
                });
            }
        });
        Self { root, port, behaviour }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.host())
    }

    pub fn require(&self, user: &str, password: &str) {
        self.behaviour.lock().unwrap().auth = Some((user.to_owned(), password.to_owned()));
    }

    pub fn fault(&self, fault: Fault) {
        self.behaviour.lock().unwrap().fault = fault;
    }

    pub fn lfs_fault(&self, fault: LfsFault) {
        self.behaviour.lock().unwrap().lfs_fault = fault;
    }

    pub fn requests(&self) -> Vec<GitRequest> {
        self.behaviour.lock().unwrap().requests.clone()
    }

    /// Returns the number of requested packs.
    pub fn packs(&self) -> usize {
        self.requests().iter().filter(|request| request.wants_pack).count()
    }

    pub fn path(&self, repository: &str) -> PathBuf {
        self.root.path().join(repository)
    }

    /// Makes a repository available under another name.
    pub fn alias(&self, alias: &str, repository: &str) -> String {
        let link = self.path(alias);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = std::os::unix::fs::symlink(self.path(repository), link);
        self.url(alias)
    }

    /// Makes a bare repository with one commit of these files on `main`, in one pack with deltas,
    /// as on a forge.
    pub fn import(&self, name: &str, files: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let bare = self.path(name);
        let git = |args: &[&str]| plain_git(self.root.path()).args(args).status().unwrap();
        assert!(git(&["init", "-q", "--bare", "-b", "main", name]).success());
        let mut import = plain_git(&bare).args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut out = BufWriter::new(import.stdin.take().unwrap());
        out.write_all(b"commit refs/heads/main\ncommitter B <b@example.org> 1700000000 +0000\ndata 5\nfirst\n")
            .unwrap();
        for (path, content) in files {
            write!(out, "M 100644 inline {path}\ndata {}\n", content.len()).unwrap();
            out.write_all(&content).unwrap();
            out.write_all(b"\n").unwrap();
        }
        out.write_all(b"done\n").unwrap();
        drop(out);
        assert!(import.wait().unwrap().success());
        assert!(plain_git(&bare).args(["repack", "-a", "-d", "-q"]).status().unwrap().success());
    }

    /// Makes a bare repository with these files on `main`.
    pub fn repository(&self, name: &str, files: &[(&str, &str)]) -> Repository {
        Repository::create(&self.path(name), files)
    }
}

/// A git command that reads no user or system configuration.
pub(crate) fn plain_git(directory: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .stdin(Stdio::null());
    git
}

/// A bare repository, and a work tree to change it. Its git reads no user or system configuration.
pub struct Repository {
    bare: PathBuf,
    work: tempfile::TempDir,
}

impl Repository {
    pub fn create(bare: &Path, files: &[(&str, &str)]) -> Self {
        let repository = Self { bare: bare.to_owned(), work: tempfile::tempdir().unwrap() };
        let path = bare.to_str().unwrap();
        repository.git(&["init", "-q", "--bare", "-b", "main", path]);
        repository.git(&["init", "-q", "-b", "main", "."]);
        repository.git(&["--git-dir", path, "config", "http.receivepack", "true"]);
        repository.git(&["remote", "add", "origin", path]);
        repository.commit(files, "first");
        repository
    }

    pub fn work(&self) -> &Path {
        self.work.path()
    }

    pub fn bare(&self) -> &Path {
        &self.bare
    }

    pub fn git(&self, args: &[&str]) -> String {
        let output = plain_git(self.work.path())
            .args(["-c", "protocol.file.allow=always"])
            .args(args)
            .envs([("GIT_AUTHOR_NAME", "T"), ("GIT_AUTHOR_EMAIL", "t@example.org")])
            .envs([("GIT_COMMITTER_NAME", "T"), ("GIT_COMMITTER_EMAIL", "t@example.org")])
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Writes files, commits them to the checked-out branch and pushes it. Returns the commit.
    pub fn commit(&self, files: &[(&str, &str)], message: &str) -> String {
        for (path, text) in files {
            let path = self.work().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["push", "-q", "origin", "HEAD"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Returns the commit of a reference in the bare repository.
    pub fn remote(&self, reference: &str) -> String {
        self.git(&["--git-dir", self.bare.to_str().unwrap(), "rev-parse", reference])
    }
}

fn answer(mut stream: TcpStream, root: &Path, behaviour: &Mutex<Behaviour>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let headers = read_headers(&mut reader)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let authorization = headers.get("authorization").cloned();
    let (number, fault, refused) = {
        let mut behaviour = behaviour.lock().unwrap();
        let (method, path, authorization) = (method.clone(), path.to_owned(), authorization.clone());
        behaviour.requests.push(GitRequest { method, path, authorization: authorization.clone(), wants_pack: false });
        let allowed =
            behaviour.auth.as_ref().map(|(user, password)| format!("Basic {}", base64(&format!("{user}:{password}"))));
        let fault = behaviour.fault.clone();
        if let Fault::Busy(left) = &mut behaviour.fault {
            *left = left.saturating_sub(1);
        }
        (behaviour.requests.len() - 1, fault, allowed.is_some_and(|allowed| authorization.as_ref() != Some(&allowed)))
    };
    match fault {
        Fault::Redirect(base) => {
            return write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {base}{target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        Fault::Status(code) => {
            return write!(stream, "HTTP/1.1 {code} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        Fault::Page(page) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close";
            return write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        }
        Fault::Busy(1..) => {
            return write!(stream, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        Fault::Silent => {
            std::thread::sleep(Duration::from_secs(120));
            return Ok(());
        }
        Fault::None | Fault::Cut(_) | Fault::Held | Fault::Dumb | Fault::Busy(0) => {}
    }
    if refused {
        // This server repeats the credentials. The tests check that they appear nowhere.
        let body = format!("go away {}", authorization.unwrap_or_default());
        return write!(
            stream,
            "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    }
    if headers.get("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue")) {
        write!(stream, "HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(&mut reader, &headers)?;
    if lfs_server::is_lfs(path) {
        let host = headers.get("host").cloned().unwrap_or_default();
        let authorization = authorization.unwrap_or_default();
        let asked = Asked { method: &method, host: &host, authorization: &authorization, path, body: &body, root };
        let fault = {
            let mut behaviour = behaviour.lock().unwrap();
            let fault = behaviour.lfs_fault.clone();
            if let (LfsFault::Cut(left), "GET") = (&mut behaviour.lfs_fault, method.as_str()) {
                *left = left.saturating_sub(1);
            }
            fault
        };
        let still = || behaviour.lock().unwrap().lfs_fault == LfsFault::Held;
        return lfs_server::answer(&mut stream, &asked, &fault, still);
    }
    let is_pack = wants_pack(&headers, &body);
    if is_pack {
        behaviour.lock().unwrap().requests[number].wants_pack = true;
    }
    // The query names the smart service. Without it git's program offers plain files.
    let query = if fault == Fault::Dumb { "" } else { query };
    let mut backend = Backend::start(root, &method, path, query, &headers, body)?;
    stream.write_all(backend.head()?.as_bytes())?;
    match fault {
        Fault::Cut(bytes) => {
            std::io::copy(&mut (&mut backend.output).take(bytes as u64), &mut stream)?;
        }
        Fault::Held if is_pack => {
            let mut pack = Vec::new();
            backend.output.read_to_end(&mut pack)?;
            let (most, rest) = pack.split_at(pack.len().saturating_sub(LAST_BYTES));
            stream.write_all(most)?;
            // A failed test never changes the fault. Then this thread ends with the process.
            while behaviour.lock().unwrap().fault == Fault::Held {
                std::thread::sleep(Duration::from_millis(10));
            }
            stream.write_all(rest)?;
        }
        _ => {
            std::io::copy(&mut backend.output, &mut stream)?;
        }
    }
    Ok(())
}

/// Returns true for a fetch request of protocol version 2, as opposed to a listing. Git only
/// compresses long requests, which are fetches with many haves.
fn wants_pack(headers: &HashMap<String, String>, body: &[u8]) -> bool {
    headers.contains_key("content-encoding") || body.windows(13).any(|window| window == b"command=fetch")
}

fn read_headers(reader: &mut impl BufRead) -> std::io::Result<HashMap<String, String>> {
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(headers);
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
}

fn read_body(reader: &mut impl BufRead, headers: &HashMap<String, String>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
            reader.by_ref().take(size).read_to_end(&mut body)?;
            reader.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_end(&mut body)?;
    Ok(body)
}

/// A running CGI program of git. Its output is passed on as it comes, and ends with the connection.
struct Backend {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Backend {
    fn start(
        root: &Path,
        method: &str,
        path: &str,
        query: &str,
        headers: &HashMap<String, String>,
        body: Vec<u8>,
    ) -> std::io::Result<Self> {
        let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
        let mut child = Command::new("git")
            .arg("http-backend")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_PROJECT_ROOT", root)
            .envs([("GIT_HTTP_EXPORT_ALL", "1"), ("REMOTE_USER", "someone"), ("REMOTE_ADDR", "127.0.0.1")])
            .envs([("REQUEST_METHOD", method), ("PATH_INFO", path), ("QUERY_STRING", query)])
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("GIT_PROTOCOL", header("git-protocol"))
            .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
            .envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (mut stdin, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // The program may close its input early and reports that itself.
        std::thread::spawn(move || stdin.write_all(&body));
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Converts the program's headers into those of an HTTP response.
    fn head(&mut self) -> std::io::Result<String> {
        let (mut status, mut kept) = ("200 OK".to_owned(), String::new());
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 || line.trim().is_empty() {
                return Ok(format!("HTTP/1.1 {status}\r\n{kept}Connection: close\r\n\r\n"));
            }
            match line.strip_prefix("Status: ") {
                Some(value) => status = value.trim().to_owned(),
                None => kept += &line,
            }
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // Kills a program whose output is no longer needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for piece in text.as_bytes().chunks(3) {
        let at = |index: usize| u32::from(piece.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = ALPHABET[(group >> shift & 63) as usize];
            encoded.push(if index <= piece.len() { char::from(digit) } else { '=' });
        }
    }
    encoded
}
