//! What is kept ready.

use crate::engine::Engine;
use crate::pool::PoolReport;

pub fn pool(engine: &Engine) -> Vec<PoolReport> {
    engine.pool().report()
}
