//! Lines on standard output and standard error.
//!
//! A closed pipe is not an error: after `orrery presets | head -1` nothing reads the remaining
//! lines.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard output. Ignores errors, because a run continues without a reader.
pub fn write_stdout_line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Writes a line to standard error. Ignores errors, because a run continues without a reader.
pub fn write_stderr_line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line on standard output, like `println!`, and ignores a closed pipe.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::print::write_stdout_line(format_args!($($text)*)) };
}

/// Prints a line on standard error, like `eprintln!`, and ignores a closed pipe.
macro_rules! eprint_line {
    ($($text:tt)*) => { $crate::print::write_stderr_line(format_args!($($text)*)) };
}

pub(crate) use {eprint_line, print_line};
