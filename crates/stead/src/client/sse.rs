//! A minimal parser of server-sent events.

use std::io::{self, BufRead};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SseEvent {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: String,
}

/// Returns the next event with data; `None` at the end of the stream. An event that the end cuts
/// off is dropped.
pub(super) fn next_event(reader: &mut impl BufRead) -> io::Result<Option<SseEvent>> {
    let mut event = SseEvent::default();
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            if !event.data.is_empty() {
                return Ok(Some(event));
            }
            continue;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => event.event = value.to_owned(),
            "data" => {
                if !event.data.is_empty() {
                    event.data.push('\n');
                }
                event.data.push_str(value);
            }
            // A comment (the heartbeat) or an unknown field.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(stream: &str) -> Vec<(Option<String>, String)> {
        let mut reader = stream.as_bytes();
        std::iter::from_fn(|| next_event(&mut reader).unwrap()).map(|event| (event.id, event.data)).collect()
    }

    #[test]
    fn events_are_read_and_heartbeats_are_not() {
        let stream = ":\n\nid: 1\nevent: A\ndata: {\"a\":1}\n\n:\n\nid:2\r\ndata:x\r\ndata:y\r\n\r\nid: 3\ndata: cut";
        let expect = [("1", "{\"a\":1}"), ("2", "x\ny")];
        assert_eq!(events(stream), expect.map(|(id, data)| (Some(id.to_owned()), data.to_owned())));
    }
}
