//! Extracts the definitions of one file.
//!
//! The work is bounded by counts: parser steps, tree nodes and symbols per file. The tree is walked
//! with a cursor, never by recursion.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, TreeCursor};

use super::Symbol;
use crate::language::Grammar;
use crate::survey::File;

/// Maximum number of calls of the parser's progress callback, each after a fixed number of parser
/// steps.
const MAX_PROGRESS: u32 = 20_000;
const MAX_NODES: u32 = 100_000;
const MAX_SYMBOLS: usize = 300;
const SIGNATURE_CHARS: usize = 120;
const NAME_CHARS: usize = 100;

/// A grammar's node kind, its displayed name, and the flag that says if it can contain further
/// definitions.
type Definition = (&'static str, &'static str, Inside);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Look,
    Skip,
}
use Inside::{Look, Skip};

const fn definitions(grammar: Grammar) -> &'static [Definition] {
    match grammar {
        Grammar::Rust => &[
            ("function_item", "fn", Skip),
            ("function_signature_item", "fn", Skip),
            ("struct_item", "struct", Skip),
            ("enum_item", "enum", Skip),
            ("union_item", "union", Skip),
            ("trait_item", "trait", Look),
            ("type_item", "type", Skip),
            ("macro_definition", "macro", Skip),
            ("const_item", "const", Skip),
            ("static_item", "static", Skip),
        ],
        Grammar::Python => &[("function_definition", "def", Skip), ("class_definition", "class", Look)],
        Grammar::JavaScript | Grammar::TypeScript | Grammar::Tsx => &[
            ("function_declaration", "function", Skip),
            ("generator_function_declaration", "function", Skip),
            ("class_declaration", "class", Look),
            ("abstract_class_declaration", "class", Look),
            ("method_definition", "method", Skip),
            ("interface_declaration", "interface", Skip),
            ("type_alias_declaration", "type", Skip),
            ("enum_declaration", "enum", Skip),
            ("variable_declarator", "const", Skip),
        ],
        Grammar::Go => {
            &[("function_declaration", "func", Skip), ("method_declaration", "func", Skip), ("type_spec", "type", Skip)]
        }
        Grammar::Java => &[
            ("class_declaration", "class", Look),
            ("interface_declaration", "interface", Look),
            ("enum_declaration", "enum", Look),
            ("record_declaration", "record", Look),
            ("annotation_type_declaration", "annotation", Skip),
            ("method_declaration", "method", Skip),
        ],
        Grammar::C | Grammar::Cpp => &[
            ("function_definition", "function", Skip),
            ("struct_specifier", "struct", Look),
            ("class_specifier", "class", Look),
            ("union_specifier", "union", Skip),
            ("enum_specifier", "enum", Skip),
            ("type_definition", "typedef", Look),
            ("preproc_function_def", "macro", Skip),
        ],
        Grammar::Ruby => &[
            ("class", "class", Look),
            ("module", "module", Look),
            ("method", "def", Skip),
            ("singleton_method", "def", Skip),
        ],
    }
}

fn language(grammar: Grammar) -> tree_sitter::Language {
    match grammar {
        Grammar::Rust => tree_sitter_rust::LANGUAGE.into(),
        Grammar::Python => tree_sitter_python::LANGUAGE.into(),
        Grammar::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
        Grammar::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        Grammar::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
        Grammar::Go => tree_sitter_go::LANGUAGE.into(),
        Grammar::Java => tree_sitter_java::LANGUAGE.into(),
        Grammar::C => tree_sitter_c::LANGUAGE.into(),
        Grammar::Cpp => tree_sitter_cpp::LANGUAGE.into(),
        Grammar::Ruby => tree_sitter_ruby::LANGUAGE.into(),
    }
}

pub(super) fn extract_file(file: &File) -> Option<Vec<Symbol>> {
    extract(file.language?.grammar?, file.content.as_deref()?)
}

/// Returns `None` if the file is too complex to parse or not UTF-8.
pub(super) fn extract(grammar: Grammar, source: &[u8]) -> Option<Vec<Symbol>> {
    std::str::from_utf8(source).ok()?;
    let mut parser = Parser::new();
    parser.set_language(&language(grammar)).ok()?;
    let mut left = MAX_PROGRESS;
    let mut progress = |_: &tree_sitter::ParseState| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser.parse_with_options(&mut |at, _| source.get(at..).unwrap_or_default(), None, Some(options))?;
    let mut symbols = Vec::new();
    let mut cursor = tree.walk();
    for _ in 0..MAX_NODES {
        let inside = visit(grammar, cursor.node(), source, &mut symbols);
        if symbols.len() == MAX_SYMBOLS || !advance(&mut cursor, inside) {
            break;
        }
    }
    Some(symbols)
}

/// Moves to the next node in text order. Returns false at the end.
fn advance(cursor: &mut TreeCursor<'_>, inside: Inside) -> bool {
    if inside == Look && cursor.goto_first_child() {
        return true;
    }
    while !cursor.goto_next_sibling() {
        if !cursor.goto_parent() {
            return false;
        }
    }
    true
}

fn visit(grammar: Grammar, node: Node<'_>, source: &[u8], symbols: &mut Vec<Symbol>) -> Inside {
    let kind = node.kind();
    let named_tests = || node.child_by_field_name("name").is_some_and(|name| name.utf8_text(source) == Ok("tests"));
    if kind == "mod_item" && named_tests() {
        return Skip;
    }
    let Some((_, label, inside)) = definitions(grammar).iter().find(|(node, ..)| *node == kind) else {
        return if is_body(kind) { Skip } else { Look };
    };
    // In C, a reference to a struct looks like its definition without the body. In JavaScript, only
    // constants that hold functions or classes count.
    let mention = kind.ends_with("_specifier") && node.child_by_field_name("body").is_none();
    let value = || node.child_by_field_name("value").map_or("", |value| value.kind());
    let plain = kind == "variable_declarator" && !matches!(value(), "arrow_function" | "function_expression" | "class");
    if mention || plain {
        return Skip;
    }
    if let Some(name) = name(node, source) {
        let signature = signature(node, source);
        let line = u32::try_from(node.start_position().row + 1).unwrap_or(u32::MAX);
        symbols.push(Symbol { kind: (*label).to_owned(), name, line, signature });
    }
    *inside
}

/// Returns whether a node holds statements. Definitions inside are local and not collected.
fn is_body(kind: &str) -> bool {
    matches!(kind, "compound_statement" | "statement_block" | "expression_statement" | "array" | "string" | "comment")
        || kind.ends_with("_expression")
}

fn name(node: Node<'_>, source: &[u8]) -> Option<String> {
    let mut at = node.child_by_field_name("name").or_else(|| node.child_by_field_name("declarator"))?;
    // In C, the name is nested in one declarator per part of its type.
    for _ in 0..16 {
        match at.child_by_field_name("declarator") {
            Some(inner) => at = inner,
            None => break,
        }
    }
    let text = at.utf8_text(source).ok()?;
    let name = text.rsplit("::").next().unwrap_or(text);
    let word = name.chars().all(|c| c.is_alphanumeric() || "_?!=$#@".contains(c));
    (word && !name.is_empty() && name.chars().count() <= NAME_CHARS).then(|| name.to_owned())
}

fn signature(node: Node<'_>, source: &[u8]) -> String {
    let text = node.utf8_text(source).unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    crate::text::line(first.trim_end().trim_end_matches('{'), SIGNATURE_CHARS)
}
