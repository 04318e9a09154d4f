//! `stead login` and `stead logout`

use std::io::{IsTerminal as _, Read as _, Write as _};

use serde_json::json;
use stead_api::token::Whoami;

use crate::attach::RawTerminal;
use crate::client::{Client, ClientError};
use crate::config::{Endpoint, Login, LoginFile, is_loopback, server_url};
use crate::context::Context;
use crate::failure::Failure;
use crate::secret::Secret;

/// Longest text that is accepted as a token.
const MOST: u64 = 4096;

/// Sign in to a server: store its URL and a token for later commands.
///
/// The token is checked with the server first. It is stored in a file that only you can read.
/// For example: stead login https://stead.example --token-stdin < token
#[derive(Debug, clap::Args)]
pub(crate) struct LoginCommand {
    /// URL of the server; the one that commands use now if absent
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// Read the token from standard input instead of asking for it
    #[arg(long)]
    token_stdin: bool,
}

impl LoginCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (out, file) = (&context.out, login_file(context)?);
        let url = match &self.server {
            Some(text) => {
                server_url(text).map_err(|why| Failure::usage(format!("{text} is not a server's URL: {why}")))?
            }
            None => context.config.resolve()?.endpoint.url,
        };
        if url.starts_with("http://") && !is_loopback(&url) {
            out.warning(&format!(
                "the token is sent to {url} in clear text: use https, or a tunnel to a loopback address"
            ));
        }
        let token = if self.token_stdin { from_stdin()? } else { from_terminal(&url)? };
        let endpoint = Endpoint { url: url.clone(), token: Some(token.clone()) };
        let known: Whoami = Client::new(endpoint)?.get("/whoami").map_err(|error| refused(&url, error))?;
        file.write(&Login { url: url.clone(), token })?;
        let place = known.project.as_ref().map_or("every project".to_owned(), |project| format!("project {project}"));
        out.either(&json!({"url": url, "file": file.path(), "whoami": known}), || {
            out.line(&format!("signed in to {url} as {} ({} in {place})", known.actor, known.role))
        })?;
        if let Some(stronger) = context.config.overrides_login() {
            out.note(&format!("{stronger} is set, so commands do not use this login"));
        }
        Ok(())
    }
}

/// Sign out: remove the stored URL and token. The token stays valid until it is revoked.
#[derive(Debug, clap::Args)]
pub(crate) struct LogoutCommand {}

impl LogoutCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (out, file) = (&context.out, login_file(context)?);
        let removed = file.remove()?;
        out.either(&json!({"file": file.path(), "removed": removed}), || match removed {
            true => out.line("signed out; the token stays valid until `stead token revoke` ends it"),
            false => out.line("there is no login"),
        })
    }
}

fn login_file(context: &Context) -> Result<&LoginFile, Failure> {
    context.config.login_file.as_ref().ok_or_else(|| {
        Failure::new("cannot choose a place for the login: HOME is not set").hint("set HOME or XDG_CONFIG_HOME")
    })
}

fn refused(url: &str, error: ClientError) -> Failure {
    match error {
        ClientError::Refused(problem) if problem.status == 401 => {
            let hint = "it may be mistyped, expired or revoked; an administrator makes one with `stead token create`";
            Failure::new(format!("{url} does not accept this token")).coded("unauthorized", Some(401)).hint(hint)
        }
        error => error.into(),
    }
}

fn from_stdin() -> Result<Secret, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MOST).read_to_string(&mut text);
    read.map_err(|error| Failure::new("cannot read the token from standard input").because(&error))?;
    token(&text)
}

fn token(text: &str) -> Result<Secret, Failure> {
    let hint = "a token is one word, as `stead token create` prints it";
    Secret::read(text).ok_or_else(|| Failure::new("this is not a token").hint(hint))
}

/// Asks for the token without showing what is typed.
fn from_terminal(url: &str) -> Result<Secret, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("standard input is not a terminal, so the token cannot be asked for")
            .hint("pipe it: stead login URL --token-stdin < FILE"));
    }
    let raw = RawTerminal::take()?;
    // Raw mode does not add the carriage return.
    let failed = |error: std::io::Error| Failure::new("cannot ask for the token").because(&error);
    let mut prompt = std::io::stderr().lock();
    write!(prompt, "Token for {url}: ").and_then(|()| prompt.flush()).map_err(failed)?;
    let typed = typed();
    drop(raw);
    writeln!(prompt).map_err(failed)?;
    token(&typed?)
}

/// Reads a line in raw mode, where the terminal does not interpret control keys.
fn typed() -> Result<String, Failure> {
    const CANCEL: [u8; 2] = [3, 4];
    let mut line = Vec::new();
    for byte in std::io::stdin().lock().bytes() {
        match byte.map_err(|error| Failure::new("cannot read the token").because(&error))? {
            b'\r' | b'\n' => break,
            key if CANCEL.contains(&key) => return Err(Failure::new("cancelled: nothing was stored")),
            8 | 127 => drop(line.pop()),
            // Control-U removes the line.
            21 => line.clear(),
            byte if (line.len() as u64) < MOST => line.push(byte),
            _ => return Err(Failure::new("this is too long for a token")),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}
