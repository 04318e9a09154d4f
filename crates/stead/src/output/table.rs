//! Tables. Cells are escaped and stay on one line unless the terminal is too narrow.

use comfy_table::{Attribute, Cell, ColumnConstraint, ContentArrangement, Width, presets};

use super::control_characters::line_of;

/// Width for a terminal that reports none.
const USUAL_WIDTH: u16 = 80;

#[derive(Debug, Default)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// A table of names and values without headings.
    pub(crate) fn of_fields() -> Self {
        Self::default()
    }

    pub(crate) fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|cell| line_of(cell).replace('\t', " ")).collect());
    }

    pub(super) fn render(&self, terminal: bool, colour: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        if terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            // A terminal that does not know its width reports 0 columns.
            if table.width().is_none_or(|columns| columns == 0) {
                table.set_width(USUAL_WIDTH);
            }
        }
        if !self.headings.is_empty() {
            let bold =
                |text: &&str| if colour { Cell::new(text).add_attribute(Attribute::Bold) } else { Cell::new(text) };
            table.set_header(self.headings.iter().map(bold));
        }
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        // Users copy the first column into the next command, so it is not wrapped unless it is very
        // long.
        if let Some(first) = table.column_mut(0) {
            first.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(48)));
            if self.rows.iter().filter_map(|row| row.first()).all(|cell| cell.chars().count() <= 40) {
                first.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_a_pipe_is_plain_columns() {
        let mut table = Table::new(&["id", "status"]);
        table.row(&["ses_1", "active"]);
        table.row(&["ses_22", "a\x1b[31m\nb"]);
        assert_eq!(table.render(false, false), "id      status\nses_1   active\nses_22  a\\u{1b}[31m\\nb");
    }

    #[test]
    fn fields_have_no_heading() {
        let mut table = Table::of_fields();
        table.row(&["status", "active"]);
        table.row(&["id", "x"]);
        assert_eq!(table.render(false, false), "status  active\nid      x");
    }
}
