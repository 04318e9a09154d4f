//! A random change to a home: a field, a row, an order or a file.

use std::path::Path;

use super::{blobs, tamper};

/// xorshift64*: deterministic for a given seed.
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
    /// Columns outside every key, whose values can be exchanged between rows.
    free: &'static [&'static str],
    /// Copies a row under another key; `{}` selects it.
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
        insert: "INSERT INTO events SELECT session, seq + 1000, at, kind, payload, prev_hash, hash FROM events WHERE {}",
    },
    Table {
        name: "sessions",
        columns: &[
            ("id", Text),
            ("seq", Number),
            ("head_hash", Bytes),
            ("status", Text),
            ("live", Flag),
            ("holds_workspace", Flag),
            ("agent_type", Text),
            ("project", Text),
            ("due_at", Number),
            ("final_hash", Text),
            ("created_at", Number),
            ("updated_at", Number),
        ],
        free: &["seq", "head_hash", "status", "live", "final_hash", "created_at", "updated_at"],
        insert: "INSERT INTO sessions SELECT 'ses_00000000000000000000000001', seq, head_hash, status, live, agent_type, project, \
                 due_at, final_hash, created_at, updated_at, holds_workspace FROM sessions WHERE {}",
    },
    Table {
        name: "audit",
        columns: &[
            ("id", Number),
            ("at", Number),
            ("kind", Text),
            ("actor", Text),
            ("session", Text),
            ("body", Text),
            ("project", Text),
            ("token", Text),
        ],
        free: &["at", "kind", "actor", "session", "body", "project"],
        insert: "INSERT INTO audit (at, kind, actor, session, body) SELECT at, kind, actor, session, body FROM audit WHERE {}",
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
        insert: "INSERT INTO documents SELECT kind, id || 'x', revision, deleted, body, created_at, updated_at FROM documents WHERE {}",
    },
    Table {
        name: "settings",
        columns: &[("key", Text), ("value", Text)],
        free: &["value"],
        insert: "INSERT INTO settings SELECT key || 'x', value FROM settings WHERE {}",
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
        insert: "INSERT INTO ledger (kind, subject, number, head, hash) SELECT kind, subject, number, head, hash FROM ledger WHERE {}",
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
        insert: "INSERT INTO seals SELECT number + 1000, last, at, hash, public_key, signature FROM seals WHERE {}",
    },
    Table {
        name: "blob_references",
        columns: &[("holder", Text), ("digest", Text), ("bytes", Number)],
        free: &["digest", "bytes"],
        insert: "INSERT INTO blob_references SELECT holder, digest || 'x', bytes FROM blob_references WHERE {}",
    },
];

const SESSION: &str =
    "seq, head_hash, status, live, agent_type, project, due_at, final_hash, created_at, updated_at, holds_workspace";

/// Rows whose keys sort before every other key or belong to no record, and objects that are not
/// rows.
pub(super) fn edges() -> Vec<String> {
    let fixed = [
        "INSERT INTO documents SELECT '', '', revision, deleted, body, created_at, updated_at FROM documents LIMIT 1",
        "INSERT INTO audit (id, at, kind, actor, session, body) \
         SELECT -9223372036854775807 - 1, at, kind, actor, session, body FROM audit LIMIT 1",
        "INSERT INTO ledger SELECT -9223372036854775807 - 1, kind, subject, number, head, hash FROM ledger LIMIT 1",
        "INSERT INTO ledger (kind, subject, number, head, hash) \
         SELECT kind, subject, number, head, hash FROM ledger WHERE kind = 'blob' ORDER BY seq DESC LIMIT 1",
        "INSERT INTO seals SELECT -9223372036854775807 - 1, last, at, hash, public_key, signature FROM seals LIMIT 1",
        "INSERT INTO seals SELECT MAX(number) + 1, 9223372036854775807, at, hash, public_key, signature FROM seals",
        "INSERT INTO events SELECT 'ses_00000000000000000000000001', seq, at, kind, payload, prev_hash, hash FROM events LIMIT 1",
        "INSERT INTO events SELECT CAST(session AS BLOB), seq, at, kind, payload, prev_hash, hash FROM events LIMIT 1",
        "INSERT INTO events SELECT session, 0, at, kind, payload, prev_hash, hash FROM events LIMIT 1",
        "INSERT INTO blob_references SELECT '', '', bytes FROM blob_references LIMIT 1",
        "DELETE FROM blob_references",
        "CREATE TRIGGER quiet AFTER INSERT ON audit BEGIN DELETE FROM audit WHERE id = NEW.id; END",
        "CREATE VIEW other AS SELECT * FROM events",
        "CREATE TABLE other (id TEXT)",
        "DROP INDEX audit_kind",
        "UPDATE sqlite_sequence SET seq = seq + 1000",
        "DELETE FROM sqlite_sequence",
        "INSERT INTO sqlite_sequence VALUES ('audit', 1)",
    ];
    let session = format!("INSERT INTO sessions (id, {SESSION}) SELECT '', {SESSION} FROM sessions LIMIT 1");
    fixed.into_iter().map(str::to_owned).chain([session]).collect()
}

/// SQL dialect of the two databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// The column that identifies a row physically.
    fn row(self) -> &'static str {
        match self {
            Self::Sqlite => "rowid",
            Self::Postgres => "ctid",
        }
    }

    fn bytes(self, number: usize) -> String {
        match self {
            Self::Sqlite => format!("X'{number:064x}'"),
            Self::Postgres => format!("decode('{number:064x}', 'hex')"),
        }
    }
}

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
        if random.below(6) == 0 {
            let change = random.of(&["flip", "cut", "grow", "remove", "swap"]);
            return Self::Blob { change, index: random.below(1000) };
        }
        if random.below(8) == 0 {
            let mut edges = edges();
            return Self::Row { sql: edges.swap_remove(random.below(edges.len())) };
        }
        Self::Row { sql: Self::draw_row(Dialect::Sqlite, random) }
    }

    /// Draws a statement that changes rows of one table.
    pub(super) fn draw_row(dialect: Dialect, random: &mut Random) -> String {
        use RowChange::{Delete, Edit, Insert, Swap, Truncate};
        let table = random.of(TABLES);
        let change = random.of(&[Edit, Edit, Edit, Delete, Swap, Insert, Truncate]);
        let index = random.below(1000);
        row_change(dialect, (table, change, index), random)
    }

    /// Applies the mutation. Returns true if it changed anything.
    pub(super) fn apply(&self, home: &Path, random: &mut Random) -> bool {
        match self {
            Self::Row { sql, .. } => {
                let before = std::fs::read(home.join("stead.db")).unwrap();
                // An existing key or a swap of equal values changes nothing.
                tamper(home, sql).is_ok() && std::fs::read(home.join("stead.db")).unwrap() != before
            }
            Self::Blob { change, index } => blob_change(home, change, *index, random),
        }
    }
}

fn row_change(dialect: Dialect, (table, change, index): (Table, RowChange, usize), random: &mut Random) -> String {
    let (name, key) = (table.name, dialect.row());
    let row = |offset: usize| {
        format!("(SELECT {key} FROM {name} ORDER BY {key} LIMIT 1 OFFSET ({offset} % (SELECT COUNT(*) FROM {name})))")
    };
    match change {
        RowChange::Edit => {
            let (column, kind) = random.of(table.columns);
            let value = match kind {
                Text => format!("COALESCE({column}, '') || 'x'"),
                Number => format!("COALESCE({column}, 0) + 1000"),
                Flag => format!("1 - {column}"),
                Bytes => dialect.bytes(random.below(1 << 30)),
            };
            format!("UPDATE {name} SET {column} = {value} WHERE {key} = {}", row(index))
        }
        RowChange::Delete => format!("DELETE FROM {name} WHERE {key} = {}", row(index)),
        RowChange::Swap => {
            let column = random.of(table.free);
            let (one, other) = (row(index), row(index + 1));
            format!(
                "CREATE TEMP TABLE pair AS SELECT a.{key} AS one, b.{key} AS other, a.{column} AS first, b.{column} AS second \
                 FROM {name} a, {name} b WHERE a.{key} = {one} AND b.{key} = {other} AND a.{column} IS DISTINCT FROM b.{column}; \
                 UPDATE {name} SET {column} = (SELECT second FROM pair) WHERE {key} = (SELECT one FROM pair); \
                 UPDATE {name} SET {column} = (SELECT first FROM pair) WHERE {key} = (SELECT other FROM pair)"
            )
        }
        RowChange::Insert => table.insert.replace("{}", &format!("{key} = {}", row(index))),
        RowChange::Truncate => format!("DELETE FROM {name} WHERE {key} > {}", row(index)),
    }
}

fn blob_change(home: &Path, change: &str, index: usize, random: &mut Random) -> bool {
    let files = blobs(home);
    let path = &files[index % files.len()];
    let mut bytes = std::fs::read(path).unwrap();
    match change {
        "flip" => {
            let index = random.below(bytes.len());
            bytes[index] ^= 1;
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
