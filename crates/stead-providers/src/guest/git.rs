//! Git in the box, on the agent's repository. It takes arguments, never a shell command, and runs
//! no hooks of the repository.

use stead_box::protocol::{ExecOrder, FullBuffer, Input, OutputLimits};
use stead_core::plan::WORKSPACE_ROOT;

use super::command::captured;
use super::guest_box::GuestBox;
use crate::contract::error::ProviderError;
use crate::contract::workspace::{GitOrder, GitRan};

/// A hook or an fsmonitor in the repository would let an agent that may only use git run any
/// program. Filters and aliases that the agent configures still run. They run inside the box, where
/// they can do no more than the agent's own file changes.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=true",
    "sequence.editor=true",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "advice.detachedHead=false",
    "color.ui=false",
    "core.quotePath=false",
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("LC_ALL", "C.UTF-8"),
];

pub(super) fn run(guest_box: &dyn GuestBox, order: GitOrder) -> Result<GitRan, ProviderError> {
    let settings = SETTINGS.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
    let argv = std::iter::once("git".to_owned()).chain(settings).chain(order.args).collect();
    let exec = ExecOrder {
        exec: order.exec,
        argv,
        cwd: WORKSPACE_ROOT.to_owned(),
        env: ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        input: if order.input.is_empty() { Input::Nothing } else { Input::Bytes },
        timeout_ms: Some(order.timeout_ms),
        terminal: None,
        output: OutputLimits { kept_bytes: order.output_bytes, ring_bytes: 0, unread: FullBuffer::Drop },
    };
    let finished = guest_box.connect().and_then(|mut connection| connection.run(exec, &order.input))?;
    let result = &finished.result;
    Ok(GitRan {
        exit_code: result.exit_code,
        timed_out: result.timed_out,
        stdout: captured(finished.stdout, result.stdout),
        stderr: captured(finished.stderr, result.stderr),
    })
}
