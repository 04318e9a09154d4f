//! The output of a command as a stream of server-sent events.
//!
//! The server only buffers the chunk that it is sending. The rest stays in the box until the reader
//! is ready. A slow reader gets a `missed` event.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use stead_api::exec::{Chunk, Missed, StreamEvent};
use stead_core::SessionId;
use stead_engine::ops::{ExecNews, ExecReader};

use crate::app::App;
use crate::metrics::Open;
use crate::respond::stream_turns::StreamTurn;
use crate::wire::IntoWire as _;

struct Reader {
    app: App,
    source: ExecReader,
    turn: StreamTurn,
    ended: bool,
    _open: Open,
}

pub(crate) fn output(
    app: App,
    session: SessionId,
    source: ExecReader,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let heartbeat = KeepAlive::new().interval(app.config.heartbeat);
    let turn = app.stream_turns.of(session);
    let reader = Reader { app, source, turn, ended: false, _open: Open::new("stead_exec_streams") };
    Sse::new(stream::unfold(reader, next)).keep_alive(heartbeat)
}

async fn next(mut reader: Reader) -> Option<(Result<Event, Infallible>, Reader)> {
    if reader.ended {
        return None;
    }
    let mut stopping = reader.app.stopping.clone();
    let news = tokio::select! {
        news = reader.source.next() => news,
        _ = stopping.wait_for(|stopping| *stopping) => return None,
    };
    let news = match news {
        Ok(news) => news?,
        // The client reconnects with the number of its last chunk and gets the error then.
        Err(error) => {
            tracing::warn!(%error, "an exec's stream ends early");
            return None;
        }
    };
    reader.ended = matches!(news, ExecNews::Ended(_));
    match reader.turn.encode(|| encode(news)).await {
        Ok(event) => Some((Ok(event), reader)),
        Err(error) => {
            tracing::error!(%error, "an exec's output cannot be encoded");
            None
        }
    }
}

fn encode(news: ExecNews) -> Result<Event, axum::Error> {
    let (id, event) = match news {
        ExecNews::Output { seq, stream, bytes } => {
            (Some(seq), StreamEvent::Output(Chunk::new(seq, stream.into_wire(), bytes)))
        }
        ExecNews::Missed { from, to } => (None, StreamEvent::Missed(Missed { from, to })),
        ExecNews::Ended(view) => (None, StreamEvent::Finished(Box::new(view.into_wire()))),
    };
    let sent = Event::default().event(event.kind()).json_data(event)?;
    Ok(match id {
        Some(id) => sent.id(id.to_string()),
        None => sent,
    })
}
