//! Named moments where a test may hold the server or make it fail. Without the `failpoints` feature nothing is compiled.

/// Waits here if a test says so (`FAILPOINTS=provision.create=sleep(1500)`), off the async threads.
pub(crate) async fn pause(name: &'static str) {
    #[cfg(feature = "failpoints")]
    {
        let held = tokio::task::spawn_blocking(move || fail::fail_point!(name));
        let _ = held.await;
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}
