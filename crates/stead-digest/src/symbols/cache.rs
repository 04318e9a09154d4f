//! Cache of extracted symbols by content hash, so that only changed files are parsed again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Symbol;
use crate::survey::File;

/// The grammar and the content hash.
pub(super) type Key = (u8, [u8; 32]);
type Known = HashMap<Key, Arc<Option<Vec<Symbol>>>>;

/// Maximum number of cached files, at a few hundred bytes each.
const MOST: usize = 50_000;

/// Symbol cache shared by all digests of one process.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Known>);

pub(super) fn key(file: &File) -> Key {
    let grammar = file.language.and_then(|language| language.grammar).map_or(0, |grammar| grammar as u8);
    (grammar, *blake3::hash(file.content.as_deref().unwrap_or_default()).as_bytes())
}

impl Cache {
    pub(super) fn find(&self, keys: impl Iterator<Item = Key>) -> Known {
        let known = self.lock();
        keys.filter_map(|key| Some((key, known.get(&key)?.clone()))).collect()
    }

    /// Adds these entries. If the cache is full, all others are dropped.
    pub(super) fn keep(&self, found: &Known) {
        let mut known = self.lock();
        if known.len() + found.len() > MOST {
            known.clear();
        }
        known.extend(found.iter().map(|(key, symbols)| (*key, symbols.clone())));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // Entries are inserted whole, so a panic elsewhere cannot leave the map inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
