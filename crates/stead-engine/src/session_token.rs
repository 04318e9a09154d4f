//! Session tokens, which are derived and never stored.
//!
//! A token is the session's id, the token's end and a keyed hash of both. It can be verified
//! without a table, and it cannot be derived from the journal or the logs. The key is generated
//! once and stored in the database.

use stead_core::secret::PlaceholderKey;
use stead_core::{SessionId, Timestamp};

const PREFIX: &str = "sst_";

pub(crate) struct TokenKey([u8; 32]);

/// A valid session token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTokenClaims {
    pub session: SessionId,
    pub expires_at: Timestamp,
}

impl TokenKey {
    pub(crate) fn draw() -> Result<String, getrandom::Error> {
        let mut key = [0u8; 32];
        getrandom::fill(&mut key)?;
        Ok(blake3::Hash::from_bytes(key).to_hex().to_string())
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// Returns the key of placeholders for secrets. It is not derived from the key that seals
    /// secrets, so placeholders stay valid when that one is replaced.
    pub(crate) fn placeholder_key(&self) -> PlaceholderKey {
        PlaceholderKey::derive(&self.0)
    }

    fn proof(&self, claims: SessionTokenClaims) -> blake3::Hash {
        let SessionTokenClaims { session, expires_at } = claims;
        blake3::keyed_hash(&self.0, format!("{session} {}", expires_at.millis()).as_bytes())
    }

    /// Returns the proof of a session of the web page. No other proof of this key has its prefix.
    pub(crate) fn page_proof(&self, signed: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.0, format!("page {signed}").as_bytes())
    }

    pub(crate) fn token(&self, claims: SessionTokenClaims) -> String {
        let id = claims.session.to_string();
        let digits = id.strip_prefix(SessionId::PREFIX).unwrap_or(&id);
        format!("{PREFIX}{digits}_{:x}_{}", claims.expires_at.millis(), self.proof(claims).to_hex())
    }

    /// Returns the claims of a token with a valid proof. The comparison takes constant time. The
    /// caller checks the time.
    pub(crate) fn verify(&self, token: &str) -> Option<SessionTokenClaims> {
        let (digits, rest) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let (end, proof) = rest.split_once('_')?;
        let session: SessionId = format!("{}{digits}", SessionId::PREFIX).parse().ok()?;
        let claims =
            SessionTokenClaims { session, expires_at: Timestamp::from_millis(i64::from_str_radix(end, 16).ok()?) };
        let proof = blake3::Hash::from_hex(proof).ok()?;
        (self.proof(claims) == proof).then_some(claims)
    }
}
