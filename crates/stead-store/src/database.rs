//! The address of the database: a SQLite file or a PostgreSQL server.
//!
//! Invariant: no text from this type (`Display`, `Debug`, errors) contains a password.

pub(crate) mod backend;
pub(crate) mod fence;
pub(crate) mod open;
pub(crate) mod operation;
pub(crate) mod ownership;
pub(crate) mod sql;
pub(crate) mod writer;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    Sqlite(PathBuf),
    /// The URL as given, including the password. It is shown only through `Display`, which omits
    /// the password.
    Postgres(String),
}

/// The error for a text that is not a database address. It does not contain the text, which may
/// include a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a database: {reason}; write sqlite:PATH or postgres://USER@HOST/NAME")]
pub struct InvalidDatabase {
    reason: &'static str,
}

impl FromStr for Database {
    type Err = InvalidDatabase;

    fn from_str(text: &str) -> Result<Self, InvalidDatabase> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            // Other programs write sqlite:///var/lib/x, where an empty authority means this
            // machine.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.contains(['?', '\0']) || path == ":memory:" {
                return Err(InvalidDatabase {
                    reason: "sqlite: must be followed by the path of a file, without parameters",
                });
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(InvalidDatabase { reason: "it starts neither with sqlite: nor with postgres://" });
        }
        match PgConnectOptions::from_str(text) {
            Ok(_) => Ok(Self::Postgres(text.to_owned())),
            Err(_) => Err(InvalidDatabase { reason: "the postgres:// URL cannot be parsed" }),
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self {
            Self::Sqlite(path) => return write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url,
        };
        // Rebuilt from the parts that are not secret, because a URL can contain a password in many
        // places.
        let Ok(options) = PgConnectOptions::from_str(url) else { return f.write_str("postgres://(unparsable)") };
        let host = options.get_socket().map_or(options.get_host().to_owned(), |socket| socket.display().to_string());
        write!(f, "postgres://{}@{}:{}", options.get_username(), host, options.get_port())?;
        options.get_database().map_or(Ok(()), |name| write!(f, "/{name}"))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: Result<&str, &str>) {
        let parsed = text.parse::<Database>();
        match shown {
            Ok(shown) => {
                let database = parsed.unwrap();
                assert_eq!(database.to_string(), shown);
                assert_eq!(format!("{database:?}"), shown);
            }
            Err(reason) => assert!(parsed.unwrap_err().to_string().contains(reason), "{text}"),
        }
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        check("sqlite:/var/lib/stead.db", Ok("sqlite:/var/lib/stead.db"));
        check("sqlite:///var/lib/stead.db", Ok("sqlite:/var/lib/stead.db"));
        check("postgres://ann:s3cret@db:5433/stead", Ok("postgres://ann@db:5433/stead"));
        check("postgresql://ann@db/stead?password=s3cret", Ok("postgres://ann@db:5432/stead"));
    }

    #[test]
    fn a_text_that_names_no_database_is_refused_without_repeating_it() {
        check("sqlite:", Err("path of a file"));
        check("sqlite::memory:", Err("path of a file"));
        check("mysql://root:s3cret@db", Err("neither"));
        check("postgres://ann:s3cret@db:port/x", Err("cannot be parsed"));
        assert!(!"mysql://root:s3cret@db".parse::<Database>().unwrap_err().to_string().contains("s3cret"));
    }
}
