//! Progress and log notifications while a call runs.
#![expect(deprecated, reason = "clients of all protocol versions but the newest use log messages")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::{RequestContext, RoleServer};
use stead_engine::ops::Notice;
use tokio::sync::mpsc::Receiver;

/// The least severe level of log messages that a client wants.
#[derive(Clone)]
pub(super) struct LogLevel(Arc<AtomicU8>);

impl Default for LogLevel {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(LoggingLevel::Info as u8)))
    }
}

impl LogLevel {
    pub(super) fn set(&self, level: LoggingLevel) {
        self.0.store(level as u8, Relaxed);
    }

    fn includes(&self, level: LoggingLevel) -> bool {
        level as u8 >= self.0.load(Relaxed)
    }
}

/// Sends notifications about a call to its client.
pub(super) struct CallNotifications<'a> {
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) level: LogLevel,
    /// Interval of progress notifications that only say that the call runs.
    pub(super) pace: Duration,
}

impl CallNotifications<'_> {
    /// Waits for the call. Sends progress if the client gave a progress token.
    pub(super) async fn during<T>(self, called: impl Future<Output = T>, mut notices: Receiver<Notice>) -> T {
        let token = self.context.meta.get_progress_token();
        tokio::pin!(called);
        let begun = Instant::now();
        let mut last = 0.0;
        loop {
            tokio::select! {
                biased;
                Some(notice) = notices.recv() => self.pass(notice, token.as_ref(), &mut last).await,
                done = &mut called => {
                    // Messages that arrived before the answer are sent before it.
                    while let Ok(notice) = notices.try_recv() {
                        self.pass(notice, token.as_ref(), &mut last).await;
                    }
                    return done;
                }
                () = tokio::time::sleep(self.pace) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    let message = Some(format!("running for {seconds:.0} s"));
                    self.progress(token.as_ref(), (seconds, None, message), &mut last).await;
                }
            }
        }
    }

    async fn pass(&self, notice: Notice, token: Option<&ProgressToken>, last: &mut f64) {
        match notice {
            Notice::Progress { progress, total, message } => {
                self.progress(token, (progress, total, message), last).await;
            }
            Notice::Log { level, logger, data } => {
                let Ok(level) = serde_json::from_value::<LoggingLevel>(level.into()) else { return };
                if self.level.includes(level) {
                    let mut param = LoggingMessageNotificationParam::new(level, data);
                    param.logger = logger;
                    // A failed notification is no reason to stop the call.
                    let _ = self.context.peer.notify_logging_message(param).await;
                }
            }
        }
    }

    /// Sends progress that increases. The protocol requires this, and another server may not obey.
    async fn progress(
        &self,
        token: Option<&ProgressToken>,
        (progress, total, message): (f64, Option<f64>, Option<String>),
        last: &mut f64,
    ) {
        let Some(token) = token.filter(|_| progress >= *last) else { return };
        *last = progress;
        let mut param = ProgressNotificationParam::new(token.clone(), progress);
        (param.total, param.message) = (total, message);
        let _ = self.context.peer.notify_progress(param).await;
    }
}
