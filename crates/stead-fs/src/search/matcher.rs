//! A regular expression over lines, compiled as late as possible.
//!
//! Compiling costs more than searching a small tree: a `\w` is thousands of code points, in two
//! directions. So if every match must contain some literal, lines are first searched for that
//! literal. The expression is compiled when a line contains it. Invariant: this does not affect
//! which lines match, or where.

use std::fmt;
use std::sync::OnceLock;

use grep_matcher::{LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use memchr::memmem::Finder;
use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::{Input, util::syntax};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

use super::{Case, LineSpan};

/// Maximum size of a compiled pattern; nested repetitions above it are refused.
const BYTES: usize = 10 << 20;
/// Maximum length of a pattern that is compiled late. A longer one, or one with counted
/// repetitions, could turn out too large later.
const LATE_BYTES: usize = 256;

pub(super) struct LineMatcher {
    hir: Hir,
    /// A literal that every match contains.
    needle: Option<Finder<'static>>,
    regex: OnceLock<Result<Regex, Unbuildable>>,
    line_terminator: Option<LineTerminator>,
    ascii: bool,
}

/// The reason why a pattern is invalid, for the user.
#[derive(Debug, Clone)]
pub(super) struct Unbuildable(String);

impl fmt::Display for Unbuildable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LineMatcher {
    pub(super) fn new(pattern: &str, case: Case, span: LineSpan) -> Result<Self, Unbuildable> {
        let syntax = syntax::Config::new()
            .utf8(false)
            .case_insensitive(case == Case::Insensitive)
            // `^` and `$` match at lines, not at the file.
            .multi_line(true)
            .crlf(true);
        let hir = syntax::parse_with(pattern, &syntax).map_err(|error| Unbuildable(error.to_string()))?;
        let hir = if span == LineSpan::One { within_line(hir)? } else { hir };
        // `\A` and `\z` also refer to the line, so each line is searched by itself.
        let anchored = hir.properties().look_set().contains_anchor_haystack();
        let line_terminator = (!anchored && span == LineSpan::One).then(LineTerminator::crlf);
        let ascii = only_ascii(&hir);
        let needle =
            required(&hir).filter(|literal| literal.len() > 1).map(|literal| Finder::new(literal).into_owned());
        let matcher = Self { hir, needle, regex: OnceLock::new(), line_terminator, ascii };
        if matcher.needle.is_none() || pattern.len() > LATE_BYTES || pattern.contains('{') {
            matcher.regex()?;
        }
        Ok(matcher)
    }

    /// Returns true if every match is ASCII and does not depend on the characters around it. So it
    /// matches the same lines in a text that is not UTF-8 and in the decoded one.
    pub(super) fn is_ascii(&self) -> bool {
        self.ascii
    }

    /// Returns true if the text has no match, also after decoding. Cheaper than a search.
    pub(super) fn rules_out(&self, text: &[u8]) -> bool {
        let ascii = self.needle.as_ref().filter(|needle| needle.needle().is_ascii());
        ascii.is_some_and(|needle| needle.find(text).is_none())
    }

    fn regex(&self) -> Result<&Regex, Unbuildable> {
        self.regex.get_or_init(|| self.build()).as_ref().map_err(Clone::clone)
    }

    fn build(&self) -> Result<Regex, Unbuildable> {
        let config = Regex::config()
            .utf8_empty(false)
            .which_captures(WhichCaptures::Implicit)
            .nfa_size_limit(Some(BYTES))
            .hybrid_cache_capacity(BYTES)
            // Both pay off for gigabytes of input, but cost milliseconds.
            .dfa(false)
            .onepass(false);
        let built = Regex::builder().configure(config).build_from_hir(&self.hir);
        built.map_err(|error| match error.size_limit() {
            Some(limit) => Unbuildable(format!("the pattern needs more than {limit} bytes once built")),
            None => Unbuildable(error.to_string()),
        })
    }
}

impl Matcher for LineMatcher {
    type Captures = NoCaptures;
    type Error = Unbuildable;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, Unbuildable> {
        let found = self.regex()?.find(Input::new(haystack).range(at..));
        Ok(found.map(|found| Match::new(found.start(), found.end())))
    }

    fn new_captures(&self) -> Result<NoCaptures, Unbuildable> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, haystack: &[u8], at: usize) -> Result<Option<usize>, Unbuildable> {
        let input = Input::new(haystack).range(at..).earliest(true);
        Ok(self.regex()?.search_half(&input).map(|half| half.offset()))
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, Unbuildable> {
        match &self.needle {
            Some(needle) => Ok(needle.find(haystack).map(LineMatchKind::Candidate)),
            None => Ok(self.shortest_match(haystack)?.map(LineMatchKind::Confirmed)),
        }
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.line_terminator
    }
}

/// Removes line ends from the classes of an expression. Refuses one that requires a line end, which
/// cannot match within a line.
fn within_line(hir: Hir) -> Result<Hir, Unbuildable> {
    let refused = || Unbuildable("a pattern is looked for within one line and cannot hold the end of one".to_owned());
    Ok(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Literal(literal) if literal.0.iter().any(|byte| matches!(byte, b'\r' | b'\n')) => {
            return Err(refused());
        }
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => {
            let was_empty = class.is_empty();
            let class = without_line_ends(class);
            if class.is_empty() && !was_empty {
                return Err(refused());
            }
            Hir::class(class)
        }
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(within_line(*repetition.sub)?);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => within_line(*capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(within_line).collect::<Result<_, _>>()?),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(within_line).collect::<Result<_, _>>()?),
    })
}

fn without_line_ends(class: Class) -> Class {
    match class {
        Class::Unicode(mut class) => {
            class.difference(&ClassUnicode::new(['\r', '\n'].map(|end| ClassUnicodeRange::new(end, end))));
            Class::Unicode(class)
        }
        Class::Bytes(mut class) => {
            class.difference(&ClassBytes::new([b'\r', b'\n'].map(|end| ClassBytesRange::new(end, end))));
            Class::Bytes(class)
        }
    }
}

fn only_ascii(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty => true,
        HirKind::Literal(literal) => literal.0.is_ascii(),
        HirKind::Class(Class::Unicode(class)) => class.is_ascii(),
        HirKind::Class(Class::Bytes(class)) => class.is_ascii(),
        // A word boundary depends on the character behind it.
        HirKind::Look(look) => {
            let lines = [Look::Start, Look::End, Look::StartLF, Look::EndLF, Look::StartCRLF, Look::EndCRLF];
            lines.contains(look)
        }
        HirKind::Repetition(repetition) => only_ascii(&repetition.sub),
        HirKind::Capture(capture) => only_ascii(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(only_ascii),
    }
}

/// The longest literal that every match contains.
fn required(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(required).max_by_key(|literal| literal.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_match_holds() {
        let needle = |pattern| {
            LineMatcher::new(pattern, Case::Sensitive, LineSpan::One)
                .unwrap()
                .needle
                .map(|found| found.needle().to_vec())
        };
        assert_eq!(needle(r"fn\s+\w+_unchecked\b"), Some(b"_unchecked".to_vec()));
        assert_eq!(needle(r"(ab)+c|abd"), None);
        assert_eq!(needle(r"(?:longer)?ab"), Some(b"ab".to_vec()));
        assert_eq!(needle(r"(?i)word"), None);
        assert_eq!(needle(r"(abc){0}x"), None);
    }

    #[test]
    fn a_pattern_is_built_only_for_a_line_that_may_match() {
        let matcher = LineMatcher::new(r"needle_\d+", Case::Sensitive, LineSpan::One).unwrap();
        assert!(matcher.find_candidate_line(b"hay\nmore hay\n").unwrap().is_none());
        assert!(matcher.regex.get().is_none());
        assert_eq!(matcher.find(b"a needle_7").unwrap(), Some(Match::new(2, 10)));
    }

    #[test]
    fn what_is_the_same_in_every_encoding() {
        let ascii = |pattern| LineMatcher::new(pattern, Case::Sensitive, LineSpan::One).unwrap().is_ascii();
        for pattern in ["needle", "^a[bc]+$", "(x|y)?z", r"[0-9]{1,3}"] {
            assert!(ascii(pattern), "{pattern}");
        }
        for pattern in ["é", r"\bword", r"\w", "a.b", "[^a]", r"\d", "(?i)k"] {
            assert!(!ascii(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused_before_the_search() {
        for pattern in [r"\w{1000}{1000}", "abc[", "a\nb", r"ab\r", r"[\n]"] {
            assert!(LineMatcher::new(pattern, Case::Sensitive, LineSpan::One).is_err(), "{pattern:?}");
        }
    }
}
