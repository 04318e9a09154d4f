//! `stead stop`: stops the server of this home and, on request, its boxes.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::home::{Home, RunningServer};
use crate::output::Mark;

const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// Seconds to wait until the server has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
    /// End the boxes too; their commands end, their files stay. Use it before you copy the home
    #[arg(long)]
    boxes: bool,
}

impl Stop {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let home = &context.config.home;
        let running = home.running()?;
        if let Some(server) = &running {
            self.end_server(home, server)?;
        }
        let boxes = if self.boxes { Some(end_boxes(home)?) } else { None };
        let mut answer = json!({"stopped": running.is_some()});
        if let Some(server) = &running {
            answer["pid"] = server.pid.into();
        }
        if let Some(ended) = boxes {
            answer["boxes_ended"] = ended.into();
        }
        let message = match (&running, boxes) {
            (None, None) => format!("no server runs on the home {}", home.path().display()),
            (None, Some(ended)) => {
                format!("no server runs on the home {}; {ended} boxes ended, their files stay", home.path().display())
            }
            (Some(_), None) => "stopped; sessions stay as they are".to_owned(),
            (Some(_), Some(ended)) => format!("stopped; {ended} boxes ended, their files stay"),
        };
        let mark = if running.is_some() { Mark::Good } else { Mark::Known };
        context.out.either(&answer, || context.out.marked(mark, &message))
    }

    fn end_server(&self, home: &Home, server: &RunningServer) -> Result<(), Failure> {
        end(server)?;
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        // Wait until the home's lock is free, not only until `server.json` is gone: then the home
        // can be copied.
        while home.is_in_use() {
            if Instant::now() > deadline {
                return Err(Failure::new(format!("process {} has not ended after {} s", server.pid, self.wait))
                    .hint("the server waits for running requests; see its log"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

/// Ends the boxes of a home without a server. Returns the number of running ones.
fn end_boxes(home: &Home) -> Result<usize, Failure> {
    let cannot = |error: &dyn std::error::Error| {
        Failure::new(format!("cannot end the boxes of {}", home.path().display())).because(error)
    };
    if !home.path().exists() {
        return Ok(0);
    }
    let lock = home.lock()?;
    if home.is_untouched_copy(&lock).map_err(|error| cannot(&error))? {
        return Ok(0);
    }
    let native = stead_providers::end_boxes(home.path()).map_err(|error| cannot(&error))?;
    let podman = stead_providers::end_boxes(&home.path().join("podman")).map_err(|error| cannot(&error))?;
    Ok(native + podman)
}

fn end(server: &RunningServer) -> Result<(), Failure> {
    let pid = i32::try_from(server.pid).ok().and_then(Pid::from_raw);
    let sent = pid.map_or(Err(rustix::io::Errno::SRCH), |pid| kill_process(pid, Signal::TERM));
    match sent {
        // The process may have ended meanwhile.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot stop process {}", server.pid))
            .because(&error)
            .hint("run as the user that started it")),
    }
}
