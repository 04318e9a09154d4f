//! Session ids that are abbreviated to a prefix, as with commits in git.

use stead_api::{Code, Parameters, Problem, Session};
use stead_core::Resource;

use super::Client;

/// Number of characters of a whole session id.
const WHOLE: usize = 30;
/// Minimum length of a prefix: `ses_` and four more characters.
const SHORTEST: usize = 8;
/// Largest number of sessions that are searched. With more sessions a prefix may not be unique.
const MOST: u32 = 5_000;

/// Number of ids listed for an ambiguous prefix.
const SHOWN: usize = 5;

impl Client {
    /// Completes the session id in a path if exactly one session has this prefix. Every other path
    /// is returned unchanged, and the server reports the error.
    pub(super) fn with_whole_id(&self, path: &str) -> String {
        let Some(start) = session_start(path) else { return path.to_owned() };
        let Ok(listing) = self.list::<Session>("/sessions", MOST) else { return path.to_owned() };
        let mut found = listing.items.iter().map(|session| session.id.to_string()).filter(|id| id.starts_with(start));
        match (found.next(), found.next(), &listing.next_cursor) {
            (Some(whole), None, None) => path.replacen(start, &whole, 1),
            _ => path.to_owned(),
        }
    }
}

impl Client {
    /// Replaces "there is no session" if several sessions have the prefix in a path.
    pub(super) fn with_ambiguity(&self, problem: Problem, path: &str) -> Problem {
        let about_session = problem.code == Code::NotFound && problem.parameters.resource == Some(Resource::Session);
        match about_session.then(|| self.ambiguity(path)).flatten() {
            Some(detail) => {
                let hint = Some("give more of the id".to_owned());
                // Without parameters no other id is suggested: this one is incomplete, not
                // misspelt.
                Problem { detail, hint, parameters: Parameters::default(), ..problem }
            }
            None => problem,
        }
    }

    fn ambiguity(&self, path: &str) -> Option<String> {
        let start = session_start(path.strip_prefix("/api/v1")?)?;
        let listing = self.list::<Session>("/sessions", MOST).ok()?;
        let ids = listing.items.iter().map(|session| session.id.to_string());
        let found: Vec<String> = ids.filter(|id| id.starts_with(start)).collect();
        let shown = found.get(..SHOWN).unwrap_or(&found).join(", ");
        let more = if found.len() > SHOWN { ", …" } else { "" };
        match found.len() {
            0 => None,
            // Only the newest sessions were searched.
            1 => Some(format!("'{start}' may be the beginning of several session ids: {shown} and older ones")),
            count => Some(format!("{count} session ids begin with '{start}': {shown}{more}")),
        }
    }
}

/// The prefix of a session id in a path such as `/sessions/ses_01ab/files`.
fn session_start(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/sessions/")?;
    let id = rest.split(['/', '?']).next().unwrap_or_default();
    let plain = id.starts_with("ses_") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    Some(id).filter(|id| plain && (SHORTEST..WHOLE).contains(&id.len()))
}

#[cfg(test)]
mod tests {
    use super::session_start;

    #[test]
    fn only_the_beginning_of_a_session_id_is_looked_up() {
        let whole = format!("/sessions/ses_{}", "0".repeat(26));
        for (path, start) in [
            ("/sessions/ses_01ab", Some("ses_01ab")),
            ("/sessions/ses_01ab/files/a?mkdir=1", Some("ses_01ab")),
            ("/sessions/ses_01ab?wait=1", Some("ses_01ab")),
            ("/sessions/ses_01", None),
            ("/sessions/ses_..%2Fab", None),
            ("/sessions/nonsense", None),
            ("/sessions?limit=1", None),
            ("/agent-types/ses_01ab", None),
            (whole.as_str(), None),
        ] {
            assert_eq!(session_start(path), start, "{path}");
        }
    }
}
