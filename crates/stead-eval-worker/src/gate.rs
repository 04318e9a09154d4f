//! Checks the syntax of the code before it runs, and refuses forbidden constructs.
//!
//! The interpreter already gives Python code no access to the system. The gate keeps the language
//! as documented: no imports, no code from strings, no access to hidden names. Code that does not
//! parse passes the gate, because the interpreter reports syntax errors.

use ruff_python_ast::visitor::{Visitor, walk_except_handler, walk_expr, walk_parameter, walk_pattern, walk_stmt};
use ruff_python_ast::{ExceptHandler, Expr, ExprAttribute, Identifier, ModModule, Parameter, Pattern, Stmt};
use ruff_text_size::{Ranged, TextSize};

use crate::names::{Meaning, Names};

/// Builtins that make code, reach for files or other people's names, or wait for a person.
const FORBIDDEN: &[&str] = &[
    "GeneratorExit",
    "SystemExit",
    "breakpoint",
    "compile",
    "delattr",
    "dir",
    "eval",
    "exec",
    "exit",
    "getattr",
    "globals",
    "hasattr",
    "help",
    "input",
    "locals",
    "memoryview",
    "open",
    "quit",
    "setattr",
    "super",
    "vars",
];

/// Prefix of the names of the prelude.
const OURS: &str = "__stead";

/// Code that is not let through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In the code, in bytes.
    pub(crate) at: TextSize,
    /// As Python would name it.
    pub(crate) exception: &'static str,
    pub(crate) message: String,
}

pub(crate) fn judge(module: &ModModule, names: &Names) -> Result<(), Refusal> {
    let mut gate = Gate { names, refusal: None, functions: 0 };
    gate.visit_body(&module.body);
    gate.refusal.map_or(Ok(()), Err)
}

struct Gate<'n> {
    names: &'n Names,
    refusal: Option<Refusal>,
    /// Nesting depth of function definitions at the current node.
    functions: usize,
}

impl Gate<'_> {
    fn refuse(&mut self, at: TextSize, exception: &'static str, message: impl Into<String>) {
        self.refusal.get_or_insert_with(|| Refusal { at, exception, message: message.into() });
    }
}

impl<'a> Visitor<'a> for Gate<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(_) | Stmt::ImportFrom(_) => {
                let message = "import is not available here; math and statistics are there without it";
                self.refuse(stmt.start(), "NotImplementedError", message);
            }
            Stmt::With(with) if with.is_async => self.no_async(stmt.start()),
            Stmt::For(loop_) if loop_.is_async => self.no_async(stmt.start()),
            Stmt::FunctionDef(function) if function.is_async => self.no_async(stmt.start()),
            Stmt::Return(_) if self.functions == 0 => {
                self.refuse(stmt.start(), "SyntaxError", "'return' outside function");
            }
            Stmt::FunctionDef(function) => {
                self.binding(&function.name);
                self.functions += 1;
                walk_stmt(self, stmt);
                self.functions -= 1;
            }
            Stmt::ClassDef(class) => {
                self.binding(&class.name);
                walk_stmt(self, stmt);
            }
            Stmt::Global(global) => global.names.iter().for_each(|name| self.binding(name)),
            Stmt::Nonlocal(nonlocal) => nonlocal.names.iter().for_each(|name| self.binding(name)),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => self.name(expr.start(), name.id.as_str()),
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                if name.starts_with("__") && name.ends_with("__") {
                    self.hidden_attribute(attribute);
                }
            }
            Expr::Await(_) => self.no_async(expr.start()),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.binding(&parameter.name);
        walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        caught.name.iter().for_each(|name| self.binding(name));
        walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(pattern) => pattern.name.as_ref(),
            Pattern::MatchStar(pattern) => pattern.name.as_ref(),
            Pattern::MatchMapping(pattern) => pattern.rest.as_ref(),
            _ => None,
        };
        name.into_iter().for_each(|name| self.binding(name));
        walk_pattern(self, pattern);
    }
}

impl Gate<'_> {
    /// Refuses an attribute. Python evaluates the expression in front of it first, so an undefined
    /// name there is the error.
    fn hidden_attribute(&mut self, attribute: &ExprAttribute) {
        match &*attribute.value {
            Expr::Name(of) if self.names.meaning(&of.id) == Meaning::Unknown => {
                self.refuse(of.start(), "NameError", format!("name '{}' is not defined", of.id));
            }
            _ => {
                let message = format!("the attribute '{}' is not available here", attribute.attr);
                self.refuse(attribute.attr.start(), "AttributeError", message);
            }
        }
    }

    fn name(&mut self, at: TextSize, name: &str) {
        let hidden = name.starts_with("__") && name != "__name__";
        if hidden || FORBIDDEN.contains(&name) {
            self.refuse(at, "NameError", format!("the name '{name}' is not available here"));
        }
    }

    /// A name that is bound without being an expression: of a function, class, parameter or
    /// capture. Methods such as `__init__` pass, but nothing replaces a name of ours.
    fn binding(&mut self, name: &Identifier) {
        if name.starts_with(OURS) {
            self.refuse(name.start(), "NameError", format!("the name '{name}' is not available here"));
        }
    }

    fn no_async(&mut self, at: TextSize) {
        self.refuse(at, "SyntaxError", "async and await are not available here");
    }
}
