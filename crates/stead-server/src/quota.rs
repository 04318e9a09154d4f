//! Limits of requests: concurrent ones per token (`concurrency.rs`), and rates per project and user
//! (`rates.rs`). The store enforces the quotas of sessions.

mod concurrency;
mod rates;

pub(crate) use concurrency::{Quotas, Ticket, admit};
pub(crate) use rates::Rates;
