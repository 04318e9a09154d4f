//! `stead login` and `stead logout`, and the order in which commands choose a server.

use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::kit::{self, BINARY, Ran, finish};
use crate::cli::terminal::Terminal;

/// A user without a server of their own.
struct User {
    directory: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.env_clear().env("HOME", self.directory.path()).args(args).stdin(std::process::Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        finish(&mut self.command(args))
    }

    fn login(&self, url: &str, token: &str) -> Ran {
        let file = self.directory.path().join("typed");
        std::fs::write(&file, token).unwrap();
        finish(self.command(&["login", url, "--token-stdin"]).stdin(File::open(file).unwrap()))
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join(".config/stead/login.json")
    }
}

fn url_and_token(home: &Path) -> (String, String) {
    let url = kit::run(home, &["status", "--field", "url"]).ok().trim().to_owned();
    (url, std::fs::read_to_string(home.join("token")).unwrap())
}

#[test]
fn a_login_is_used_until_another_setting_or_a_logout() {
    let (server, user) = (kit::server(), User::new());
    let (url, token) = url_and_token(server.home());
    assert_eq!(user.run(&["agent-type", "ls"]).code, Some(1), "control: without a login there is no server");
    let signed_in = user.login(&url, &token).ok();
    assert_eq!(signed_in, format!("signed in to {url} as admin:admin (admin in every project)\n"));
    assert_eq!(user.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(user.run(&["agent-type", "ls"]).ok().contains("coder"));
    let known = user.run(&["--json", "whoami"]).json();
    let from = format!("the login {}", user.file().display());
    assert_eq!((&known["actor"], &known["token_from"]), (&"admin:admin".into(), &from.clone().into()), "{known}");
    let status = user.run(&["--json", "status"]).json();
    assert_eq!((&status["url"], &status["url_from"]), (&url.clone().into(), &from.into()), "{status}");
    // Every explicit setting is stronger: a URL, a token, a home.
    let named = finish(user.command(&["status"]).env("STEAD_URL", "http://127.0.0.1:1"));
    assert!(named.err.contains("no Stead server answers at http://127.0.0.1:1"), "{named:?}");
    let show = ["config", "show", "--json"];
    let tokened = finish(user.command(&show).env("STEAD_TOKEN", "stead_x").env("STEAD_URL", &url));
    assert!(tokened.out.contains("\"STEAD_TOKEN\"") && !tokened.out.contains("stead_x"), "{tokened:?}");
    let homed = finish(user.command(&["config", "show"]).env("STEAD_HOME", user.directory.path()));
    assert!(!homed.out.contains("login.json"), "{homed:?}");
    assert!(user.run(&["logout"]).ok().contains("signed out"));
    assert!(!user.file().exists());
    assert_eq!(user.run(&["logout"]).ok(), "there is no login\n");
}

#[test]
fn a_token_without_a_server_is_not_sent_to_the_default_address_if_there_is_a_login() {
    let (server, user) = (kit::server(), User::new());
    let (url, token) = url_and_token(server.home());
    let tokened = |args: &[&str]| finish(user.command(args).env("STEAD_TOKEN", token.trim()));
    let shown = tokened(&["config", "show"]);
    assert!(shown.ok().contains("http://127.0.0.1:7717"), "control: without a login, the default address is used");
    user.login(&url, &token).ok();
    let refused = tokened(&["whoami"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.err.starts_with("error: STEAD_TOKEN is set, but no setting names the server"), "{refused:?}");
    let hint = format!("name the server with --url or STEAD_URL (the login has {url}), or unset STEAD_TOKEN");
    assert!(refused.err.contains(&hint) && !refused.err.contains(token.trim()), "{refused:?}");
    assert!(tokened(&["--url", &url, "whoami"]).ok().contains("admin:admin"));
    let home = server.home().to_str().unwrap();
    assert!(tokened(&["--home", home, "whoami"]).ok().contains("admin:admin"), "the server of the home is known");
    // A login that cannot be read is a login, too.
    std::fs::write(user.file(), "{").unwrap();
    let refused = tokened(&["whoami"]);
    assert!(refused.err.starts_with("error: STEAD_TOKEN is set, but no setting names the server"), "{refused:?}");
    user.run(&["logout"]).ok();
    assert!(tokened(&["config", "show"]).ok().contains("http://127.0.0.1:7717"));
}

#[test]
fn a_login_that_does_not_work_is_not_stored() {
    let (server, user) = (kit::server(), User::new());
    let (url, token) = url_and_token(server.home());
    let wrong = user.login(&url, "stead_0");
    assert!(wrong.err.starts_with(&format!("error: {url} does not accept this token\n")), "{wrong:?}");
    let two = user.login(&url, "two words");
    assert!(two.err.starts_with("error: this is not a token\n"), "{two:?}");
    let nobody = user.login("http://127.0.0.1:1", &token);
    assert!(nobody.err.contains("no Stead server answers at http://127.0.0.1:1"), "{nobody:?}");
    // The address is this machine, but not a loopback address.
    let clear = user.login("http://0.0.0.0:1", &token);
    assert!(clear.err.contains("the token is sent to http://0.0.0.0:1 in clear text"), "{clear:?}");
    let asked = user.run(&["login", &url]);
    assert_eq!(asked.code, Some(2));
    assert!(asked.err.contains("--token-stdin"), "{asked:?}");
    assert!(user.run(&["login", "ftp://h"]).err.contains("ftp://h is not a server's URL"));
    assert!(!user.file().exists());
    // Nothing of the token is in any output.
    assert!([wrong, nobody, clear].iter().all(|ran| !ran.err.contains(token.trim())));
}

#[test]
fn a_login_that_others_can_read_or_own_is_refused() {
    let (server, user) = (kit::server(), User::new());
    let (url, token) = url_and_token(server.home());
    user.login(&url, &token).ok();
    let file = user.file();
    let set = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    set(0o640);
    let refused = user.run(&["whoami"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("others can access it (mode 0640)") && refused.err.contains("chmod 600"),
        "{refused:?}"
    );
    set(0o600);
    assert_eq!(user.run(&["whoami"]).code, Some(0), "control");
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(12345), None).unwrap();
        let refused = user.run(&["whoami"]);
        assert!(refused.err.contains("it belongs to the user with id 12345"), "{refused:?}");
        chown(&file, Some(0), None).unwrap();
    }
    std::fs::write(&file, "{\"url\": 1}").unwrap();
    let damaged = user.run(&["whoami"]);
    assert!(damaged.err.contains("is damaged"), "{damaged:?}");
    // Both commands of the hint work.
    assert!(damaged.err.contains("`stead login URL`") && damaged.err.contains("`stead logout`"), "{damaged:?}");
    user.login(&url, &token).ok();
    assert_eq!(user.run(&["whoami"]).code, Some(0));
    std::fs::write(&file, "{\"url\": 1}").unwrap();
    user.run(&["logout"]).ok();
    std::os::unix::fs::symlink("/dev/null", &file).unwrap();
    assert!(user.run(&["whoami"]).err.contains("cannot read the login"), "a symbolic link is not followed");
}

#[test]
fn the_token_is_asked_for_without_showing_it() {
    let (server, user) = (kit::server(), User::new());
    let (url, token) = url_and_token(server.home());
    let token = token.trim();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(user.command(&["login", &url]));
    terminal.type_until("", &format!("Token for {url}: "));
    // A wrong key is removed again.
    terminal.type_until(&format!("x\u{7f}{token}\r"), "signed in to");
    assert_eq!(terminal.until_end(&mut child), Some(0), "{}", terminal.seen);
    assert!(!terminal.seen.contains(&token[..12]), "{:?}", terminal.seen);
    assert!(!terminal.is_raw(), "the terminal is as before");
    // Control-C stores nothing.
    user.run(&["logout"]).ok();
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(user.command(&["login", &url]));
    terminal.type_until("", "Token for");
    terminal.type_until("ab\u{3}", "cancelled");
    assert_eq!(terminal.until_end(&mut child), Some(1));
    assert!(!terminal.is_raw() && !user.file().exists());
}
