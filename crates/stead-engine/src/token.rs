//! Session tokens: derived, never stored.
//!
//! A token is the session's id and a keyed hash of it, so it can be given out again and checked without a table, and nothing in the
//! journal or the logs can be turned into one. The key is drawn once and lives in the database.

use stead_core::SessionId;

const PREFIX: &str = "sst_";

pub(crate) struct TokenKey([u8; 32]);

impl TokenKey {
    pub(crate) fn draw() -> Result<String, getrandom::Error> {
        let mut key = [0u8; 32];
        getrandom::fill(&mut key)?;
        Ok(blake3::Hash::from_bytes(key).to_hex().to_string())
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    fn proof(&self, session: SessionId) -> blake3::Hash {
        blake3::keyed_hash(&self.0, session.to_string().as_bytes())
    }

    pub(crate) fn token(&self, session: SessionId) -> String {
        let id = session.to_string();
        let digits = id.strip_prefix(SessionId::PREFIX).unwrap_or(&id);
        format!("{PREFIX}{digits}_{}", self.proof(session).to_hex())
    }

    /// The session a token is for, if it is one of ours. The comparison takes the same time wherever the texts differ.
    pub(crate) fn verify(&self, token: &str) -> Option<SessionId> {
        let (digits, proof) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let session: SessionId = format!("{}{digits}", SessionId::PREFIX).parse().ok()?;
        let proof = blake3::Hash::from_hex(proof).ok()?;
        (self.proof(session) == proof).then_some(session)
    }
}
