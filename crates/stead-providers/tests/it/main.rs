//! Every provider against the suite.

use stead_providers::{MemoryProvider, conformance};

#[tokio::test]
async fn memory_conforms() {
    conformance::check(&MemoryProvider::new(), 1000).await.unwrap();
}
