//! Source or destination of a copy.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use crate::client::segment;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    Local(PathBuf),
    Remote {
        session: String,
        path: String,
    },
    /// `-`
    Standard,
}

impl FromStr for Location {
    type Err = Infallible;

    /// Parses a location. A local path that looks like one of a session can begin with `./`.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once(':') {
            Some((session, path)) if session.starts_with("ses_") => {
                let path = path.trim_start_matches('/');
                let path = path.strip_prefix("workspace/").filter(|_| text.contains(":/workspace/")).unwrap_or(path);
                Self::Remote { session: session.to_owned(), path: path.to_owned() }
            }
            _ if text == "-" => Self::Standard,
            _ => Self::Local(text.into()),
        })
    }
}

/// The API path of a file, with each segment encoded.
pub(super) fn files(session: &str, path: &str) -> String {
    let encoded: Vec<String> = path.split('/').filter(|name| !name.is_empty()).map(segment).collect();
    let path = format!("/sessions/{}/files/{}", segment(session), encoded.join("/"));
    path.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Location {
        let Ok(location) = text.parse();
        location
    }

    #[test]
    fn locations() {
        let remote = |path: &str| Location::Remote { session: "ses_1".to_owned(), path: path.to_owned() };
        assert_eq!(read("ses_1:a/b"), remote("a/b"));
        assert_eq!(read("ses_1:/a"), remote("a"));
        assert_eq!(read("ses_1:/workspace/a"), remote("a"));
        assert_eq!(read("ses_1:"), remote(""));
        assert_eq!(read("./ses_1:a"), Location::Local("./ses_1:a".into()));
        assert_eq!(read("C:a"), Location::Local("C:a".into()));
        assert_eq!(read("-"), Location::Standard);
    }

    #[test]
    fn a_path_keeps_its_segments() {
        assert_eq!(files("ses_1", "a b/c?d#e"), "/sessions/ses_1/files/a%20b/c%3Fd%23e");
        assert_eq!(files("ses_1", ""), "/sessions/ses_1/files");
    }
}
