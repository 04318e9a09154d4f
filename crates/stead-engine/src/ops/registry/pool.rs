//! Reports the state of the warm pool.

use crate::background::pool::PoolReport;
use crate::engine::Engine;

pub fn pool(engine: &Engine) -> Vec<PoolReport> {
    engine.pool().report()
}
