//! `stead stop`: ends the server of this home, and waits until it has.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::home::RunningServer;
use crate::output::Mark;

const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// Seconds to wait until it has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

impl Stop {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let home = &context.config.home;
        let Some(server) = home.running()? else {
            let said = format!("no server runs on the home {}", home.path().display());
            return context.out.either(&json!({"stopped": false}), || context.out.marked(Mark::Known, &said));
        };
        end(&server)?;
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        // Not until its announcement is gone, but until the home is free: from then on it can be copied.
        while home.is_in_use() {
            if Instant::now() > deadline {
                return Err(Failure::new(format!("process {} has not ended after {} s", server.pid, self.wait))
                    .hint("requests that are under way are waited for; its log says more"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        context.out.either(&json!({"stopped": true, "pid": server.pid}), || {
            context.out.marked(Mark::Good, "stopped; sessions stay as they are")
        })
    }
}

fn end(server: &RunningServer) -> Result<(), Failure> {
    let pid = i32::try_from(server.pid).ok().and_then(Pid::from_raw);
    let sent = pid.map_or(Err(rustix::io::Errno::SRCH), |pid| kill_process(pid, Signal::TERM));
    match sent {
        // Gone meanwhile is as good.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot stop process {}", server.pid))
            .because(&error)
            .hint("run as the user that started it")),
    }
}
