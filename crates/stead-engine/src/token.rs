//! Session tokens, which are derived and never stored.
//!
//! A token is the session's id and a keyed hash of it. It can be issued again and verified without
//! a table, and it cannot be derived from the journal or the logs. The key is generated once and
//! stored in the database.

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

    /// Returns the session of a token, if the token is valid. The comparison takes constant time.
    pub(crate) fn verify(&self, token: &str) -> Option<SessionId> {
        let (digits, proof) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let session: SessionId = format!("{}{digits}", SessionId::PREFIX).parse().ok()?;
        let proof = blake3::Hash::from_hex(proof).ok()?;
        (self.proof(session) == proof).then_some(session)
    }
}
