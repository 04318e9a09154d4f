//! Connections through a real [`stead_egress::Egress`], with sockets of this process in the place
//! of a box.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod inspection;
mod passing;
mod service;
