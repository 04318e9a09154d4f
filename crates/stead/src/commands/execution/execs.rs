//! `stead exec ls|logs|kill`

use stead_api::exec::{Chunk, Exec, OutputPage, OutputStream};
use stead_api::list::List;

use crate::client::{Client, ExecNews, exec_path, follow_exec, segment};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Channel, Table};
use crate::render::{cell, timestamp};

/// Commands for execs that were started before.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ExecCommand {
    /// List a session's running and recently ended execs, oldest first
    Ls {
        /// The session's id
        session: String,
    },
    /// Print the output of an exec
    Logs {
        /// The session's id
        session: String,
        /// The exec's id
        exec: String,
        /// Keep printing new output until the exec ends (like `tail -f`)
        #[arg(short, long)]
        follow: bool,
    },
    /// End every process of an exec
    Kill {
        /// The session's id
        session: String,
        /// The exec's id
        exec: String,
    },
}

impl ExecCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        match self {
            Self::Ls { session } => list(context, &client, session),
            Self::Logs { session, exec, follow: false } => logs(context, &client, session, exec),
            Self::Logs { session, exec, follow: true } => follow(context, &client, session, exec),
            Self::Kill { session, exec } => kill(context, &client, session, exec),
        }
    }
}

fn list(context: &Context, client: &Client, session: &str) -> Result<(), Failure> {
    let listed: List<Exec> = client.get(&format!("/sessions/{}/execs", segment(session)))?;
    context.out.either(&listed, || {
        let mut table = Table::new(&["id", "status", "exit code", "started", "command"]);
        for exec in &listed.items {
            let command = exec.command.clone().unwrap_or_else(|| exec.argv.join(" "));
            let code = exec.exit_code.map(|code| code.to_string()).unwrap_or_default();
            let (id, status, started) = (cell(&exec.id), cell(&exec.status), timestamp(&exec.started_at));
            table.row(&[&id, &status, &code, &started, &cell(&command)]);
        }
        context.out.table(&table)
    })
}

/// Prints the output that the server has now.
fn logs(context: &Context, client: &Client, session: &str, exec: &str) -> Result<(), Failure> {
    let page = |after: u64| client.get::<OutputPage>(&format!("{}/output?after={after}", exec_path(session, exec)));
    let mut whole = page(0)?;
    loop {
        if !context.out.is_json() {
            print(std::mem::take(&mut whole.chunks), &whole)?;
            whole.missed.clear();
        }
        if !whole.more {
            return context.out.either(&whole, || Ok(()));
        }
        let mut next = page(whole.after)?;
        whole.chunks.append(&mut next.chunks);
        whole.missed.append(&mut next.missed);
        whole = OutputPage { chunks: whole.chunks, missed: whole.missed, ..next };
    }
}

fn print(chunks: Vec<Chunk>, page: &OutputPage) -> Result<(), Failure> {
    for missed in &page.missed {
        lost(missed.to.saturating_sub(missed.from) + 1)?;
    }
    for chunk in chunks {
        let channel = match chunk.stream {
            OutputStream::Stdout => Channel::Out,
            OutputStream::Stderr => Channel::Error,
        };
        output::raw(channel, &chunk.bytes().unwrap_or_default())?;
    }
    Ok(())
}

fn lost(chunks: u64) -> Result<(), Failure> {
    output::raw(Channel::Error, format!("[stead: {chunks} chunks of output were lost]\n").as_bytes())
}

fn follow(context: &Context, client: &Client, session: &str, exec: &str) -> Result<(), Failure> {
    let live = !context.out.is_json();
    follow_exec(client, session, exec, |news| match news {
        ExecNews::Stdout(bytes) if live => output::raw(Channel::Out, &bytes),
        ExecNews::Stderr(bytes) if live => output::raw(Channel::Error, &bytes),
        ExecNews::Missed(chunks) if live => lost(chunks),
        ExecNews::Finished(exec) => context.out.either(&exec, || Ok(())),
        ExecNews::Stdout(_) | ExecNews::Stderr(_) | ExecNews::Missed(_) => Ok(()),
    })
}

fn kill(context: &Context, client: &Client, session: &str, exec: &str) -> Result<(), Failure> {
    let path = exec_path(session, exec);
    client.delete::<serde::de::IgnoredAny>(&path)?;
    let ended: Exec = client.get(&path)?;
    context.out.either(&ended, || {
        context.out.note(&format!("no process of {exec} runs any more"));
        Ok(())
    })
}
