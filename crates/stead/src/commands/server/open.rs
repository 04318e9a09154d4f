//! `stead open`: a sign-in link for the web page.

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

use serde_json::json;
use stead_api::Session;
use stead_api::token::SignInLink;

use crate::client::{Client, ClientError, segment};
use crate::context::Context;
use crate::failure::Failure;

/// Open the web page in a browser, signed in with the token of this command line.
///
/// Prints a link that works once, within ten minutes, and opens it if there is a desktop.
/// For example: stead open, or stead open SESSION
#[derive(Debug, clap::Args)]
pub(crate) struct Open {
    /// Show this session
    session: Option<String>,
    /// Print the link without opening it
    #[arg(long)]
    print: bool,
}

impl Open {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        // The server resolves the id, so that a wrong one fails here and not in the browser.
        let session = match &self.session {
            Some(id) => Some(client.get::<Session>(&format!("/sessions/{}", segment(id)))?.id.to_string()),
            None => None,
        };
        let (url, link) = sign_in_url(&client, session.as_deref())?;
        context.out.either(&json!({"url": url, "expires_at": link.expires_at}), || context.out.line(&url))?;
        if !self.print && !context.out.is_json() && std::io::stdout().is_terminal() && open_in_browser(&url) {
            context.out.note("opened in the browser");
        } else {
            context.out.note("the link works once, within ten minutes");
        }
        Ok(())
    }
}

/// Returns a link that signs a browser in.
pub(super) fn sign_in_url(client: &Client, session: Option<&str>) -> Result<(String, SignInLink), ClientError> {
    let link: SignInLink = client.post_empty("/sign-in-links")?;
    let target = session.map(|id| format!("?to=/sessions/{}", segment(id))).unwrap_or_default();
    Ok((format!("{}{}{target}", client.url(), link.path), link))
}

/// Starts the desktop's browser. Returns false if this machine has none.
fn open_in_browser(url: &str) -> bool {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !desktop {
        return false;
    }
    let quiet =
        Command::new("xdg-open").arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}
