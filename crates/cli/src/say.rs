//! Words for people. A reader that goes away (`orrery presets | head -1`) is no error.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line on standard output. Where no one reads it any more, the work still goes on.
pub fn line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints a line on standard error, where someone may or may not be listening.
pub fn warn(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// `say!("...", ...)` prints a line on standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;
