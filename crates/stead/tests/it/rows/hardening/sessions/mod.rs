//! Sessions that are refused, start degraded, or fail in their setup commands.

mod degraded_starts;
mod refused_starts;
mod setup_output;
