//! Checks the syntax of the code before it runs, and refuses forbidden constructs.
//!
//! The interpreter already gives Python code no access to the system. The gate keeps the language
//! as documented: no imports, no code from strings, no access to hidden names. Code that does not
//! parse passes the gate, because the interpreter reports syntax errors.

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_text_size::{Ranged, TextSize};

/// Builtins that make code, reach for files or other people's names, or wait for a person.
const FORBIDDEN: &[&str] = &[
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

/// Code that is not let through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In the code, in bytes.
    pub(crate) at: TextSize,
    /// As Python would name it.
    pub(crate) exception: &'static str,
    pub(crate) message: String,
}

pub(crate) fn judge(module: &ModModule) -> Result<(), Refusal> {
    let mut gate = Gate { refusal: None, functions: 0 };
    gate.visit_body(&module.body);
    gate.refusal.map_or(Ok(()), Err)
}

struct Gate {
    refusal: Option<Refusal>,
    /// Nesting depth of function definitions at the current node.
    functions: usize,
}

impl Gate {
    fn refuse(&mut self, at: TextSize, exception: &'static str, message: impl Into<String>) {
        self.refusal.get_or_insert_with(|| Refusal { at, exception, message: message.into() });
    }
}

impl<'a> Visitor<'a> for Gate {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(_) | Stmt::ImportFrom(_) => {
                let message = "import is not available here; math and statistics are there without it";
                self.refuse(stmt.start(), "ImportError", message);
            }
            Stmt::With(with) if with.is_async => self.no_async(stmt.start()),
            Stmt::For(loop_) if loop_.is_async => self.no_async(stmt.start()),
            Stmt::FunctionDef(function) if function.is_async => self.no_async(stmt.start()),
            Stmt::Return(_) if self.functions == 0 => {
                self.refuse(stmt.start(), "SyntaxError", "'return' outside function");
            }
            Stmt::FunctionDef(_) => {
                self.functions += 1;
                walk_stmt(self, stmt);
                self.functions -= 1;
            }
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => self.name(expr.start(), name.id.as_str()),
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                if name.starts_with("__") && name.ends_with("__") {
                    let message = format!("the attribute '{name}' is not available here");
                    self.refuse(attribute.attr.start(), "AttributeError", message);
                }
            }
            Expr::Await(_) => self.no_async(expr.start()),
            _ => {}
        }
        walk_expr(self, expr);
    }
}

impl Gate {
    fn name(&mut self, at: TextSize, name: &str) {
        let hidden = name.starts_with("__") && name != "__name__";
        if hidden || FORBIDDEN.contains(&name) {
            self.refuse(at, "NameError", format!("the name '{name}' is not available here"));
        }
    }

    fn no_async(&mut self, at: TextSize) {
        self.refuse(at, "SyntaxError", "async and await are not available here");
    }
}
