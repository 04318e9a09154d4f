//! The symbols of a tree, most referenced first.
//!
//! Definitions come from tree-sitter. References are counted as words in the same files. So a name
//! that is defined once and used in many files ranks above a name that every file defines.

mod cache;
mod extract;
mod worker;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::language;
use crate::survey::{File, Survey};
pub use cache::Cache;
pub use worker::{WORKER_ARGUMENT, serve_worker};

/// Maximum number of files and of bytes that are parsed.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: usize = 6 * 1024 * 1024;
/// Average line length above which a file counts as minified.
const MINIFIED: usize = 200;
const SHORTEST: usize = 3;

/// A definition in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Symbol {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) line: u32,
    /// The first line of the definition.
    pub(crate) signature: String,
}

/// Selects where the grammars run. They are C code on hostile input.
#[derive(Debug, Clone)]
pub enum Parsers {
    /// In a sandboxed child process: the program at this path is started with [`WORKER_ARGUMENT`]
    /// and calls [`serve_worker`].
    Worker(PathBuf),
    /// In this process, for programs that trust their input.
    InProcess,
}

/// A symbol with its file and rank.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    pub(crate) path: String,
    pub(crate) symbol: Symbol,
    /// Number of other files that mention it.
    pub(crate) files: u32,
}

#[derive(Debug, Default)]
pub(crate) struct SymbolMap {
    /// Most referenced first.
    pub(crate) ranked: Vec<Ranked>,
    pub(crate) parsed: usize,
    /// Number of source files that were not parsed: too many, too large, or too complex.
    pub(crate) passed_over: usize,
}

pub(crate) fn map(survey: &Survey, parsers: &Parsers, cache: &Cache) -> std::io::Result<SymbolMap> {
    let (chosen, mut passed_over) = choose(survey);
    let wanted: Vec<(&File, cache::Key)> = chosen.iter().map(|file| (*file, cache::key(file))).collect();
    let mut found = cache.find(wanted.iter().map(|(_, key)| *key));
    let missing: Vec<&(&File, cache::Key)> = wanted.iter().filter(|(_, key)| !found.contains_key(key)).collect();
    if !missing.is_empty() {
        let files: Vec<&File> = missing.iter().map(|(file, _)| *file).collect();
        let extracted = match parsers {
            Parsers::InProcess => files.iter().map(|file| extract::extract_file(file)).collect(),
            Parsers::Worker(program) => worker::extract(program, &files)?,
        };
        for ((_, key), symbols) in missing.iter().zip(extracted) {
            found.insert(*key, std::sync::Arc::new(symbols));
        }
        cache.keep(&found);
    }
    let per_file: Vec<(&File, std::sync::Arc<Option<Vec<Symbol>>>)> =
        wanted.into_iter().filter_map(|(file, key)| Some((file, found.get(&key)?.clone()))).collect();
    passed_over += per_file.iter().filter(|(_, symbols)| symbols.is_none()).count();
    let parsed = per_file.len();
    Ok(SymbolMap { ranked: rank(&per_file), parsed, passed_over })
}

/// Selects the files to parse, outermost and non-test files first, and returns the number of files
/// that did not fit.
fn choose(survey: &Survey) -> (Vec<&File>, usize) {
    let mut sources: Vec<&File> = survey
        .own()
        .filter(|file| file.language.is_some_and(|language| language.grammar.is_some()))
        .filter(|file| file.content.as_ref().is_some_and(|content| !minified(content)))
        .collect();
    sources.sort_by_key(|file| (language::is_test(&file.path), file.depth(), file.path.clone()));
    let (mut chosen, mut bytes, mut passed_over) = (Vec::new(), 0, 0);
    for file in sources {
        let size = file.content.as_ref().map_or(0, bytes::Bytes::len);
        if chosen.len() == MAX_FILES || bytes + size > MAX_BYTES {
            passed_over += 1;
            continue;
        }
        bytes += size;
        chosen.push(file);
    }
    (chosen, passed_over)
}

fn minified(content: &[u8]) -> bool {
    let lines = content.iter().filter(|byte| **byte == b'\n').count() + 1;
    content.len() / lines > MINIFIED
}

fn rank(per_file: &[(&File, std::sync::Arc<Option<Vec<Symbol>>>)]) -> Vec<Ranked> {
    let mut definitions: HashMap<&str, u32> = HashMap::new();
    for symbol in per_file.iter().flat_map(|(_, symbols)| symbols.iter().flatten()) {
        *definitions.entry(&symbol.name).or_default() += 1;
    }
    let mut mentioned: HashMap<&str, u32> = HashMap::new();
    for (file, _) in per_file {
        let mut seen: HashSet<&str> = HashSet::new();
        for word in words(file.text().unwrap_or_default()) {
            if let Some((name, _)) = definitions.get_key_value(word)
                && seen.insert(name)
            {
                *mentioned.entry(name).or_default() += 1;
            }
        }
    }
    let mut ranked = Vec::new();
    for (file, symbols) in per_file {
        for symbol in symbols.iter().flatten() {
            let defined = definitions.get(symbol.name.as_str()).copied().unwrap_or(1);
            // A name that many files define says little about any of them.
            let files = mentioned.get(symbol.name.as_str()).copied().unwrap_or(0).saturating_sub(1) / defined;
            let tells =
                symbol.name.len() >= SHORTEST && !symbol.name.starts_with("__") && !language::is_test(&file.path);
            if tells && defined <= 4 {
                ranked.push(Ranked { path: file.path.clone(), symbol: symbol.clone(), files });
            }
        }
    }
    ranked.sort_by(|a, b| {
        b.files.cmp(&a.files).then_with(|| a.path.cmp(&b.path)).then_with(|| a.symbol.line.cmp(&b.symbol.line))
    });
    ranked
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| word.len() >= SHORTEST)
}

/// Groups symbols by file; files are ordered by their best symbol.
pub(crate) fn by_file(ranked: &[Ranked]) -> Vec<(&str, Vec<&Ranked>)> {
    let mut order: Vec<&str> = Vec::new();
    let mut files: BTreeMap<&str, Vec<&Ranked>> = BTreeMap::new();
    for one in ranked {
        let in_file = files.entry(&one.path).or_insert_with(|| {
            order.push(&one.path);
            Vec::new()
        });
        in_file.push(one);
    }
    order
        .into_iter()
        .map(|path| {
            let mut symbols = files.remove(path).unwrap_or_default();
            symbols.sort_by_key(|one| one.symbol.line);
            (path, symbols)
        })
        .collect()
}
