//! The code as the interpreter gets it: the same lines, with a few things said in other words.
//!
//! The value of a last expression is kept under a name of ours, and `del`, which the interpreter
//! does not know, becomes an assignment or a call. Lines stay where they are, so that tracebacks
//! are true.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprAttribute, ExprCall, ModModule, Stmt, StmtDelete};
use ruff_text_size::{Ranged, TextRange, TextSize};

/// Variable that receives the value of the last expression.
pub(crate) const VALUE: &str = "__stead_value";

/// Methods that the interpreter does not have and the prelude does.
const OURS: &[&str] =
    &["as_integer_ratio", "bit_count", "bit_length", "conjugate", "format_map", "is_integer", "maketrans", "translate"];
/// Attributes of builtin values. The interpreter knows methods only where they are called.
const ATTRIBUTES: &[&str] = &[
    "add",
    "append",
    "capitalize",
    "casefold",
    "center",
    "clear",
    "copy",
    "count",
    "decode",
    "denominator",
    "difference",
    "discard",
    "encode",
    "endswith",
    "expandtabs",
    "extend",
    "find",
    "format",
    "fromkeys",
    "get",
    "hex",
    "imag",
    "index",
    "insert",
    "intersection",
    "isalnum",
    "isalpha",
    "isdecimal",
    "isdigit",
    "isdisjoint",
    "isidentifier",
    "islower",
    "isnumeric",
    "isspace",
    "issubset",
    "issuperset",
    "istitle",
    "isupper",
    "items",
    "join",
    "keys",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "numerator",
    "partition",
    "pop",
    "popitem",
    "real",
    "remove",
    "removeprefix",
    "removesuffix",
    "replace",
    "reverse",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "setdefault",
    "sort",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "symmetric_difference",
    "title",
    "translate",
    "union",
    "update",
    "upper",
    "values",
    "zfill",
];
/// Types whose methods are taken from the type itself, as in `str.lower`.
const TYPES: &[&str] = &["bytes", "dict", "frozenset", "list", "set", "str", "tuple"];

/// Something that cannot be said in other words.
pub(crate) struct Unsayable {
    pub(crate) at: TextSize,
    pub(crate) message: &'static str,
}

pub(crate) fn rewrite(code: &str, module: &ModModule) -> Result<String, Unsayable> {
    let mut edits = Edits { code, found: Vec::new(), unsayable: None };
    if let Some(Stmt::Expr(last)) = module.body.last() {
        // First: what else begins at the same place comes after it.
        edits.found.push((TextRange::empty(last.start()), format!("{VALUE} = (")));
        edits.found.push((TextRange::empty(last.end()), ")".to_owned()));
    }
    edits.visit_body(&module.body);
    if let Some(unsayable) = edits.unsayable {
        return Err(unsayable);
    }
    edits.found.sort_by_key(|(range, _)| range.start());
    Ok(apply(code, &edits.found))
}

fn apply(code: &str, edits: &[(TextRange, String)]) -> String {
    let mut text = String::with_capacity(code.len() + 64);
    let mut done = 0;
    for (range, replacement) in edits {
        text.push_str(&code[done..range.start().to_usize()]);
        text.push_str(replacement);
        done = range.end().to_usize();
    }
    text.push_str(&code[done..]);
    text
}

struct Edits<'a> {
    code: &'a str,
    found: Vec<(TextRange, String)>,
    unsayable: Option<Unsayable>,
}

impl<'a> Visitor<'a> for Edits<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Delete(delete) => self.delete(delete),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => {
                self.call(call);
                self.visit_arguments(&call.arguments);
            }
            Expr::Attribute(attribute) if attribute.ctx.is_load() => {
                if ATTRIBUTES.contains(&attribute.attr.as_str()) {
                    self.attribute(attribute);
                }
                walk_expr(self, expr);
            }
            _ => walk_expr(self, expr),
        }
    }
}

impl Edits<'_> {
    fn source(&self, node: impl Ranged) -> &str {
        &self.code[node.range()]
    }

    /// Returns the position of an attribute's dot.
    fn dot(&self, attribute: &ExprAttribute) -> TextSize {
        let between = &self.code[TextRange::new(attribute.value.end(), attribute.attr.start())];
        // An attribute has a dot; if not, the place before its name is as good as any.
        let at = between.rfind('.').and_then(|at| TextSize::try_from(at).ok());
        at.map_or(attribute.attr.start(), |at| attribute.value.end() + at)
    }

    fn call(&mut self, call: &ExprCall) {
        let Expr::Attribute(attribute) = &*call.func else { return walk_expr(self, &call.func) };
        let name = attribute.attr.as_str();
        if OURS.contains(&name) {
            let open = TextRange::new(self.dot(attribute), call.arguments.start() + TextSize::new(1));
            let comma = if call.arguments.is_empty() { "" } else { ", " };
            self.found.push((TextRange::empty(attribute.start()), format!("__stead_call_{name}(")));
            self.found.push((open, comma.to_owned()));
        } else if matches!(&*attribute.value, Expr::Name(of) if TYPES.contains(&of.id.as_str()))
            && ATTRIBUTES.contains(&name)
        {
            self.attribute(attribute);
        }
        self.visit_expr(&attribute.value);
    }

    fn attribute(&mut self, attribute: &ExprAttribute) {
        let name = TextRange::new(self.dot(attribute), attribute.end());
        self.found.push((TextRange::empty(attribute.start()), "__stead_attribute(".to_owned()));
        self.found.push((name, format!(", \"{}\")", attribute.attr)));
    }

    fn delete(&mut self, delete: &StmtDelete) {
        let mut words = Vec::new();
        for target in &delete.targets {
            self.target(target, &mut words);
        }
        self.found.push((delete.range(), words.join("; ")));
    }

    fn target(&mut self, target: &Expr, words: &mut Vec<String>) {
        match target {
            Expr::Name(name) => words.push(format!("{} = __stead_deleted", name.id)),
            Expr::Subscript(subscript) => {
                let value = self.source(&*subscript.value);
                let word = match &*subscript.slice {
                    Expr::Slice(slice) => {
                        let part = |part: &Option<Box<Expr>>| {
                            part.as_deref().map_or("None", |part| self.source(part)).to_owned()
                        };
                        let (lower, upper, step) = (part(&slice.lower), part(&slice.upper), part(&slice.step));
                        format!("__stead_delete_slice({value}, ({lower}), ({upper}), ({step}))")
                    }
                    index => format!("__stead_delete_item({value}, ({}))", self.source(index)),
                };
                words.push(word);
            }
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|target| self.target(target, words)),
            Expr::List(list) => list.elts.iter().for_each(|target| self.target(target, words)),
            other => {
                let message = "del takes names, items and slices here, no attributes";
                self.unsayable.get_or_insert(Unsayable { at: other.start(), message });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(code: &str) -> String {
        let parsed = ruff_python_parser::parse_module(code).unwrap();
        rewrite(code, parsed.syntax()).ok().unwrap()
    }

    #[test]
    fn the_last_expression_is_kept_and_lines_stay() {
        assert_eq!(rewritten("x = 1\nx + 1  # more"), "x = 1\n__stead_value = (x + 1)  # more");
        assert_eq!(rewritten("(1,\n 2)\n"), "__stead_value = ((1,\n 2))\n");
        assert_eq!(rewritten("x = 1"), "x = 1");
        assert_eq!(rewritten("f(1); g(2)"), "f(1); __stead_value = (g(2))");
    }

    #[test]
    fn methods_of_builtin_values_are_found_where_they_are_not_called() {
        assert_eq!(rewritten("x = (5).bit_length()"), "x = __stead_call_bit_length((5))");
        assert_eq!(
            rewritten("x = s.format_map(d.get)"),
            "x = __stead_call_format_map(s, __stead_attribute(d, \"get\"))"
        );
        assert_eq!(rewritten("f = str.lower"), "f = __stead_attribute(str, \"lower\")");
        assert_eq!(rewritten("x = a.b.real.imag"), "x = __stead_attribute(__stead_attribute(a.b, \"real\"), \"imag\")");
        assert_eq!(rewritten("a.append(1)\nb.items = 1"), "a.append(1)\nb.items = 1");
    }

    #[test]
    fn deleting_is_said_in_other_words() {
        assert_eq!(rewritten("del x, y[0]"), "x = __stead_deleted; __stead_delete_item(y, (0))");
        assert_eq!(rewritten("if a:\n  del b[1:]"), "if a:\n  __stead_delete_slice(b, (1), (None), (None))");
    }
}
