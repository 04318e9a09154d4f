//! Power losses, panics, clock changes and a second server lose no acknowledged change.

mod clock_steps;
mod ownership;
mod panics;
mod power_loss;
