//! The socket to the evaluator: standard input and output.

use std::io::{self, BufRead, BufReader, Stdin, Write};

use stead_eval::protocol::{Reply, Report, Say};

pub(crate) struct Link {
    input: BufReader<Stdin>,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self { input: BufReader::new(io::stdin()) }
    }

    /// Receives the next message. Returns `None` at the end of the input, and for a line that is
    /// not a message of this type.
    pub(crate) fn receive<T: for<'a> serde::Deserialize<'a>>(&mut self) -> Option<T> {
        let mut line = Vec::new();
        self.input.read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }

    fn send(&self, say: &Say) -> Option<()> {
        let mut line = serde_json::to_vec(say).ok()?;
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line).and_then(|()| out.flush()).ok()
    }

    pub(crate) fn ask(&mut self, say: &Say) -> Option<Reply> {
        self.send(say)?;
        self.receive()
    }

    pub(crate) fn report(&self, report: Report) -> bool {
        self.send(&Say::Done(Box::new(report))).is_some()
    }
}
