//! The server's log: text on a terminal, JSON lines otherwise.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::config::Setting;
use crate::failure::Failure;

/// Starts logging with the configured filter, or with `otherwise` if none is configured.
pub(crate) fn start(filter: Option<&Setting>, otherwise: &str) -> Result<(), Failure> {
    let text = filter.map_or(otherwise, |setting| &setting.value);
    let filter = EnvFilter::try_new(text).map_err(|error| {
        let named = filter.map_or("the log filter".to_owned(), |setting| setting.source.to_string());
        Failure::new(format!("{named} is not a log filter: {text:?}"))
            .because(&error)
            .hint("write a level (error, warn, info, debug, trace), or target=level pairs separated by commas")
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = if io::stderr().is_terminal() {
        builder.with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).with_span_list(false).try_init()
    };
    // Only a second start in one process fails; then logging already works.
    started.or(Ok(()))
}
