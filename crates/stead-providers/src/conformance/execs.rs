//! Checks of execs. A provider without a box must report that it has no execs.

use std::sync::Arc;

use stead_core::ExecId;
use stead_core::env::Env;
use stead_core::exec::{ExecOrder, ExecSpec, FullBuffer, Stdin, TerminalSize};
use stead_core::tool::ToolName;

use super::{Suite, Violation, hold, ok};
use crate::contract::execs::{ExecEnd, ExecError, Execs, Followed, InputEnd};
use crate::contract::provider::AdoptOrder;
use crate::contract::workspace::Workspace;

const KEPT: u64 = 4096;

pub(super) fn order(command: &str, stdin: Stdin, pty: Option<TerminalSize>) -> ExecOrder {
    let argv = ["/bin/sh", "-c", command].map(str::to_owned).into();
    let spec = ExecSpec {
        command: Some(command.to_owned()),
        argv,
        cwd: "/workspace".to_owned(),
        env: Vec::new(),
        stdin_bytes: 0,
        stdin,
        timeout_seconds: None,
        background: true,
        pty,
        unread: FullBuffer::Drop,
    };
    ExecOrder { spec, env: Env::default(), stdin: Vec::new() }
}

fn done<T>(promise: &'static str, result: Result<T, ExecError>) -> Result<T, Violation> {
    result.map_err(|error| Violation { promise, detail: error.to_string() })
}

/// Returns all output of a command after a chunk. Checks that each chunk comes once and in order.
async fn output(execs: &dyn Execs, exec: ExecId, after: u64) -> Result<String, Violation> {
    let promise = "output is numbered from 1 and comes whole";
    let mut following = done(promise, execs.follow(exec, after).await)?;
    let (mut text, mut last) = (Vec::new(), after);
    while let Followed::Output { seq, bytes, .. } = done(promise, following.next().await)? {
        hold(promise, seq == last + 1, format!("chunk {seq} after {last}"))?;
        last = seq;
        text.extend(bytes);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl Suite<'_> {
    pub(super) async fn execs_are_as_promised(&self) -> Result<(), Violation> {
        let workspace = self.create(12).await?;
        let offered = self.provider.capabilities().tools.contains(&ToolName::Bash);
        let promise = "execs are there exactly if commands are";
        hold(promise, workspace.execs().is_some() == offered, "they are not")?;
        if let Some(execs) = workspace.execs() {
            runs_and_feeds(execs).await?;
            ends(execs).await?;
        }
        if offered {
            self.outlive_the_server(workspace).await?;
        }
        self.remove(12).await
    }

    async fn outlive_the_server(&self, workspace: Arc<dyn Workspace>) -> Result<(), Violation> {
        let promise = "a command outlives the server that started it";
        let exec = ExecId::from_bits(20);
        let execs = workspace.execs().ok_or(Violation { promise, detail: "no execs".to_owned() })?;
        done(promise, execs.start(exec, order("echo one; read x; echo $x; exit 3", Stdin::Open, None), KEPT).await)?;
        drop(workspace);
        let order = AdoptOrder { create: self.order(12), history: Vec::new() };
        let adopted = ok("a workspace that is there is adopted", self.provider.adopt(&order).await)?;
        let execs = adopted.execs().ok_or(Violation { promise, detail: "no execs".to_owned() })?;
        hold(promise, !execs.started_anew(), "the box was started anew")?;
        done(promise, execs.feed(exec, b"two\n", InputEnd::Last).await)?;
        let ended = done(promise, execs.wait(exec).await)?;
        hold(promise, ended.exit.exit_code == 3, format!("{ended:?}"))?;
        let text = output(execs, exec, 0).await?;
        hold(promise, text == "one\ntwo\n", text.clone())
    }
}

async fn runs_and_feeds(execs: &dyn Execs) -> Result<(), Violation> {
    let promise = "a command is run, and its end told";
    let (once, exec) = (ExecId::from_bits(1), ExecId::from_bits(2));
    let ExecEnd { exit, output: kept } =
        done(promise, execs.run(once, order("echo out; echo err >&2; exit 4", Stdin::Closed, None), KEPT).await)?;
    let result = (exit.exit_code, kept.stdout.as_str(), kept.stderr.as_str());
    hold(promise, result == (4, "out\n", "err\n"), format!("{result:?}"))?;
    done(promise, execs.start(exec, order("cat; echo over", Stdin::Open, None), KEPT).await)?;
    done(promise, execs.feed(exec, b"fed\n", InputEnd::More).await)?;
    done(promise, execs.feed(exec, b"", InputEnd::Last).await)?;
    done(promise, execs.wait(exec).await)?;
    let text = output(execs, exec, 0).await?;
    hold("what is fed is read", text == "fed\nover\n", text.clone())?;
    let promise = "a terminal has the size it was given";
    let (terminal, size) = (ExecId::from_bits(3), TerminalSize { rows: 31, columns: 77 });
    done(promise, execs.start(terminal, order("stty size", Stdin::Open, Some(size)), KEPT).await)?;
    let text = output(execs, terminal, 0).await?;
    hold(promise, text.trim() == "31 77", text.clone())?;
    let nobody = ExecId::from_bits(99);
    let unknown = execs.wait(nobody).await.err();
    hold(
        "an exec that is not there is said so",
        unknown == Some(ExecError::Unknown { exec: nobody }),
        format!("{unknown:?}"),
    )?;
    for (number, program, code) in [(4, "/no/such/program", 127), (7, "/etc", 126)] {
        let promise = "a missing program ends with 127, one that cannot be executed with 126";
        let mut order = order("true", Stdin::Closed, None);
        order.spec.argv = vec![program.to_owned()];
        let ended = done(promise, execs.run(ExecId::from_bits(number), order, KEPT).await)?;
        let named = ended.output.stderr.contains(program);
        hold(promise, ended.exit.exit_code == code && named, format!("{ended:?}"))?;
    }
    let mut order = order("true", Stdin::Closed, None);
    order.spec.cwd = "/no/such/directory".to_owned();
    let refused = execs.start(ExecId::from_bits(8), order, KEPT).await;
    let is_refusal = matches!(refused, Err(ExecError::Refused { .. }));
    hold("a command that cannot be started is refused", is_refusal, format!("{refused:?}"))
}

async fn ends(execs: &dyn Execs) -> Result<(), Violation> {
    let promise = "a signal reaches the command";
    let exec = ExecId::from_bits(5);
    done(promise, execs.start(exec, order("exec sleep 100", Stdin::Closed, None), KEPT).await)?;
    done(promise, execs.signal(exec, 15).await)?;
    let ended = done(promise, execs.wait(exec).await)?;
    hold(promise, ended.exit.signal == Some(15), format!("{ended:?}"))?;
    hold("a signal to what has ended is refused", execs.signal(exec, 15).await == Err(ExecError::Ended), "it is not")?;
    let promise = "a kill ends every process of the command, also those that hide";
    let exec = ExecId::from_bits(6);
    let hiding = "(setsid sleep 100 &); (trap '' TERM; sleep 100) & sleep 100";
    done(promise, execs.start(exec, order(hiding, Stdin::Closed, None), KEPT).await)?;
    done(promise, execs.kill(exec).await)?;
    let at_work = done(promise, execs.at_work().await)?;
    hold(promise, at_work.processes == 0, format!("{at_work:?}"))?;
    let ended = done(promise, execs.wait(exec).await)?;
    hold(promise, ended.exit.killed, format!("{ended:?}"))
}
