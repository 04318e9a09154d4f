//! `stead secret …`: values that the server adds to requests of boxes.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::json;
use stead_api::secret::{Rekeyed, Secret};
use stead_core::secret::SecretValue;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::in_project::InProject;
use crate::output::{Mark, Table};
use crate::render::{cell, timestamp};

const MOST: u32 = 10_000;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SecretCommand {
    Set(Set),
    /// List secrets with their hosts and agent types; values are never shown
    Ls {
        #[command(flatten)]
        place: InProject,
    },
    /// Remove a secret; the next request that needs it is refused
    Rm {
        /// Name of the secret
        name: String,
        #[command(flatten)]
        place: InProject,
    },
    /// Seal every secret under a new key and replace the key file
    Rekey,
}

/// Store a secret, or replace it
///
/// The value comes from standard input or from a file, never from an argument or a variable, which
/// other programs can read. One line break at its end is removed.
///
/// Example: stead secret set github --host api.github.com --agent-type coder < token.txt
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// Name of the secret, for `secret` in network rules and in env
    name: String,
    /// Host that may receive the secret, as HOST or HOST:PORT; repeatable
    #[arg(long = "host", value_name = "HOST", required = true)]
    hosts: Vec<String>,
    /// Request header that carries the secret [default: authorization]
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// Text of the header, with {} in the place of the value [default: 'Bearer {}' in
    /// authorization, else {}]
    #[arg(long = "as", value_name = "TEXT")]
    written_as: Option<String>,
    /// Agent type whose sessions may use the secret, or '*' for every one; repeatable. Without it
    /// no session may
    #[arg(long = "agent-type", value_name = "ID")]
    agent_types: Vec<String>,
    /// Also send the secret to services over plain HTTP
    #[arg(long)]
    over_http: bool,
    /// File with the value [default: standard input]
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: InProject,
}

/// The body of the request. `SecretValue` has no JSON form, so the value is spelled out here, in
/// the only place that sends one.
#[derive(Serialize)]
struct Body<'a> {
    hosts: &'a [String],
    header: Option<&'a str>,
    #[serde(rename = "as")]
    written_as: Option<&'a str>,
    agent_types: &'a [String],
    over_http: bool,
    value: &'a str,
}

impl SecretCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Set(set) => set.run(context),
            Self::Ls { place } => ls(context, place),
            Self::Rm { name, place } => {
                context.client()?.delete::<IgnoredAny>(&place.of(&format!("/secrets/{}", segment(name))))?;
                let gone = json!({"name": name, "removed": true});
                context.out.either(&gone, || context.out.marked(Mark::Good, &format!("{name} is gone")))
            }
            Self::Rekey => {
                let done: Rekeyed = context.client()?.post_empty("/secrets:rekey")?;
                let text = format!("a new key seals every secret ({}); keep a copy of the key file", done.secrets);
                context.out.either(&done, || context.out.marked(Mark::Good, &text))
            }
        }
    }
}

impl Set {
    fn run(&self, context: &Context) -> Result<(), Failure> {
        let value = self.value()?;
        let body = Body {
            hosts: &self.hosts,
            header: self.header.as_deref(),
            written_as: self.written_as.as_deref(),
            agent_types: &self.agent_types,
            over_http: self.over_http,
            value: value.expose(),
        };
        let path = self.place.of(&format!("/secrets/{}", segment(&self.name)));
        let stored: Secret = context.client()?.put(&path, &body)?;
        let out = &context.out;
        if stored.agent_types.is_empty() {
            out.note("no session may use it yet: name agent types with --agent-type ID, or '*' for every one");
        }
        out.either(&stored, || {
            let hosts: Vec<String> = stored.hosts.iter().map(ToString::to_string).collect();
            let text = format!("{} is set (version {}), for {}", stored.name, stored.version, hosts.join(", "));
            out.marked(Mark::Good, &text)
        })
    }

    fn value(&self) -> Result<SecretValue, Failure> {
        let mut text = String::new();
        let (source, read) = match &self.file {
            Some(path) => {
                let read = std::fs::read_to_string(path).map(|content| text = content);
                (path.display().to_string(), read)
            }
            None if std::io::stdin().is_terminal() => {
                return Err(Failure::usage("the value comes from standard input or a file, not from the terminal")
                    .hint("stead secret set NAME --host HOST < FILE"));
            }
            None => ("standard input".to_owned(), std::io::stdin().lock().read_to_string(&mut text).map(drop)),
        };
        read.map_err(|error| Failure::new(format!("cannot read {source}")).because(&error))?;
        let end = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).map_or(text.len(), str::len);
        text.truncate(end);
        SecretValue::parse(text).map_err(|reason| Failure::new(format!("the value in {source} {reason}")))
    }
}

fn ls(context: &Context, place: &InProject) -> Result<(), Failure> {
    let answer = context.client()?.list::<Secret>(&place.of("/secrets"), MOST)?;
    context.out.either(&answer, || {
        if answer.items.is_empty() {
            context.out.note("no secret is set");
            return Ok(());
        }
        let mut table = Table::new(&["name", "project", "hosts", "header", "agent types", "version", "set", "usable"]);
        for secret in &answer.items {
            let hosts = secret.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let agent_types =
                if secret.agent_types.is_empty() { "none".to_owned() } else { secret.agent_types.join(", ") };
            let usable = if secret.usable { "yes" } else { "no" };
            table.row(&[
                &cell(&secret.name),
                &cell(&secret.project),
                &hosts,
                &secret.header,
                &agent_types,
                &secret.version.to_string(),
                &timestamp(&secret.updated_at),
                usable,
            ]);
        }
        context.out.table(&table)
    })
}
