//! A line on standard error that is redrawn in place, for progress on a terminal.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};

use terminal_size::terminal_size_of;

use crate::clean::clean_line;
use crate::log;
use crate::print::write_stderr_line;

/// Moves the cursor to the first column and erases the line. The erase comes before the text:
/// after a text of full width, some terminals would erase its last character.
const ERASE: &str = "\r\x1b[K";

/// The last line of the terminal. It is erased when the value is dropped. Without a terminal,
/// nothing is drawn and no control characters are written.
pub struct TerminalLine {
    is_drawable: bool,
    /// The text on the screen. Empty if there is none.
    text: String,
}

impl TerminalLine {
    /// Returns an empty line. Draws nothing yet.
    pub fn new() -> Self {
        Self { is_drawable: can_redraw(), text: String::new() }
    }

    /// Replaces the text on the screen by `text`, cut to the width of the terminal.
    pub fn draw(&mut self, text: &str) {
        if self.is_drawable {
            self.text = clean_line(text).chars().take(terminal_columns()).collect();
            write_stderr(&format!("{ERASE}{}", self.text));
        }
    }

    /// Prints `message` on a line that stays on the screen, and draws the text again below it.
    pub fn print_above(&self, message: Arguments<'_>) {
        if self.text.is_empty() {
            return write_stderr_line(message);
        }
        let message = message.to_string();
        let message = clean_line(&message);
        log::write(&message);
        write_stderr(&format!("{ERASE}{message}\n{}", self.text));
    }
}

impl Drop for TerminalLine {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            write_stderr(ERASE);
        }
    }
}

/// Returns true if standard error is a terminal that can erase a line.
pub fn can_redraw() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|name| name != "dumb")
}

/// Returns the width of the terminal, or 80 if it is unknown.
pub fn terminal_columns() -> usize {
    terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0.into())
}

/// Writes without a line end. Ignores errors, because a run continues without a reader.
pub fn write_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
