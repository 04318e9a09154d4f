//! Conversions of execs and their output.

use stead_api::exec::{self as api, Exec, ExecFailure, Terminal};
use stead_core::exec::ExecFailureCode;
use stead_engine::ops::ExecView;
use stead_providers::OutputStream;

use super::IntoWire;

impl IntoWire for ExecView {
    type Wire = Exec;

    fn into_wire(self) -> Exec {
        let Self { id, session, exec, output } = self;
        let (spec, exit) = (exec.spec, exec.exit);
        let (stdout, stderr) = output.map_or((None, None), |output| (Some(output.stdout), Some(output.stderr)));
        let exit = exit.as_ref();
        Exec {
            id,
            session,
            status: exec.status,
            command: spec.command,
            argv: spec.argv,
            cwd: spec.cwd,
            env: spec.env,
            background: spec.background,
            pty: spec.pty.map(|size| Terminal { rows: size.rows, columns: size.columns }),
            timeout_seconds: spec.timeout_seconds,
            started_at: exec.started_at,
            ended_at: exec.ended_at,
            seq: exec.ended_seq,
            exit_code: exit.map(|exit| exit.exit_code),
            signal: exit.and_then(|exit| exit.signal),
            timed_out: exit.is_some_and(|exit| exit.timed_out),
            killed: exit.is_some_and(|exit| exit.killed),
            oom: exit.is_some_and(|exit| exit.oom),
            duration_ms: exit.map(|exit| exit.duration_ms),
            stdout,
            stderr,
            stdout_total: exit.map(|exit| exit.stdout_total),
            stderr_total: exit.map(|exit| exit.stderr_total),
            truncated: exit.is_some_and(|exit| exit.truncated),
            chunks: exit.map(|exit| exit.chunks),
            error: exec.failure.map(|failure| ExecFailure {
                // Earlier versions recorded further codes for commands that the box refused.
                code: failure.code.parse().unwrap_or(ExecFailureCode::Refused),
                message: failure.message,
            }),
        }
    }
}

impl IntoWire for OutputStream {
    type Wire = api::OutputStream;

    fn into_wire(self) -> api::OutputStream {
        match self {
            Self::Stdout => api::OutputStream::Stdout,
            Self::Stderr => api::OutputStream::Stderr,
        }
    }
}
