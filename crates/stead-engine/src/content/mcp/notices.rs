//! Progress and log messages of an MCP server, for the caller of the call that runs there.

use serde_json::Value;
use tokio::sync::mpsc;

/// Number of messages that wait for the caller. Further ones are dropped, because a server may send
/// any number of them.
const WAITING: usize = 64;
/// Maximum characters of a text in a message.
const TEXT_CHARS: usize = 4_096;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    Progress { progress: f64, total: Option<f64>, message: Option<String> },
    Log { level: String, logger: Option<String>, data: Value },
}

/// Passes messages on. The default drops them.
#[derive(Debug, Clone, Default)]
pub struct Notices(Option<mpsc::Sender<Notice>>);

impl Notices {
    pub fn channel() -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(Some(sender)), receiver)
    }

    /// Passes a message of the server on if it is a notification that concerns the call with this
    /// progress token.
    pub(super) fn pass(&self, message: &Value, token: u64) {
        if let Some(sender) = &self.0
            && let Some(notice) = read(message, token)
        {
            // The caller does not keep up, or is gone.
            let _ = sender.try_send(notice);
        }
    }
}

fn read(message: &Value, token: u64) -> Option<Notice> {
    let params = message.get("params")?;
    let text = |name: &str| {
        params.get(name).and_then(Value::as_str).map(|text| text.chars().take(TEXT_CHARS).collect::<String>())
    };
    match message.get("method")?.as_str()? {
        "notifications/progress" if params.get("progressToken")?.as_u64() == Some(token) => {
            let total = params.get("total").and_then(Value::as_f64);
            Some(Notice::Progress { progress: params.get("progress")?.as_f64()?, total, message: text("message") })
        }
        "notifications/message" => {
            let data = params.get("data").filter(|data| data.to_string().len() <= 4 * TEXT_CHARS)?;
            Some(Notice::Log { level: text("level")?, logger: text("logger"), data: data.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_messages_of_this_call_are_passed_on() {
        let progress = |token: u64| {
            let params = json!({"progressToken": token, "progress": 1, "total": 2});
            json!({"method": "notifications/progress", "params": params})
        };
        assert!(read(&progress(7), 7).is_some() && read(&progress(8), 7).is_none());
        let log = json!({"method": "notifications/message", "params": {"level": "info", "data": "x"}});
        assert_eq!(read(&log, 7), Some(Notice::Log { level: "info".to_owned(), logger: None, data: json!("x") }));
        assert_eq!(read(&json!({"id": 7, "result": {}}), 7), None);
    }
}
