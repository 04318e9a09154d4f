//! Repository URLs and git references. They become arguments of git.
//!
//! This module only checks the form. The platform's lists decide if a host or a path is allowed. No
//! value of these types is a text that git could read as an option, a helper program or a
//! credential.

pub mod git_push;
mod public_address;
pub mod remote;
pub mod resolved_commit;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The reason why a text is not a valid repository URL or reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRepository {
    #[error("a repository URL must not be empty")]
    Empty,
    #[error("a repository URL must not start with '-': git would read it as an option")]
    Option,
    #[error("a repository URL must not contain spaces or control characters")]
    Unprintable,
    #[error("a repository URL has at most 2048 characters")]
    TooLong,
    #[error(
        "{0:?} is not a kind of repository URL Stead uses (valid: https://, ssh://, user@host:path, http://, file:// or an absolute path)"
    )]
    Scheme(String),
    #[error(
        "a repository URL must not carry a password or token: give credentials to the server's configuration, per host"
    )]
    Credential,
    #[error("{0:?} is not a valid branch, tag or commit name")]
    Ref(String),
}

/// The address of a repository, in one of the forms that Stead passes to git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepositoryUrl(String);

impl FromStr for RepositoryUrl {
    type Err = InvalidRepository;

    fn from_str(text: &str) -> Result<Self, InvalidRepository> {
        if text.is_empty() {
            return Err(InvalidRepository::Empty);
        }
        if text.len() > 2048 {
            return Err(InvalidRepository::TooLong);
        }
        if text.starts_with('-') {
            return Err(InvalidRepository::Option);
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(InvalidRepository::Unprintable);
        }
        let unknown = || InvalidRepository::Scheme(text.chars().take(80).collect());
        if let Some((scheme, rest)) = text.split_once("://") {
            let host = rest.split('/').next().unwrap_or_default();
            match scheme {
                "file" => return if rest.starts_with('/') { Ok(Self(text.to_owned())) } else { Err(unknown()) },
                "https" | "http" | "ssh" => {}
                _ => return Err(unknown()),
            }
            let address = host.rsplit('@').next().unwrap_or_default();
            if address.is_empty() || address.starts_with('-') {
                return Err(unknown());
            }
            let user = host.strip_suffix(address).unwrap_or_default();
            // `ssh://git@host` names an account. A colon, or any user over http, would be a secret.
            if user.contains(':') || (scheme != "ssh" && !user.is_empty()) {
                return Err(InvalidRepository::Credential);
            }
            return if user.starts_with('-') { Err(unknown()) } else { Ok(Self(text.to_owned())) };
        }
        if text.starts_with('/') {
            return Ok(Self(text.to_owned()));
        }
        scp_form(text).then(|| Self(text.to_owned())).ok_or_else(unknown)
    }
}

/// Accepts `user@host:path`, never `helper::address`, which makes git run `git-remote-helper`.
fn scp_form(text: &str) -> bool {
    let Some((account, path)) = text.split_once(':') else { return false };
    let Some((user, host)) = account.split_once('@') else { return false };
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    plain(user) && plain(host) && !path.is_empty() && !path.starts_with([':', '-'])
}

/// A branch, tag or commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GitRef(String);

impl FromStr for GitRef {
    type Err = InvalidRepository;

    /// Applies the rules of `git check-ref-format --branch` without running git.
    fn from_str(text: &str) -> Result<Self, InvalidRepository> {
        let forbidden = |c: char| c.is_control() || " ~^:?*[\\".contains(c) || c == '\u{7f}';
        let component = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
        let well_formed = !text.is_empty()
            && text.len() <= 255
            && !text.starts_with('-')
            && !text.ends_with('.')
            && text != "@"
            && !text.contains("..")
            && !text.contains("@{")
            && !text.chars().any(forbidden)
            && text.split('/').all(component);
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRepository::Ref(text.chars().take(80).collect()))
        }
    }
}

macro_rules! text_form {
    ($($name:ident),+) => {
        $(
            impl $name {
                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.0)
                }
            }

            impl TryFrom<String> for $name {
                type Error = InvalidRepository;

                fn try_from(text: String) -> Result<Self, InvalidRepository> {
                    text.parse()
                }
            }

            impl From<$name> for String {
                fn from(value: $name) -> String {
                    value.0
                }
            }
        )+
    };
}

text_form!(RepositoryUrl, GitRef);
crate::parse::read_as_text!(RepositoryUrl, GitRef);
