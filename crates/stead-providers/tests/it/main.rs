//! Runs the conformance suite on every provider.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod layers;
mod native;
mod native_layers;
mod native_setup_results;

use stead_providers::{MemoryProvider, conformance};

#[tokio::test]
async fn memory_conforms() {
    conformance::check(&MemoryProvider::new(), 1000).await.unwrap();
}
