//! A refusal as the server words it (RFC 9457), and as a person reads it.

use std::fmt;

use serde::Deserialize;

use crate::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
    #[serde(default)]
    pub(crate) errors: Vec<FieldError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct FieldError {
    pub(crate) field: String,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With several fields the detail is all of them in a row; they get lines of their own.
        let several = self.errors.len() > 1;
        f.write_str(if self.detail.is_empty() || several { &self.title } else { &self.detail })
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let mut failure = Failure::new(problem.to_string()).coded(problem.code.clone(), Some(problem.status));
        failure = failure.titled(problem.title.clone());
        if let Some(hint) = advice(&problem) {
            failure = failure.hint(hint);
        }
        if problem.errors.len() > 1 {
            failure = failure.fields(problem.errors.into_iter().map(|error| (error.field, error.message)).collect());
        }
        failure
    }
}

/// What to do, in the words of this program where it knows better than the server.
fn advice(problem: &Problem) -> Option<String> {
    let lists = [("there is no session", "`stead session ls`"), ("there is no agent type", "`stead agent-type ls`")];
    match problem.code.as_str() {
        "unauthorized" => {
            Some("set STEAD_TOKEN, or STEAD_HOME to the home of that server: its token is read from there".to_owned())
        }
        "session_not_active" => Some("`stead session show ID` says how the session is".to_owned()),
        "tool_not_enabled" => Some("`stead session show ID` lists the tools the session may use".to_owned()),
        "not_found" if problem.hint.is_none() => {
            let known = lists.iter().find(|(words, _)| problem.detail.starts_with(words));
            known.map(|(_, command)| format!("{command} lists what there is"))
        }
        _ => problem.hint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(problem: &str, sentence: &str, fields: &[(&str, &str)], hint: Option<&str>) {
        let failure = Failure::from(serde_json::from_str::<Problem>(problem).unwrap());
        assert_eq!(failure.sentence, sentence);
        let fields: Vec<(String, String)> =
            fields.iter().map(|(field, message)| ((*field).to_owned(), (*message).to_owned())).collect();
        assert_eq!(failure.fields, fields);
        assert_eq!(failure.hint.as_deref(), hint);
    }

    #[test]
    fn one_wrong_field_is_one_sentence() {
        let problem = r#"{"type":"urn:x","title":"The request is not valid","status":400,"code":"invalid_request",
            "detail":"tools: invalid tool names: shell","errors":[{"field":"tools","message":"invalid tool names: shell"}]}"#;
        check(problem, "tools: invalid tool names: shell", &[], None);
    }

    #[test]
    fn several_wrong_fields_get_a_line_each() {
        let problem = r#"{"title":"The request is not valid","status":400,"code":"invalid_request","detail":"a: x; b: y",
            "errors":[{"field":"a","message":"x"},{"field":"b","message":"y"}]}"#;
        check(problem, "The request is not valid", &[("a", "x"), ("b", "y")], None);
    }

    #[test]
    fn the_hint_is_the_servers_or_a_better_one() {
        let full = r#"{"title":"t","status":429,"code":"capacity","detail":"full","hint":"close a session"}"#;
        check(full, "full", &[], Some("close a session"));
        let missing = r#"{"title":"t","status":404,"code":"not_found","detail":"there is no session 'x'"}"#;
        check(missing, "there is no session 'x'", &[], Some("`stead session ls` lists what there is"));
    }
}
