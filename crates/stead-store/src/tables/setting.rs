//! Small values that the server stores for itself, such as its token key. They are written once and
//! never change.

use crate::database::operation::Operation;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::ledger::{self, Entry};

pub(crate) struct SettingOrInsert {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Operation for SettingOrInsert {
    type Output = String;
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<String, StoreError> {
        if let Some((value,)) = self.read(conn).await? {
            return Ok(value);
        }
        let inserted = conn
            .execute(
                "write a setting",
                "INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING",
                values![self.key.clone(), self.value.clone()],
            )
            .await?;
        if inserted == 1 {
            ledger::append(conn, vec![Entry::setting(&self.key, &self.value)]).await?;
            return Ok(self.value.clone());
        }
        // Another transaction inserted it first and has committed, because the insert waited for
        // it.
        let row = self.read(conn).await?;
        row.map(|(value,)| value)
            .ok_or_else(|| StoreError::corrupt("setting", "an insert found a row that is not there"))
    }
}

impl SettingOrInsert {
    async fn read(&self, conn: &mut Conn<'_>) -> Result<Option<(String,)>, StoreError> {
        let sql = "SELECT value FROM settings WHERE key = $1";
        conn.optional("read a setting", sql, values![self.key.clone()]).await
    }
}
