//! Named places where a test can pause the server or make it fail. Compiled only with the
//! `failpoints` feature.

/// Pauses here on a blocking thread if a test asks for it
/// (`FAILPOINTS=provision.create=sleep(1500)`).
pub(crate) async fn pause(name: &'static str) {
    #[cfg(feature = "failpoints")]
    {
        let held = tokio::task::spawn_blocking(move || fail::fail_point!(name));
        // The action `panic` must panic in the operation and not in the blocking thread only.
        if let Err(error) = held.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Reads the failpoints from the environment, once per process. They stay active until it ends.
pub(crate) fn arm() {
    #[cfg(feature = "failpoints")]
    {
        static ARMED: std::sync::Once = std::sync::Once::new();
        if std::env::var_os("FAILPOINTS").is_some() {
            ARMED.call_once(|| std::mem::forget(fail::FailScenario::setup()));
        }
    }
}
