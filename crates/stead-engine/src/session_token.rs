//! Session tokens, which are derived and never stored.
//!
//! A token is the session's id, the token's end, the id of the token that asked for it, and a keyed
//! hash of these. It can be verified without a table, and it cannot be derived from the journal or
//! the logs. The key is generated once and stored in the database. Tokens of the configuration have
//! no id and cannot be revoked at run time.

use stead_core::secret::PlaceholderKey;
use stead_core::{SessionId, Timestamp, TokenId};

const PREFIX: &str = "sst_";

pub(crate) struct TokenKey([u8; 32]);

/// A valid session token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTokenClaims {
    pub session: SessionId,
    pub expires_at: Timestamp,
    /// The token that asked for this one, which ends with it. `None` for a token of the
    /// configuration.
    pub asked_by: Option<TokenId>,
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
        let SessionTokenClaims { session, expires_at, asked_by } = claims;
        let asked_by = asked_by.map_or_else(String::new, |token| format!(" {token}"));
        blake3::keyed_hash(&self.0, format!("{session} {}{asked_by}", expires_at.millis()).as_bytes())
    }

    /// Returns the proof of a session of the web page. No other proof of this key has its prefix.
    pub(crate) fn page_proof(&self, signed: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.0, format!("page {signed}").as_bytes())
    }

    pub(crate) fn token(&self, claims: SessionTokenClaims) -> String {
        let id = claims.session.to_string();
        let digits = id.strip_prefix(SessionId::PREFIX).unwrap_or(&id);
        let asked_by = claims.asked_by.map_or_else(String::new, |token| {
            let id = token.to_string();
            format!("{}_", id.strip_prefix(TokenId::PREFIX).unwrap_or(&id))
        });
        format!("{PREFIX}{digits}_{:x}_{asked_by}{}", claims.expires_at.millis(), self.proof(claims).to_hex())
    }

    /// Returns the claims of a token with a valid proof. The comparison takes constant time. The
    /// caller checks the time.
    pub(crate) fn verify(&self, token: &str) -> Option<SessionTokenClaims> {
        let (digits, rest) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let (end, rest) = rest.split_once('_')?;
        let (asked_by, proof) = match rest.split_once('_') {
            Some((digits, proof)) => (Some(format!("{}{digits}", TokenId::PREFIX).parse().ok()?), proof),
            None => (None, rest),
        };
        let session: SessionId = format!("{}{digits}", SessionId::PREFIX).parse().ok()?;
        let expires_at = Timestamp::from_millis(i64::from_str_radix(end, 16).ok()?);
        let claims = SessionTokenClaims { session, expires_at, asked_by };
        let proof = blake3::Hash::from_hex(proof).ok()?;
        (self.proof(claims) == proof).then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_proves_its_session_its_end_and_who_asked_for_it() {
        let key = TokenKey([7; 32]);
        let (session, expires_at) = (SessionId::from_bits(1), Timestamp::from_millis(5));
        let [one, other] = [2, 3].map(TokenId::from_bits);
        for asked_by in [None, Some(one)] {
            let claims = SessionTokenClaims { session, expires_at, asked_by };
            assert_eq!(key.verify(&key.token(claims)), Some(claims));
        }
        let text = key.token(SessionTokenClaims { session, expires_at, asked_by: Some(one) });
        let digits = |id: TokenId| id.to_string().replace(TokenId::PREFIX, "");
        assert_eq!(key.verify(&text.replace(&format!("{}_", digits(one)), "")), None, "without who asked for it");
        assert_eq!(key.verify(&text.replace(&digits(one), &digits(other))), None, "asked for by another");
        assert_eq!(TokenKey([8; 32]).verify(&text), None, "another key");
    }
}
