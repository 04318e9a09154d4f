//! Reports the state of the warm pool.

use crate::engine::Engine;
use crate::pool::PoolReport;

pub fn pool(engine: &Engine) -> Vec<PoolReport> {
    engine.pool().report()
}
