//! A random change to a home: a field, a row, an order, a file.

use std::path::Path;

use super::{blobs, tamper};

/// xorshift64*: enough to choose with, and the same for the same seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
    Bytes,
}

use Kind::{Bytes, Flag, Number, Text};

#[derive(Debug, Clone, Copy)]
struct Table {
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    /// Columns that are in no key, whose values can be exchanged between rows.
    free: &'static [&'static str],
    /// Copies a row under another key; `{}` is its rowid.
    insert: &'static str,
}

const TABLES: &[Table] = &[
    Table {
        name: "events",
        columns: &[
            ("session", Text),
            ("seq", Number),
            ("at", Number),
            ("kind", Text),
            ("payload", Text),
            ("prev_hash", Bytes),
            ("hash", Bytes),
        ],
        free: &["at", "kind", "payload", "prev_hash", "hash"],
        insert: "INSERT INTO events SELECT session, seq + 1000, at, kind, payload, prev_hash, hash FROM events WHERE rowid = {}",
    },
    Table {
        name: "sessions",
        columns: &[
            ("id", Text),
            ("seq", Number),
            ("head_hash", Bytes),
            ("status", Text),
            ("live", Flag),
            ("agent_type", Text),
            ("project", Text),
            ("due_at", Number),
            ("final_hash", Text),
            ("created_at", Number),
            ("updated_at", Number),
        ],
        free: &["seq", "head_hash", "status", "live", "final_hash", "created_at", "updated_at"],
        insert: "INSERT INTO sessions SELECT 'ses_00000000000000000000000001', seq, head_hash, status, live, agent_type, project, \
                 due_at, final_hash, created_at, updated_at FROM sessions WHERE rowid = {}",
    },
    Table {
        name: "audit",
        columns: &[("id", Number), ("at", Number), ("kind", Text), ("actor", Text), ("session", Text), ("body", Text)],
        free: &["at", "kind", "actor", "session", "body"],
        insert: "INSERT INTO audit (at, kind, actor, session, body) SELECT at, kind, actor, session, body FROM audit WHERE rowid = {}",
    },
    Table {
        name: "documents",
        columns: &[
            ("kind", Text),
            ("id", Text),
            ("revision", Number),
            ("deleted", Flag),
            ("body", Text),
            ("created_at", Number),
            ("updated_at", Number),
        ],
        free: &["revision", "body", "created_at", "updated_at"],
        insert: "INSERT INTO documents SELECT kind, id || 'x', revision, deleted, body, created_at, updated_at FROM documents WHERE rowid = {}",
    },
    Table {
        name: "settings",
        columns: &[("key", Text), ("value", Text)],
        free: &["value"],
        insert: "INSERT INTO settings SELECT key || 'x', value FROM settings WHERE rowid = {}",
    },
    Table {
        name: "ledger",
        columns: &[
            ("seq", Number),
            ("kind", Text),
            ("subject", Text),
            ("number", Number),
            ("head", Bytes),
            ("hash", Bytes),
        ],
        free: &["kind", "subject", "number", "head", "hash"],
        insert: "INSERT INTO ledger (kind, subject, number, head, hash) SELECT kind, subject, number, head, hash FROM ledger WHERE rowid = {}",
    },
    Table {
        name: "seals",
        columns: &[
            ("number", Number),
            ("last", Number),
            ("at", Number),
            ("hash", Bytes),
            ("public_key", Bytes),
            ("signature", Bytes),
        ],
        free: &["last", "at", "hash", "signature"],
        insert: "INSERT INTO seals SELECT number + 1000, last, at, hash, public_key, signature FROM seals WHERE rowid = {}",
    },
];

#[derive(Debug, Clone, Copy)]
enum RowChange {
    Edit,
    Delete,
    Swap,
    Insert,
    Truncate,
}

#[derive(Debug)]
pub(super) enum Mutation {
    Row { sql: String },
    Blob { change: &'static str, index: usize },
}

impl Mutation {
    pub(super) fn draw(random: &mut Random) -> Self {
        use RowChange::{Delete, Edit, Insert, Swap, Truncate};
        if random.below(6) == 0 {
            let change = random.of(&["flip", "cut", "grow", "remove", "swap"]);
            return Self::Blob { change, index: random.below(1000) };
        }
        let table = random.of(TABLES);
        let change = random.of(&[Edit, Edit, Edit, Delete, Swap, Insert, Truncate]);
        let index = random.below(1000);
        Self::Row { sql: row_change(table, change, index, random) }
    }

    /// Applies the mutation. Returns true if it changed anything.
    pub(super) fn apply(&self, home: &Path, random: &mut Random) -> bool {
        match self {
            Self::Row { sql, .. } => {
                let before = std::fs::read(home.join("stead.db")).unwrap();
                // A key that exists already is no mutation; neither is a swap of equal values.
                tamper(home, sql).is_ok() && std::fs::read(home.join("stead.db")).unwrap() != before
            }
            Self::Blob { change, index } => blob_change(home, change, *index, random),
        }
    }
}

fn row_change(table: Table, change: RowChange, index: usize, random: &mut Random) -> String {
    let name = table.name;
    let row = |place: usize| {
        format!("(SELECT rowid FROM {name} ORDER BY rowid LIMIT 1 OFFSET ({place} % (SELECT COUNT(*) FROM {name})))")
    };
    match change {
        RowChange::Edit => {
            let (column, kind) = random.of(table.columns);
            let value = match kind {
                Text => format!("COALESCE({column}, '') || 'x'"),
                Number => format!("COALESCE({column}, 0) + 1000"),
                Flag => format!("1 - {column}"),
                Bytes => format!("X'{:064x}'", random.below(1 << 30)),
            };
            format!("UPDATE {name} SET {column} = {value} WHERE rowid = {}", row(index))
        }
        RowChange::Delete => format!("DELETE FROM {name} WHERE rowid = {}", row(index)),
        RowChange::Swap => {
            let column = random.of(table.free);
            let (one, other) = (row(index), row(index + 1));
            format!(
                "CREATE TEMP TABLE pair AS SELECT a.rowid AS one, b.rowid AS other, a.{column} AS first, b.{column} AS second \
                 FROM {name} a, {name} b WHERE a.rowid = {one} AND b.rowid = {other} AND a.{column} IS NOT b.{column}; \
                 UPDATE {name} SET {column} = (SELECT second FROM pair) WHERE rowid = (SELECT one FROM pair); \
                 UPDATE {name} SET {column} = (SELECT first FROM pair) WHERE rowid = (SELECT other FROM pair)"
            )
        }
        RowChange::Insert => table.insert.replace("{}", &row(index)),
        RowChange::Truncate => format!("DELETE FROM {name} WHERE rowid > {}", row(index)),
    }
}

fn blob_change(home: &Path, change: &str, index: usize, random: &mut Random) -> bool {
    let files = blobs(home);
    let path = &files[index % files.len()];
    let mut bytes = std::fs::read(path).unwrap();
    match change {
        "flip" => {
            let place = random.below(bytes.len());
            bytes[place] ^= 1;
        }
        "cut" => bytes.truncate(random.below(bytes.len())),
        "grow" => bytes.push(0),
        "remove" => return std::fs::remove_file(path).is_ok(),
        _ => {
            let other = &files[(index + 1) % files.len()];
            let second = std::fs::read(other).unwrap();
            std::fs::write(other, &bytes).unwrap();
            bytes = second;
        }
    }
    std::fs::write(path, bytes).is_ok()
}
