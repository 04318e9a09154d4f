//! Conversions of execs and their output.

use stead_api::exec::{self as api, Exec, ExecFailure, Terminal};
use stead_engine::ops::ExecView;
use stead_providers::OutputStream;

use super::IntoWire;

impl IntoWire for ExecView {
    type Wire = Exec;

    fn into_wire(self) -> Exec {
        let Self { id, session, exec, output } = self;
        let (spec, exit) = (exec.spec, exec.exit);
        let (stdout, stderr) = output.map_or((None, None), |output| (Some(output.stdout), Some(output.stderr)));
        let told = exit.as_ref();
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
            exit_code: told.map(|exit| exit.exit_code),
            signal: told.and_then(|exit| exit.signal),
            timed_out: told.is_some_and(|exit| exit.timed_out),
            killed: told.is_some_and(|exit| exit.killed),
            oom: told.is_some_and(|exit| exit.oom),
            duration_ms: told.map(|exit| exit.duration_ms),
            stdout,
            stderr,
            stdout_total: told.map(|exit| exit.stdout_total),
            stderr_total: told.map(|exit| exit.stderr_total),
            truncated: told.is_some_and(|exit| exit.truncated),
            chunks: told.map(|exit| exit.chunks),
            error: exec.failure.map(|failure| ExecFailure { code: failure.code, message: failure.message }),
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
