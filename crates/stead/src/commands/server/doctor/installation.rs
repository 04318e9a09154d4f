//! Checks the home, the database, the token and the server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::fmt::rfc2822;
use stead_store::Database;

use super::Finding;
use crate::commands::server::verify::{Blobs, Scope, verify};
use crate::context::Context;
use crate::render::counted;

/// Number of journals to check, so that the user does not wait long; `stead verify` checks all.
const SAMPLE: u64 = 100;
const SKEW: Duration = Duration::from_secs(5);

pub(super) fn look(context: &Context) -> Vec<Finding> {
    let mut findings = vec![settings(context), home(context)];
    findings.extend(database(context));
    findings.push(token(context));
    findings.extend(server(context));
    findings
}

fn settings(context: &Context) -> Finding {
    let path = context.config.file_path();
    match context.config.server() {
        Err(failure) => Finding::from_failure("settings", failure),
        Ok(_) if path.exists() => Finding::good("settings", path.display().to_string()),
        Ok(_) => Finding::good("settings", format!("defaults and environment; there is no {}", path.display())),
    }
}

fn home(context: &Context) -> Finding {
    let home = &context.config.home;
    let path = home.path().display();
    let Some(mode) = home.mode("") else {
        return Finding::known("home", format!("{path} does not exist yet; the first start creates it"));
    };
    if let Err(error) = tempfile_in(home.path()) {
        let advice = "run as its owner, or set STEAD_HOME to another directory";
        return Finding::bad("home", format!("{path} cannot be written: {error}"), advice);
    }
    if mode & 0o077 != 0 {
        // The files are private whatever the mode of the directory, but other users see their
        // names.
        let detail = format!("{path} is writable, and with mode {mode:03o} other users can look into it");
        return Finding::warned("home", detail, format!("chmod 700 {path}"));
    }
    Finding::good("home", format!("{path} is writable, mode {mode:03o}"))
}

/// Tests writing instead of reading the mode, because quotas, read-only mounts and ACLs matter too.
fn tempfile_in(folder: &std::path::Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".doctor.{}", std::process::id()));
    std::fs::write(&probe, b"")?;
    std::fs::remove_file(&probe)
}

fn database(context: &Context) -> Vec<Finding> {
    let database = match context.config.database() {
        Ok(database) => database,
        Err(failure) => return vec![Finding::from_failure("database", failure)],
    };
    if let Database::Sqlite(path) = &database
        && !path.exists()
    {
        return vec![Finding::known("database", format!("{database} does not exist yet; the first start creates it"))];
    }
    let verdict = match verify(
        &context.config,
        Scope { only: None, most: SAMPLE, blobs: Blobs::ReferredTo, evidence: None, secret_key: None },
    ) {
        Ok(verdict) => verdict,
        Err(failure) => return vec![Finding::from_failure("database", failure)],
    };
    let sessions = counted(usize::try_from(verdict.sessions).unwrap_or(usize::MAX), "session", "newest sessions");
    let checked = format!("{sessions}, {} events", verdict.events);
    let journal = if verdict.broken.is_empty() && verdict.damaged.is_empty() {
        Finding::good("journals", format!("intact ({checked})"))
    } else {
        let detail = format!(
            "{} journals are broken and {} blobs are damaged (checked: {checked})",
            verdict.broken.len(),
            verdict.damaged.len()
        );
        Finding::bad("journals", detail, "`stead verify` names them; restore the database from a copy")
    };
    vec![Finding::good("database", format!("{database} opens")), journal]
}

fn token(context: &Context) -> Finding {
    let home = &context.config.home;
    let path = home.token_path();
    match (home.token(), home.mode("token")) {
        (Err(failure), _) => Finding::from_failure("token", failure),
        (Ok(None), _) => Finding::known("token", "there is none yet; the first start creates it"),
        (Ok(Some(_)), Some(mode)) if mode & 0o077 != 0 => {
            let detail = format!("{} has mode {mode:03o}: other users can read it", path.display());
            let advice = format!("rm {} and restart the server: it makes a new one", path.display());
            Finding::bad("token", detail, advice)
        }
        (Ok(Some(_)), _) => {
            Finding::good("token", format!("{} exists, and only its owner can read it", path.display()))
        }
    }
}

fn server(context: &Context) -> Vec<Finding> {
    if !context.config.has_known_server() {
        return vec![Finding::known("server", "none runs on this home; `stead up` starts one")];
    }
    let client = match context.client() {
        Ok(client) => client,
        Err(failure) => return vec![Finding::from_failure("server", failure)],
    };
    let (status, date) = match client.ready() {
        Ok(answer) => answer,
        Err(error) => return vec![Finding::from_failure("server", error.into())],
    };
    let url = client.url();
    if !status.is_success() {
        return vec![Finding::bad("server", format!("{url} is not ready (status {status})"), "its log says why")];
    }
    let mut findings = vec![match client.get::<stead_api::List<stead_api::provider::Provider>>("/providers") {
        Ok(_) => Finding::good("server", format!("{url} is ready and accepts the token")),
        Err(error) => Finding::from_failure("server", error.into()),
    }];
    findings.extend(date.as_deref().and_then(skew));
    findings
}

/// Difference between the server's clock and ours. The `Date` header has whole seconds.
fn skew(date: &str) -> Option<Finding> {
    let theirs = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let theirs = Duration::from_secs(u64::try_from(theirs.as_second()).unwrap_or(0));
    let apart = theirs.abs_diff(ours);
    let detail = format!("{} s from the server's", apart.as_secs());
    Some(if apart > SKEW {
        Finding::bad("clock", detail, "set both clocks, for example with NTP")
    } else {
        Finding::good("clock", detail)
    })
}
