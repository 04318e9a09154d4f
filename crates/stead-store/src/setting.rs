//! Small values the server keeps for itself, such as its instance id: written once, then always the same.

use crate::error::StoreError;
use crate::operation::Operation;
use crate::sql::{Conn, values};

pub(crate) struct SettingOrInsert {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Operation for SettingOrInsert {
    type Output = String;
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<String, StoreError> {
        // The no-op update makes the losing insert return the row that won.
        let row: Option<(String,)> = conn
            .optional(
                "read or write a setting",
                "INSERT INTO settings (key, value) VALUES ($1, $2) \
                 ON CONFLICT (key) DO UPDATE SET value = settings.value RETURNING value",
                values![self.key.clone(), self.value.clone()],
            )
            .await?;
        row.map(|(value,)| value).ok_or_else(|| StoreError::corrupt("setting", "an upsert returned no row"))
    }
}
