//! The code as the interpreter gets it: the same lines, with a few constructs replaced.
//!
//! The value of a last expression is kept under a name of ours. `del`, which the interpreter does
//! not know, becomes an assignment or a call. Lines stay where they are, so that tracebacks are
//! true.

mod delete;
mod methods;

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_interpolated_string_element, walk_stmt};
use ruff_python_ast::{Expr, ExprAttribute, ExprCall, ExprName, InterpolatedStringElement, ModModule, Pattern, Stmt};
use ruff_text_size::{Ranged, TextRange, TextSize};

use crate::names::{Meaning, Names, deleted_locals};
use methods::{ATTRIBUTES, OURS, TYPES};

/// Variable that receives the value of the last expression.
pub(crate) const VALUE: &str = "__stead_value";

/// A construct that has no replacement.
pub(crate) struct Unsayable {
    pub(crate) at: TextSize,
    pub(crate) message: &'static str,
}

/// Rewrites the code.
pub(crate) fn rewrite(code: &str, module: &ModModule, names: &Names) -> Result<String, Unsayable> {
    let mut edits = Edits { code, names, locals: Vec::new(), found: Vec::new(), unsayable: None };
    if let Some(Stmt::Expr(last)) = module.body.last() {
        // First: what else begins at the same place comes after it.
        edits.found.push((TextRange::empty(last.start()), format!("{VALUE} = (")));
        edits.visit_body(&module.body);
        edits.found.push((TextRange::empty(last.end()), ")".to_owned()));
    } else {
        edits.visit_body(&module.body);
    }
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
    names: &'a Names,
    /// The deleted names of each function around the current node, outermost first.
    locals: Vec<BTreeSet<String>>,
    /// Edits that begin at the same place apply in this order.
    found: Vec<(TextRange, String)>,
    unsayable: Option<Unsayable>,
}

impl<'a> Visitor<'a> for Edits<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Delete(delete) => self.delete(delete),
            Stmt::FunctionDef(function) => {
                self.locals.push(deleted_locals(&function.body));
                walk_stmt(self, stmt);
                self.locals.pop();
            }
            Stmt::AugAssign(assign) => {
                if let Expr::Name(name) = &*assign.target
                    && self.names.is_deleted(&name.id)
                {
                    let read = format!("{}; ", self.read(name));
                    self.found.push((TextRange::empty(stmt.start()), read));
                }
                walk_stmt(self, stmt);
            }
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
                let name = attribute.attr.as_str();
                if ATTRIBUTES.contains(&name) || name == "args" {
                    self.attribute(attribute);
                }
                walk_expr(self, expr);
            }
            Expr::Name(name) if name.ctx.is_load() && self.names.is_deleted(&name.id) => {
                let read = self.read(name);
                self.found.push((name.range(), read));
            }
            _ => walk_expr(self, expr),
        }
    }

    /// Patterns stay as they are, because a call in a pattern means a class.
    fn visit_pattern(&mut self, _: &'a Pattern) {}

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        // `f"{x=}"` shows the text of its expression.
        if matches!(element, InterpolatedStringElement::Interpolation(shown) if shown.debug_text.is_some()) {
            return;
        }
        walk_interpolated_string_element(self, element);
    }
}

impl Edits<'_> {
    fn source(&self, node: impl Ranged) -> &str {
        &self.code[node.range()]
    }

    /// An expression that reads a variable which a `del` may have taken.
    fn read(&self, name: &ExprName) -> String {
        let id = name.id.as_str();
        let local = self.locals.last().is_some_and(|locals| locals.contains(id));
        let function = if local { "__stead_read_local" } else { "__stead_read" };
        format!("{function}({id}, \"{id}\")")
    }

    /// Returns the position of an attribute's dot.
    fn dot(&self, attribute: &ExprAttribute) -> TextSize {
        let between = &self.code[TextRange::new(attribute.value.end(), attribute.attr.start())];
        // An attribute has a dot; if not, the place before its name is as good as any.
        let at = between.rfind('.').and_then(|at| TextSize::try_from(at).ok());
        at.map_or(attribute.attr.start(), |at| attribute.value.end() + at)
    }

    fn call(&mut self, call: &ExprCall) {
        match &*call.func {
            Expr::Attribute(attribute) => self.call_method(call, attribute),
            Expr::Name(name) if self.names.is_deleted(&name.id) => self.visit_expr(&call.func),
            Expr::Name(name) if name.id == "type" && !self.names.binds("type") && call.arguments.len() == 1 => {
                self.found.push((name.range(), "__stead_type".to_owned()));
            }
            Expr::Name(name) => match self.names.meaning(&name.id) {
                Meaning::Known => {}
                Meaning::Exception => self.call_exception(call, name),
                // The interpreter evaluates the arguments of a call before it misses the function.
                Meaning::Unknown => self.found.push((name.range(), format!("({},)[0]", name.id))),
            },
            other => self.visit_expr(other),
        }
    }

    fn call_method(&mut self, call: &ExprCall, attribute: &ExprAttribute) {
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

    /// The interpreter's exceptions take one string.
    fn call_exception(&mut self, call: &ExprCall, name: &ExprName) {
        let arguments = &call.arguments;
        let plain = match &*arguments.args {
            [] => arguments.keywords.is_empty(),
            [Expr::StringLiteral(_) | Expr::FString(_)] => arguments.keywords.is_empty(),
            _ => false,
        };
        let adjacent = name.end() == arguments.start();
        if !plain && adjacent {
            let open = TextRange::at(arguments.start(), TextSize::new(1));
            self.found.push((TextRange::empty(name.start()), "__stead_exception(".to_owned()));
            self.found.push((open, ", ".to_owned()));
        }
    }

    fn attribute(&mut self, attribute: &ExprAttribute) {
        let name = TextRange::new(self.dot(attribute), attribute.end());
        self.found.push((TextRange::empty(attribute.start()), "__stead_attribute(".to_owned()));
        self.found.push((name, format!(", \"{}\")", attribute.attr)));
    }
}

#[cfg(test)]
mod tests;
