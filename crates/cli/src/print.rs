//! Lines on standard output and standard error. They are also lines of `run.log`.
//!
//! Everything is cleaned of control characters here, because it may contain names of files and
//! texts in them. A line stays one line, so that a name cannot forge a message.
//!
//! A closed pipe is not an error: after `orrery presets | head -1` nothing reads the remaining
//! lines. Any other error on standard output, such as a full disk, is kept until the command ends,
//! because a run continues without its output. The program then exits with status 1.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clean::{clean_line, clean_text};
use crate::log;

/// The first error on standard output, other than a closed pipe.
static STDOUT_ERROR: OnceLock<std::io::Error> = OnceLock::new();

/// True if standard output is reserved for a result, such as JSON, or must stay empty.
static TEXT_IS_SUPPRESSED: AtomicBool = AtomicBool::new(false);

/// True if details are printed.
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// Removes text from standard output, so that it contains only the result. Text is still logged.
pub fn suppress_text() {
    TEXT_IS_SUPPRESSED.store(true, Ordering::Relaxed);
}

/// Prints details, which are only logged otherwise.
pub fn show_details() {
    IS_VERBOSE.store(true, Ordering::Relaxed);
}

/// Writes a line of text to standard output. An error is kept for [`finish_stdout`].
pub fn write_stdout_line(text: Arguments<'_>) {
    let text = text.to_string();
    let text = clean_line(&text);
    log::write(&text);
    if !TEXT_IS_SUPPRESSED.load(Ordering::Relaxed) {
        write_stdout_result(format_args!("{text}"));
    }
}

/// Writes a line to standard output if details are shown.
pub fn write_detail_line(text: Arguments<'_>) {
    match IS_VERBOSE.load(Ordering::Relaxed) {
        true => write_stdout_line(text),
        false => log::write(&clean_line(&text.to_string())),
    }
}

/// Writes a result and a line end to standard output, even if text is suppressed. The result may
/// have several lines. An error is kept for [`finish_stdout`].
pub fn write_stdout_result(text: Arguments<'_>) {
    let text = text.to_string();
    let text = clean_text(&text);
    keep_stdout_error(writeln!(std::io::stdout().lock(), "{text}"));
}

/// Keeps the error of a write to standard output for [`finish_stdout`].
pub fn keep_stdout_error(written: std::io::Result<()>) {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(STDOUT_ERROR.set(error)),
        _ => {}
    }
}

/// Flushes standard output and returns its first error, if there was one.
pub fn finish_stdout() -> Result<(), &'static std::io::Error> {
    keep_stdout_error(std::io::stdout().lock().flush());
    STDOUT_ERROR.get().map_or(Ok(()), Err)
}

/// Writes a line to standard error. Ignores errors, because a run continues without a reader.
pub fn write_stderr_line(text: Arguments<'_>) {
    let text = text.to_string();
    let text = clean_line(&text);
    log::write(&text);
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line on standard output, like `println!`. An error makes the command fail at its end.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::print::write_stdout_line(format_args!($($text)*)) };
}

/// Prints each line of a text on standard output.
pub fn print_lines(text: &str) {
    text.lines().for_each(|line| write_stdout_line(format_args!("{line}")));
}

/// Prints a line on standard output with `--verbose`.
macro_rules! print_detail {
    ($($text:tt)*) => { $crate::print::write_detail_line(format_args!($($text)*)) };
}

/// Prints a line on standard error, like `eprintln!`, and ignores a closed pipe.
macro_rules! eprint_line {
    ($($text:tt)*) => { $crate::print::write_stderr_line(format_args!($($text)*)) };
}

pub(crate) use {eprint_line, print_detail, print_line};
