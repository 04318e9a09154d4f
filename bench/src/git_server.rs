//! Repositories of a known size behind git's own `http-backend`, for the server under test and for a plain git alike.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

pub(crate) struct GitServer {
    root: tempfile::TempDir,
    port: u16,
}

impl GitServer {
    pub(crate) fn start() -> Result<Self> {
        let root = tempfile::tempdir()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let place = root.path().to_owned();
        // Ends with the process: a listener nobody connects to costs nothing.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let place = place.clone();
                std::thread::spawn(move || answer(stream, &place));
            }
        });
        Ok(Self { root, port })
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same repository under any number of addresses: `alias` is not looked at.
    pub(crate) fn url(&self, alias: &str, repository: &str) -> String {
        format!("http://{}/{alias}/{repository}", self.host())
    }

    pub(crate) fn path(&self, repository: &str) -> PathBuf {
        self.root.path().join(repository)
    }

    /// The name of the repository's only commit.
    pub(crate) fn commit(&self, repository: &str) -> Result<String> {
        let told = Command::new("git").args(["rev-parse", "main"]).current_dir(self.path(repository)).output()?;
        ensure!(told.status.success(), "git rev-parse: {}", String::from_utf8_lossy(&told.stderr));
        Ok(String::from_utf8(told.stdout)?.trim().to_owned())
    }

    /// A bare repository with one commit on `main` of these files.
    pub(crate) fn add(&self, name: &str, files: impl Iterator<Item = (String, Vec<u8>)>) -> Result<()> {
        let bare = self.path(name);
        git(&self.path(""), &["init", "-q", "--bare", "-b", "main", name])?;
        let mut import = Command::new("git")
            .args(["fast-import", "--quiet"])
            .current_dir(&bare)
            .stdin(Stdio::piped())
            .spawn()
            .context("start git fast-import")?;
        let stdin = import.stdin.take().context("no input")?;
        let mut out = BufWriter::new(stdin);
        out.write_all(b"commit refs/heads/main\ncommitter B <b@example.org> 1700000000 +0000\ndata 5\nfirst\n")?;
        for (path, content) in files {
            write!(out, "M 100644 inline {path}\ndata {}\n", content.len())?;
            out.write_all(&content)?;
            out.write_all(b"\n")?;
        }
        out.write_all(b"done\n")?;
        drop(out.into_inner().context("feed git fast-import")?);
        ensure!(import.wait()?.success(), "git fast-import failed");
        // As a forge has them: one pack with its deltas.
        git(&bare, &["repack", "-a", "-d", "-q"])
    }
}

/// A git that reads nobody's settings.
pub(crate) fn git(directory: &Path, args: &[&str]) -> Result<()> {
    let done = Command::new("git")
        .args(args)
        .current_dir(directory)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

fn answer(mut stream: TcpStream, root: &Path) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        headers.extend(line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())));
    }
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
    let mut body = Vec::new();
    let length = header("content-length").parse().unwrap_or(0);
    reader.take(length).read_to_end(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    // Without the alias.
    let path = path.get(1..).and_then(|path| path.split_once('/')).map_or("", |(_, path)| path);
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .envs([("GIT_HTTP_EXPORT_ALL", "1"), ("REMOTE_ADDR", "127.0.0.1"), ("REQUEST_METHOD", method.as_str())])
        .env("PATH_INFO", format!("/{path}"))
        .envs([("QUERY_STRING", query), ("CONTENT_TYPE", header("content-type"))])
        .env("CONTENT_LENGTH", body.len().to_string())
        .envs([("HTTP_CONTENT_ENCODING", header("content-encoding")), ("GIT_PROTOCOL", header("git-protocol"))])
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // What a fetch asks is small: it fits the pipe.
    child.stdin.take().context("no input")?.write_all(&body)?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let (mut status, mut head) = ("200 OK".to_owned(), String::new());
    loop {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        match line.strip_prefix("Status: ") {
            Some(told) => status = told.trim().to_owned(),
            None => head += &line,
        }
    }
    write!(stream, "HTTP/1.1 {status}\r\n{head}Connection: close\r\n\r\n")?;
    std::io::copy(&mut output, &mut stream)?;
    child.wait()?;
    Ok(())
}
