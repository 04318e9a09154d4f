//! Runs every block of a page in one shell and compares the output.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::output_comparison::difference;
use super::page::{Block, How, Page};
use crate::cli::kit::BINARY;
use crate::cli::terminal::Terminal;
use crate::rows::build_init;

/// Timeout for a whole page on a slow, busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Start of the shell script: if a command fails, the exit trap closes all sessions and stops the
/// server.
const BEGINNING: &str = r#"
set -Eeuo pipefail
set -o allexport
leave() {
    code=$?
    trap - EXIT ERR
    set +e
    exec >"$PRINTED/leave" 2>&1
    for id in $(stead session ls --limit 500 --json | sed -n 's/^ *"id": "\(ses_[^"]*\)".*/\1/p'); do
        stead session close "$id"
    done
    stead stop
    wait
    exit "$code"
}
trap leave EXIT
# Asks whoever runs this for a terminal, and waits until what runs on it has ended.
on_terminal() {
    export -p > "$PRINTED/$1.wanted.new"
    mv "$PRINTED/$1.wanted.new" "$PRINTED/$1.wanted"
    until [ -e "$PRINTED/$1.ended" ]; do sleep 0.05; done
    return "$(cat "$PRINTED/$1.ended")"
}
says() {
    for _ in $(seq 600); do
        if grep -q "$2" "$PRINTED/$1"; then return 0; fi
        sleep 0.1
    done
    echo "$1 did not say '$2' within a minute" >&2
    return 1
}
"#;

/// Runs every block of a page.
pub(super) fn follow(page: &Page) {
    build_init();
    let directory = tempfile::Builder::new().prefix("stead-guide-").tempdir().unwrap();
    let reader = Reader::new(page, directory.path());
    reader.prepare();
    let child = reader.begin();
    let ended = reader.wait(child);
    assert!(ended, "{}", reader.report("the page did not come to its end"));
    for block in page.blocks.iter().filter(|block| !matches!(block.how, How::Unrun(_))) {
        reader.compare(block);
    }
    let verified = reader.command(BINARY).arg("verify").output().unwrap();
    assert!(verified.status.success(), "{}: {verified:?}", page.name);
    let boxes = fs::read_dir(reader.home().join("boxes")).map_or(0, Iterator::count);
    assert_eq!(boxes, 0, "{}: boxes are left", page.name);
}

struct Reader<'a> {
    page: &'a Page,
    directory: &'a Path,
}

impl<'a> Reader<'a> {
    fn new(page: &'a Page, directory: &'a Path) -> Self {
        Self { page, directory }
    }

    fn home(&self) -> PathBuf {
        self.directory.join("user/.local/share/stead")
    }

    fn printed(&self, name: &str) -> String {
        let bytes = fs::read(self.directory.join("printed").join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Creates an empty home of a user, and the parts of a checkout that the pages mention.
    fn prepare(&self) {
        for folder in ["user", "printed", "work/target"] {
            fs::create_dir_all(self.directory.join(folder)).unwrap();
        }
        let work = self.directory.join("work");
        fs::copy(super::root().join("README.md"), work.join("README.md")).unwrap();
        let copied = Command::new("cp").arg("-R").arg(super::root().join("examples")).arg(&work).status().unwrap();
        assert!(copied.success());
        std::os::unix::fs::symlink(Path::new(BINARY).parent().unwrap(), work.join("target/debug")).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        let programs = Path::new(BINARY).parent().unwrap().display().to_string();
        command.env_clear().current_dir(self.directory.join("work")).stdin(Stdio::null());
        command.env("HOME", self.directory.join("user")).env("PATH", format!("{programs}:{path}"));
        command.env("PRINTED", self.directory.join("printed"));
        command
    }

    fn begin(&self) -> Child {
        let script = self.directory.join("page.sh");
        fs::write(&script, self.script()).unwrap();
        let errors = fs::File::create(self.directory.join("printed/shell")).unwrap();
        let mut command = self.command("bash");
        command.arg(script).stdout(Stdio::null()).stderr(errors).process_group(0).spawn().unwrap()
    }

    fn script(&self) -> String {
        let mut script = BEGINNING.to_owned();
        if !self.page.blocks.iter().any(|block| block.how == How::Stays) {
            script += "stead serve --listen 127.0.0.1:0 >\"$PRINTED/server\" 2>&1 &\nsays server serves\n";
        }
        for Block { line, how, text, .. } in &self.page.blocks {
            let into = format!(">\"$PRINTED/{line}\" 2>&1");
            script += &match how {
                How::Run => format!("exec {into}\n{text}\n"),
                // Waits for the last line that `up` prints, or the first of `serve`: then the
                // server is ready.
                How::Stays => {
                    let last = if text.ends_with(" up") { "Ctrl-C" } else { "serves" };
                    format!(": {into}\n{{\n{text}\n}} {into} &\nsays {line} {last}\n")
                }
                How::Terminal => format!("on_terminal {line}\n"),
                How::Unrun(_) => String::new(),
            };
        }
        script + "exec >\"$PRINTED/end\" 2>&1\necho the end\n"
    }

    /// Returns true if the shell reached the end of the page successfully.
    fn wait(&self, mut child: Child) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.success() && self.printed("end") == "the end\n";
            }
            self.page
                .blocks
                .iter()
                .filter(|block| block.how == How::Terminal)
                .for_each(|block| self.on_terminal(block));
            if Instant::now() > deadline {
                let group = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
                child.wait().unwrap();
                panic!("{}", self.report("the page did not end in time"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a block on a terminal once the shell has reached it, with the shell's variables.
    fn on_terminal(&self, block: &Block) {
        let file = |what: &str| self.directory.join("printed").join(format!("{}{what}", block.line));
        if !file(".wanted").exists() || file(".ended").exists() {
            return;
        }
        let mut command = self.command("bash");
        command.args(["-c", &format!("source '{}'\n{}", file(".wanted").display(), block.text)]);
        let mut terminal = Terminal::new();
        let mut child = terminal.spawn(command);
        terminal.type_until("", "$ ");
        terminal.type_until("exit\n", "exit");
        let code = terminal.until_end(&mut child).unwrap_or(1);
        fs::write(file(""), &terminal.seen).unwrap();
        fs::write(file(".ended.new"), code.to_string()).unwrap();
        fs::rename(file(".ended.new"), file(".ended")).unwrap();
    }

    fn compare(&self, block: &Block) {
        let printed = self.printed(&block.line.to_string());
        let Some(missing) = block.shown.as_ref().and_then(|shown| difference(shown, &printed)) else { return };
        let location = format!("{}:{}", self.page.name, block.line);
        panic!("{}", self.report(&format!("{location}: the page shows\n  {missing}\nand it printed\n{printed}")));
    }

    /// Formats a failure with the output of every block.
    fn report(&self, what: &str) -> String {
        let mut report = format!("{}: {what}\n", self.page.name);
        for block in &self.page.blocks {
            let printed = self.printed(&block.line.to_string());
            report += &format!("--- line {}\n{}\n--- printed\n{printed}\n", block.line, block.text);
        }
        report + &format!("--- shell\n{}\n--- server\n{}\n", self.printed("shell"), self.printed("server"))
    }
}
