//! Extractors for the request headers that Stead interprets.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, header};

use crate::problem::Problem;
use crate::respond::download::OCTETS;

/// `Idempotency-Key`: 1 to 255 visible ASCII characters.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        const NAME: &str = "idempotency-key";
        let Some(key) = once(&parts.headers, HeaderName::from_static(NAME))? else { return Ok(Self(None)) };
        let valid = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if valid {
            return Ok(Self(Some(key)));
        }
        Err(Problem::invalid("Idempotency-Key", "must be 1 to 255 visible ASCII characters"))
    }
}

/// `Last-Event-ID`: the sequence number of the last event that the client has.
pub(crate) struct LastEventId(pub(crate) Option<u64>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(text) = once(&parts.headers, HeaderName::from_static("last-event-id"))? else { return Ok(Self(None)) };
        let digits = (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(seq) if digits => Ok(Self(Some(seq))),
            _ => Err(Problem::invalid("Last-Event-ID", "must be a sequence number of 1 to 15 digits")),
        }
    }
}

/// Format of a response with events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventForm {
    Stream,
    Page,
}

impl<S: Sync> FromRequestParts<S> for EventForm {
    type Rejection = Problem;

    /// Returns `Page` if the client accepts JSON and no event stream, and `Stream` otherwise.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let accepts = |wanted: &str| accepts(&parts.headers, wanted);
        let page = accepts("application/json") && !accepts("text/event-stream");
        Ok(if page { Self::Page } else { Self::Stream })
    }
}

/// True if the client accepts a patch and not JSON.
pub(crate) struct AcceptsPatch(pub(crate) bool);

impl<S: Sync> FromRequestParts<S> for AcceptsPatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let accepts = |wanted: &str| accepts(&parts.headers, wanted);
        Ok(Self(accepts("text/x-diff") && !accepts("application/json")))
    }
}

/// True if the client accepts plain bytes and not JSON lines.
pub(crate) struct AcceptsOctets(pub(crate) bool);

impl<S: Sync> FromRequestParts<S> for AcceptsOctets {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let accepts = |wanted: &str| accepts(&parts.headers, wanted);
        Ok(Self(accepts(OCTETS) && !accepts("application/x-ndjson")))
    }
}

/// True if the client accepts JSON lines and not JSON.
pub(crate) struct AcceptsLines(pub(crate) bool);

impl<S: Sync> FromRequestParts<S> for AcceptsLines {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let accepts = |wanted: &str| accepts(&parts.headers, wanted);
        Ok(Self(accepts("application/x-ndjson") && !accepts("application/json")))
    }
}

/// Returns true if `Accept` names the media type. Wildcards do not count.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    (headers.get_all(header::ACCEPT).iter())
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|part| part.split(';').next().unwrap_or_default().trim())
        .any(|given| given.eq_ignore_ascii_case(wanted))
}

pub(crate) fn once(headers: &HeaderMap, name: HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Problem::invalid(name.as_str(), "is given more than once")),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(Problem::invalid(name.as_str(), "is not plain ASCII")),
        },
    }
}

/// Returns the trace id of a W3C `traceparent`, or `None` if it is malformed.
pub(crate) fn trace_id(traceparent: &str) -> Option<&str> {
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let mut parts = traceparent.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Version 00 has exactly four parts. Later versions may have more. The version ff is forbidden.
    let known_length = version != "00" || parts.next().is_none();
    let well_formed = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(parent, 16) && hex(flags, 2);
    (well_formed && known_length && !zero(trace) && !zero(parent)).then_some(trace)
}

/// Returns true for a client's request id that is short and safe in a log line.
pub(crate) fn is_request_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparent_rules() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(trace_id(&format!("00-{trace}-b7ad6b7169203331-01")), Some(trace));
        assert_eq!(trace_id(&format!("01-{trace}-b7ad6b7169203331-01-more")), Some(trace));
        for wrong in ["", "00", "00-x-y-z"] {
            assert_eq!(trace_id(wrong), None);
        }
        assert_eq!(trace_id(&format!("00-{trace}-b7ad6b7169203331-01-more")), None);
        assert_eq!(trace_id(&format!("ff-{trace}-b7ad6b7169203331-01")), None);
        assert_eq!(trace_id(&format!("00-{}-b7ad6b7169203331-01", "0".repeat(32))), None);
    }
}
