//! Converts a problem from the server to a readable failure.

use stead_api::{Code, Problem};
use stead_core::Resource;

use crate::failure::Failure;

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let hint = advice(&problem);
        let Problem { code, status, title, detail, errors, parameters, .. } = problem;
        // With several fields the detail repeats all of them, so each gets its own line instead.
        let several = errors.len() > 1;
        let sentence = if detail.is_empty() || several { title.clone() } else { detail };
        let failure = Failure::new(sentence).coded(code.as_str(), Some(status)).titled(title).about(parameters);
        let failure = if several { failure.fields(errors) } else { failure };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A hint with a command of this program, if one helps.
fn advice(problem: &Problem) -> Option<String> {
    let command = match (problem.code, problem.parameters.resource) {
        (Code::Unauthorized, _) => {
            "set STEAD_TOKEN, or STEAD_HOME to the home of that server: its token is read from there"
        }
        (Code::SessionNotActive, _) => "`stead session show ID` says how the session is",
        (Code::ToolNotEnabled, _) => "`stead session show ID` lists the tools the session may use",
        (Code::NotFound, Some(Resource::Session)) if problem.hint.is_none() => "`stead session ls` lists what there is",
        (Code::NotFound, Some(Resource::AgentType)) if problem.hint.is_none() => {
            "`stead agent-type ls` lists what there is"
        }
        _ => return problem.hint.clone(),
    };
    Some(command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(problem: &str, sentence: &str, fields: &[(&str, &str)], hint: Option<&str>) {
        let failure = Failure::from(serde_json::from_str::<Problem>(problem).unwrap());
        assert_eq!(failure.sentence, sentence);
        let found: Vec<(&str, &str)> = failure.fields.iter().map(|error| (&*error.field, &*error.message)).collect();
        assert_eq!(found, fields);
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
        let problem = r#"{"type":"urn:x","title":"The request is not valid","status":400,"code":"invalid_request","detail":"a: x; b: y",
            "errors":[{"field":"a","message":"x"},{"field":"b","message":"y"}]}"#;
        check(problem, "The request is not valid", &[("a", "x"), ("b", "y")], None);
    }

    #[test]
    fn the_hint_is_the_servers_or_a_better_one() {
        let full =
            r#"{"type":"urn:x","title":"t","status":429,"code":"capacity","detail":"full","hint":"close a session"}"#;
        check(full, "full", &[], Some("close a session"));
        let missing = r#"{"type":"urn:x","title":"t","status":404,"code":"not_found","detail":"there is no session 'x'",
            "parameters":{"resource":"session","id":"x"}}"#;
        check(missing, "there is no session 'x'", &[], Some("`stead session ls` lists what there is"));
    }
}
