//! Finds the names that the code binds and deletes.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{Visitor, walk_except_handler, walk_expr, walk_parameter, walk_pattern, walk_stmt};
use ruff_python_ast::{ExceptHandler, Expr, ExprContext, Identifier, Parameter, Pattern, Stmt};

/// Names that code finds without binding them: those of the prelude and the builtins. A call of a
/// name that is missing here costs a little more time, and a refusal that concerns it names another
/// exception. Nothing else depends on the list.
const KNOWN: &[&str] = &[
    "E",
    "Ellipsis",
    "NotImplemented",
    "PI",
    "TAU",
    "__name__",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "ascii",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bin",
    "bool",
    "bytearray",
    "bytes",
    "callable",
    "ceil",
    "chr",
    "complex",
    "copysign",
    "cos",
    "cosh",
    "degrees",
    "dict",
    "divmod",
    "e",
    "enumerate",
    "exp",
    "fabs",
    "factorial",
    "filter",
    "float",
    "floor",
    "fmod",
    "format",
    "frexp",
    "frozenset",
    "fsum",
    "hash",
    "hex",
    "hypot",
    "id",
    "int",
    "isinf",
    "isinstance",
    "isnan",
    "issubclass",
    "iter",
    "ldexp",
    "len",
    "list",
    "log",
    "log10",
    "log1p",
    "map",
    "math",
    "max",
    "min",
    "modf",
    "next",
    "object",
    "oct",
    "ord",
    "pi",
    "pow",
    "print",
    "radians",
    "range",
    "read_text",
    "repr",
    "reversed",
    "round",
    "set",
    "sin",
    "sinh",
    "slice",
    "sorted",
    "sqrt",
    "statistics",
    "str",
    "sum",
    "tan",
    "tanh",
    "trunc",
    "tuple",
    "type",
    "vfs_reads",
    "write_text",
    "zip",
];
/// Exceptions that code can make.
const EXCEPTIONS: &[&str] = &[
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "Exception",
    "FileExistsError",
    "FileNotFoundError",
    "ImportError",
    "IndexError",
    "IsADirectoryError",
    "KeyError",
    "KeyboardInterrupt",
    "LookupError",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotADirectoryError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "TimeoutError",
    "TypeError",
    "UnboundLocalError",
    "ValueError",
    "ZeroDivisionError",
];

/// The meaning of a name in the code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A variable, function or class of the code, of the prelude or of the interpreter.
    Known,
    /// One of the interpreter's exceptions.
    Exception,
    /// Nothing binds the name.
    Unknown,
}

#[derive(Default)]
pub(crate) struct Names {
    bound: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Names {
    /// Collects the names of a whole program. `given` are bound before it runs.
    pub(crate) fn of<'a>(body: &[Stmt], given: impl Iterator<Item = &'a String>) -> Self {
        let mut names = Self { bound: given.cloned().collect(), ..Self::default() };
        names.visit_body(body);
        names
    }

    pub(crate) fn meaning(&self, name: &str) -> Meaning {
        if self.binds(name) || KNOWN.contains(&name) {
            Meaning::Known
        } else if EXCEPTIONS.contains(&name) {
            Meaning::Exception
        } else {
            Meaning::Unknown
        }
    }

    /// Returns true if the code binds this name anywhere.
    pub(crate) fn binds(&self, name: &str) -> bool {
        self.bound.contains(name)
    }

    /// Returns true if a `del` anywhere in the program deletes this name.
    pub(crate) fn is_deleted(&self, name: &str) -> bool {
        self.deleted.contains(name)
    }

    fn bind(&mut self, name: &Identifier) {
        self.bound.insert(name.to_string());
    }
}

impl<'a> Visitor<'a> for Names {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => self.bind(&function.name),
            Stmt::ClassDef(class) => self.bind(&class.name),
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr {
            match name.ctx {
                ExprContext::Del => {
                    self.deleted.insert(name.id.to_string());
                    self.bound.insert(name.id.to_string());
                }
                ExprContext::Store => {
                    self.bound.insert(name.id.to_string());
                }
                ExprContext::Load | ExprContext::Invalid => {}
            }
        }
        walk_expr(self, expr);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(&parameter.name);
        walk_parameter(self, parameter);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(caught) = handler;
        if let Some(name) = &caught.name {
            self.bind(name);
        }
        walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(pattern) => pattern.name.as_ref(),
            Pattern::MatchStar(pattern) => pattern.name.as_ref(),
            Pattern::MatchMapping(pattern) => pattern.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bind(name);
        }
        walk_pattern(self, pattern);
    }
}

/// The names that one function deletes itself, not counting functions inside it. Reading one of
/// them afterwards is an `UnboundLocalError`.
pub(crate) fn deleted_locals(body: &[Stmt]) -> BTreeSet<String> {
    let mut locals = Locals::default();
    locals.visit_body(body);
    locals.deleted.retain(|name| !locals.elsewhere.contains(name));
    locals.deleted
}

#[derive(Default)]
struct Locals {
    deleted: BTreeSet<String>,
    /// Names that `global` or `nonlocal` declares.
    elsewhere: BTreeSet<String>,
}

impl<'a> Visitor<'a> for Locals {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
            Stmt::Global(global) => self.elsewhere.extend(global.names.iter().map(ToString::to_string)),
            Stmt::Nonlocal(nonlocal) => self.elsewhere.extend(nonlocal.names.iter().map(ToString::to_string)),
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr
            && name.ctx == ExprContext::Del
        {
            self.deleted.insert(name.id.to_string());
        }
        walk_expr(self, expr);
    }
}
