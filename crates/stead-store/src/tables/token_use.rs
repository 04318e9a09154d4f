//! The time of the last use of each token. It is a fact for people, so it is in no chain.

use stead_core::{Timestamp, TokenId};

use crate::database::operation::Operation;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;

pub(crate) struct RecordTokenUses(pub(crate) Vec<(TokenId, Timestamp)>);

impl Operation for RecordTokenUses {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        for (token, at) in &self.0 {
            conn.execute(
                "record the use of a token",
                "INSERT INTO token_uses (token, at) VALUES ($1, $2) \
                 ON CONFLICT (token) DO UPDATE SET at = excluded.at WHERE token_uses.at < excluded.at",
                values![token.to_string(), *at],
            )
            .await?;
        }
        Ok(())
    }
}

pub(crate) async fn all(conn: &mut Conn<'_>) -> Result<Vec<(String, i64)>, StoreError> {
    conn.all("read the uses of tokens", "SELECT token, at FROM token_uses", values![]).await
}
