//! `stead serve`: the server in the foreground, until SIGTERM or SIGINT.

use crate::context::Context;
use crate::embedded::continuity::AcceptedHead;
use crate::embedded::{OnSignal, Server, WhenTaken};
use crate::failure::Failure;
use crate::logging;

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes a free one [env: STEAD_LISTEN] [default: 127.0.0.1:7717]
    #[arg(long, value_name = "HOST:PORT")]
    pub(in crate::commands) listen: Option<String>,
    /// Accept an older copy of the database that ends with this seal; the error message of the
    /// refused start names it
    #[arg(long, value_name = "blake3:HEX|none")]
    accept_head: Option<AcceptedHead>,
}

impl Serve {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        logging::start(context.config.log.as_ref(), "info")?;
        let accepted = self.accept_head;
        let server = Server::start_accepting(&context.config, WhenTaken::Fail, OnSignal::Stop, accepted)?;
        let home = context.config.home.path().display();
        context.out.progress(&format!("Stead serves {} (home {home}, database {})", server.url(), server.database()));
        server.run()
    }
}
