//! `del`, in constructs that the interpreter knows.

use ruff_python_ast::visitor::Visitor as _;
use ruff_python_ast::{Expr, ExprSubscript, StmtDelete};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::{Edits, Unsayable};

impl Edits<'_> {
    /// Replaces every target with a statement of its own.
    pub(super) fn delete(&mut self, delete: &StmtDelete) {
        let mut targets = Vec::new();
        delete.targets.iter().for_each(|target| flatten(target, &mut targets));
        if targets.is_empty() {
            return self.found.push((delete.range(), "pass".to_owned()));
        }
        let mut end = delete.start();
        for (index, target) in targets.into_iter().enumerate() {
            let gap = TextRange::new(end, target.start());
            // A continued line keeps the following lines where they are.
            let lines = "\\\n".repeat(self.code[gap].matches('\n').count());
            let separator = if index == 0 { "" } else { "; " };
            self.found.push((gap, format!("{separator}{lines}")));
            self.delete_target(target);
            end = target.end();
        }
        self.found.push((TextRange::new(end, delete.end()), String::new()));
    }

    fn delete_target(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => {
                let read = self.read(name);
                self.found.push((name.range(), format!("{read}; {} = __stead_deleted", name.id)));
            }
            Expr::Subscript(subscript) => self.delete_item(subscript),
            other => {
                let message = "del takes names, items and slices here, no attributes";
                self.unsayable.get_or_insert(Unsayable { at: other.start(), message });
            }
        }
    }

    fn delete_item(&mut self, subscript: &ExprSubscript) {
        let function = match &*subscript.slice {
            Expr::Slice(_) => "__stead_delete_slice(",
            _ => "__stead_delete_item(",
        };
        self.found.push((TextRange::empty(subscript.start()), function.to_owned()));
        self.visit_expr(&subscript.value);
        let after = &self.code[TextRange::new(subscript.value.end(), subscript.slice.start())];
        // A subscript has a bracket; if not, the place before its index is as good as any.
        let bracket = after.find('[').and_then(|at| TextSize::try_from(at).ok());
        let bracket = bracket.map_or(subscript.slice.start(), |at| subscript.value.end() + at);
        match &*subscript.slice {
            Expr::Slice(slice) => {
                let part =
                    |part: &Option<Box<Expr>>| part.as_deref().map_or("None", |part| self.source(part)).to_owned();
                let (lower, upper, step) = (part(&slice.lower), part(&slice.upper), part(&slice.step));
                let range = TextRange::new(bracket, subscript.end());
                self.found.push((range, format!(", ({lower}), ({upper}), ({step}))")));
            }
            index => {
                self.found.push((TextRange::at(bracket, TextSize::new(1)), ", (".to_owned()));
                self.visit_expr(index);
                let close = TextRange::new(subscript.end() - TextSize::new(1), subscript.end());
                self.found.push((close, "))".to_owned()));
            }
        }
    }
}

/// The targets inside tuples and lists.
fn flatten<'a>(target: &'a Expr, targets: &mut Vec<&'a Expr>) {
    match target {
        Expr::Tuple(tuple) => tuple.elts.iter().for_each(|target| flatten(target, targets)),
        Expr::List(list) => list.elts.iter().for_each(|target| flatten(target, targets)),
        other => targets.push(other),
    }
}
