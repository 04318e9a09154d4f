//! A command's output as a stream of server-sent events.
//!
//! Nothing is buffered here but the chunk on its way: a reader that is slow leaves the rest where it is, in the box, and learns what it missed.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use serde_json::json;
use stead_engine::ops::{ExecNews, ExecReader};

use crate::app::App;
use crate::metrics::Open;
use crate::wire::IntoWire as _;
use stead_api::exec::{Chunk, Missed, StreamEvent};

struct Reader {
    app: App,
    source: ExecReader,
    ended: bool,
    _open: Open,
}

pub(crate) fn output(app: App, source: ExecReader) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let heartbeat = KeepAlive::new().interval(app.config.heartbeat);
    let reader = Reader { app, source, ended: false, _open: Open::new("stead_exec_streams") };
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
    let (id, event) = match news {
        Ok(Some(ExecNews::Output { seq, stream, bytes })) => {
            (Some(seq), StreamEvent::Output(Chunk::new(seq, stream.into_wire(), bytes)))
        }
        Ok(Some(ExecNews::Missed { from, to })) => (None, StreamEvent::Missed(Missed { from, to })),
        Ok(Some(ExecNews::Ended(view))) => {
            reader.ended = true;
            (None, StreamEvent::Finished(Box::new(view.into_wire())))
        }
        Ok(None) => return None,
        // The reader comes back with the last number it has and learns then what is wrong.
        Err(error) => {
            tracing::warn!(%error, "an exec's stream ends early");
            return None;
        }
    };
    let sent = Event::default().event(event.kind()).data(json!(event).to_string());
    let sent = match id {
        Some(id) => sent.id(id.to_string()),
        None => sent,
    };
    Some((Ok(sent), reader))
}
