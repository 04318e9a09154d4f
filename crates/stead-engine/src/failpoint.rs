//! Named moments where a test may hold the server or make it fail. Without the `failpoints` feature nothing is compiled.

/// Waits here if a test says so (`FAILPOINTS=provision.create=sleep(1500)`), off the async threads.
pub(crate) async fn pause(name: &'static str) {
    #[cfg(feature = "failpoints")]
    {
        let held = tokio::task::spawn_blocking(move || fail::fail_point!(name));
        // The action `panic` shall panic in the operation, not beside it.
        if let Err(error) = held.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Reads which moments the environment names, once per process. They hold until the process ends.
pub(crate) fn arm() {
    #[cfg(feature = "failpoints")]
    {
        static ARMED: std::sync::Once = std::sync::Once::new();
        if std::env::var_os("FAILPOINTS").is_some() {
            ARMED.call_once(|| std::mem::forget(fail::FailScenario::setup()));
        }
    }
}
