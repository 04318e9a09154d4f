//! The terms by which sessions are found.
//!
//! The table `session_terms` is a projection of the journals: the engine derives the terms from the
//! events and can write all of them again. The ledger does not cover it, because no answer contains
//! anything of it. It only proposes ids of sessions, and every session in an answer is folded from
//! its own journal and compared with the filter again.

use std::collections::BTreeSet;

use stead_core::SessionId;

use crate::database::operation::Operation;
use crate::database::sql::{Conn, Statement, values};
use crate::error::StoreError;

/// Maximum number of bytes of a term. A longer one is stored as its hash, because PostgreSQL limits
/// the size of an index entry.
const MOST_BYTES: usize = 512;
/// Maximum number of characters of a word. Longer words are found by their first characters.
const WORD_CHARS: usize = 64;
/// Maximum number of words of a session.
const MOST_WORDS: usize = 256;

/// A condition on the terms of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchTerm {
    Owner(String),
    Metadata {
        key: String,
        value: String,
    },
    /// The start of a word, without regard to case.
    WordStart(String),
}

/// The terms of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionTerms {
    exact: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl SessionTerms {
    pub fn add_owner(&mut self, owner: &str) {
        self.exact.insert(owner_term(owner));
        self.add_text(owner);
    }

    pub fn add_metadata(&mut self, key: &str, value: &str) {
        self.exact.insert(metadata_term(key, value));
        self.add_text(value);
    }

    /// Adds the words of a text.
    pub fn add_text(&mut self, text: &str) {
        for token in text.split_whitespace() {
            let parts = token.split(|c: char| !c.is_alphanumeric());
            for word in std::iter::once(token).chain(parts).map(word_term) {
                if self.words.len() < MOST_WORDS && word.len() > "w:".len() {
                    self.words.insert(word);
                }
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.exact.iter().chain(&self.words)
    }
}

fn owner_term(owner: &str) -> String {
    bounded(format!("o:{}", serde_json::json!(owner)))
}

/// Both parts are JSON texts, so the term contains no NUL and two different pairs never have the
/// same term.
fn metadata_term(key: &str, value: &str) -> String {
    bounded(format!("m:{}", serde_json::json!([key, value])))
}

fn word_term(word: &str) -> String {
    let lower = word.to_lowercase();
    format!("w:{}", lower.chars().filter(|c| !c.is_control()).take(WORD_CHARS).collect::<String>())
}

fn bounded(term: String) -> String {
    if term.len() <= MOST_BYTES { term } else { format!("h:{}", blake3::hash(term.as_bytes()).to_hex()) }
}

/// The bounds of the terms that a condition matches. An exact condition has no upper bound.
pub(super) enum Bounds {
    Exact(String),
    Range(String, String),
}

impl SearchTerm {
    pub(super) fn bounds(&self) -> Bounds {
        match self {
            Self::Owner(owner) => Bounds::Exact(owner_term(owner)),
            Self::Metadata { key, value } => Bounds::Exact(metadata_term(key, value)),
            Self::WordStart(word) => {
                let from = word_term(word);
                let to = format!("{from}\u{10FFFF}");
                Bounds::Range(from, to)
            }
        }
    }
}

/// Replaces the terms of a session.
pub(crate) async fn write(
    conn: &mut Conn<'_>,
    session: SessionId,
    terms: &SessionTerms,
    before: Before,
) -> Result<(), StoreError> {
    if before == Before::Some {
        let sql = "DELETE FROM session_terms WHERE session = $1";
        conn.execute("remove the terms of a session", sql, values![session]).await?;
    }
    let insert = |term: &String| Statement {
        sql: "INSERT INTO session_terms (term, session) VALUES ($1, $2) ON CONFLICT (term, session) DO NOTHING",
        values: values![term.clone(), session],
    };
    conn.together("write the terms of a session", terms.all().map(insert).collect()).await.map(drop)
}

/// Says if a session may have terms already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    None,
    Some,
}

/// Writes the terms of several sessions.
pub(crate) struct WriteTerms(pub(crate) Vec<(SessionId, SessionTerms)>);

impl Operation for WriteTerms {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        for (session, terms) in &self.0 {
            write(conn, *session, terms, Before::Some).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_short_and_has_no_control_characters() {
        let mut terms = SessionTerms::default();
        terms.add_metadata("key", &"long ".repeat(2_000));
        terms.add_metadata("nul", "a\u{0}b");
        terms.add_text(&"x".repeat(10_000));
        assert!(terms.all().all(|term| term.len() <= MOST_BYTES && !term.contains(char::is_control)), "{terms:?}");
    }

    #[test]
    fn words_are_parts_and_wholes() {
        let mut terms = SessionTerms::default();
        terms.add_owner("user:Alice@web");
        let words: Vec<&str> = terms.words.iter().map(String::as_str).collect();
        assert_eq!(words, ["w:alice", "w:user", "w:user:alice@web", "w:web"]);
    }
}
