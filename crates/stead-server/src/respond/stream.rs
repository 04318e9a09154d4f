//! A journal as a stream of server-sent events.
//!
//! The only state is the reader's position in the journal. The stream reads pages from the store
//! and waits on a counter. A slow or stuck client therefore blocks only its own task, and no event
//! is skipped or repeated. The stream ends after the last event of an ended session, and at once
//! when the server stops.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream;
use serde_json::json;
use stead_core::{Actor, SessionId};
use stead_engine::{OpError, ops};
use stead_store::StoredEvent;

use crate::app::App;
use crate::metrics::Open;
use crate::respond::stream_turns::StreamTurn;
use crate::wire::shown_event;

const PAGE: u32 = 256;
/// Polling interval for a session that is not loaded, because it has no counter to wait on.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

struct Reader {
    app: App,
    session: SessionId,
    after: u64,
    actor: Actor,
    page: VecDeque<StoredEvent>,
    turn: StreamTurn,
    _open: Open,
}

/// Returns a stream of the events after `after`, including future ones.
pub(crate) fn events(
    app: App,
    session: SessionId,
    after: u64,
    actor: Actor,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let heartbeat = KeepAlive::new().interval(app.config.heartbeat);
    let (page, turn) = (VecDeque::new(), app.stream_turns.of(session));
    let reader = Reader { app, session, after, actor, page, turn, _open: Open::new("stead_event_streams") };
    Sse::new(stream::unfold(reader, next)).keep_alive(heartbeat)
}

async fn next(mut reader: Reader) -> Option<(Result<Event, Infallible>, Reader)> {
    let mut stopping = reader.app.stopping.clone();
    let found = tokio::select! {
        found = reader.advance() => found,
        _ = stopping.wait_for(|stopping| *stopping) => None,
    }?;
    let actor = reader.actor.clone();
    let encode = || {
        let data = json!(shown_event(&found, &actor)).to_string();
        Event::default().id(found.seq.to_string()).event(&found.kind).data(data)
    };
    let event = reader.turn.encode(encode).await;
    Some((Ok(event), reader))
}

impl Reader {
    /// Waits for the next event. Returns `None` if no event can follow.
    async fn advance(&mut self) -> Option<StoredEvent> {
        loop {
            if let Some(event) = self.page.pop_front() {
                self.after = event.seq;
                return Some(event);
            }
            // Get the counter before reading, so that it reflects events that are appended in
            // between.
            let counter = self.app.engine.watch(self.session);
            match self.fill().await {
                Ok(()) if !self.page.is_empty() => continue,
                Ok(()) if self.ended().await => return None,
                Ok(()) => {}
                // The client reconnects with its last id and gets the error then.
                Err(error) => {
                    tracing::warn!(%error, session = %self.session, "an event stream ends early");
                    return None;
                }
            }
            let after = self.after;
            match counter {
                Some(mut counter) => {
                    let _ = tokio::time::timeout(LOOK_AGAIN * 10, counter.wait_for(|seq| *seq > after)).await;
                }
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    async fn fill(&mut self) -> Result<(), OpError> {
        self.page = ops::events(&self.app.engine, self.session, self.after, PAGE).await?.events.into();
        Ok(())
    }

    /// Returns true if the session has ended and its last event was sent.
    async fn ended(&self) -> bool {
        let state = ops::session(&self.app.engine, self.session).await;
        state.is_ok_and(|state| state.seq <= self.after && state.session.is_some_and(|session| !session.live()))
    }
}
