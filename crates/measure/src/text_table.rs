//! Text tables of at most 80 columns.

use crate::format::truncate_text;

/// Width of all tables.
pub const WIDTH: usize = 80;
/// Width of the column of names that is kept free if there are many other columns.
const MIN_NAME_WIDTH: usize = 27;

/// Column of a table whose rows are printed one by one, while they are measured.
#[derive(Clone, Copy, Debug)]
pub struct RowColumn {
    heading: &'static str,
    width: usize,
    is_left: bool,
}

impl RowColumn {
    /// Creates a right-aligned column.
    pub const fn right(heading: &'static str, width: usize) -> Self {
        Self { heading, width, is_left: false }
    }

    /// Creates a left-aligned column.
    pub const fn left(heading: &'static str, width: usize) -> Self {
        Self { heading, width, is_left: true }
    }

    fn format(&self, cell: &str) -> String {
        let width = self.width;
        if self.is_left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    }
}

/// Formats the headings of `columns`.
pub fn format_headings(columns: &[RowColumn]) -> String {
    format_cells(columns, columns.iter().map(|column| column.heading))
}

/// Formats one row with a cell per column.
pub fn format_cells(columns: &[RowColumn], cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells = columns.iter().zip(cells).map(|(column, cell)| column.format(cell.as_ref()));
    cells.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// Table with the names of the rows on the left and right-aligned columns.
pub struct TextTable {
    /// Heading of the column of names.
    name_heading: &'static str,
    names: Vec<String>,
    /// Heading and one cell per row.
    columns: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table with one row per name.
    pub fn new(name_heading: &'static str, names: Vec<String>) -> Self {
        Self { name_heading, names, columns: Vec::new() }
    }

    /// Adds a column with one cell per row.
    pub fn add_column(&mut self, heading: &str, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.names.len());
        self.columns.push(std::iter::once(heading.to_owned()).chain(cells).collect());
    }

    /// Formats the table. Columns that do not fit next to each other are in several parts. Empty if
    /// there are no rows or no columns.
    pub fn lines(&self) -> Vec<String> {
        if self.names.is_empty() || self.columns.is_empty() {
            return Vec::new();
        }
        let widest = |cells: &Vec<String>| cells.iter().map(|cell| text_width(cell)).max().unwrap_or(0);
        let cell_width: usize = self.columns.iter().map(widest).sum();
        let names = self.names.iter().map(|name| text_width(name));
        let longest_name = names.max().unwrap_or(0).max(text_width(self.name_heading));
        let has_wide_gaps = 2 + longest_name + cell_width + 2 * self.columns.len() <= WIDTH;
        let gap = if has_wide_gaps { 2 } else { 1 };
        let column_widths: Vec<usize> = self.columns.iter().map(|cells| gap + widest(cells)).collect();
        let free_width = (WIDTH - 2).saturating_sub(column_widths.iter().sum());
        let name_width = longest_name.min(free_width.max(MIN_NAME_WIDTH));
        let mut lines = Vec::new();
        let mut first = 0;
        while first < self.columns.len() {
            let mut width = 2 + name_width;
            let fitting = column_widths[first..].iter().take_while(|column_width| {
                width += **column_width;
                width <= WIDTH
            });
            let part = first..first + fitting.count().max(1);
            if first > 0 {
                lines.push(String::new());
            }
            for row in 0..=self.names.len() {
                let name = if row == 0 { self.name_heading } else { &self.names[row - 1] };
                let mut line = format!("  {:<name_width$}", truncate_text(name, name_width));
                for column in part.clone() {
                    line.push_str(&format!(
                        "{:>width$}",
                        self.columns[column][row],
                        width = column_widths[column]
                    ));
                }
                lines.push(line);
            }
            first = part.end;
        }
        lines
    }

    /// Formats the table with a line above it. Empty if the table is empty.
    pub fn lines_with_caption(&self, caption: &str) -> Vec<String> {
        let lines = self.lines();
        if lines.is_empty() { lines } else { std::iter::once(caption.to_owned()).chain(lines).collect() }
    }
}

fn text_width(text: &str) -> usize {
    text.chars().count()
}

/// Formats a value, or a dash if there is none.
pub fn format_or_dash<T>(value: Option<T>, format_value: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format_value)
}
