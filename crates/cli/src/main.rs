//! The `orrery` command: parses the flags, calls the other crates, prints the results.
//!
//! The exit statuses are listed in [`args::EXIT_STATUS`].

mod args;
mod commands;
mod failure;
mod print;
mod progress;
mod signals;
mod terminal_line;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use commands::Ending;
use print::eprint_line;

fn main() -> ExitCode {
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return report_parse_error(&error),
    };
    match commands::execute(&arguments) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Stopped) => ExitCode::from(3),
        Err(failure) => {
            eprint_line!("error: {failure}");
            ExitCode::from(if failure.is_mistake() { 2 } else { 1 })
        }
    }
}

/// Prints the help or version that was requested, or the error in the flags, and returns the exit
/// status.
fn report_parse_error(error: &clap::Error) -> ExitCode {
    match error.kind() {
        // `orrery` without a command. clap would print this help on standard error, with status 2.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = args::Arguments::command().print_help();
            ExitCode::SUCCESS
        }
        _ if error.use_stderr() => {
            eprint_line!("{}", as_one_line(&error.to_string()));
            ExitCode::from(2)
        }
        _ => error.exit(),
    }
}

/// Removes the usage from clap's message and joins the rest into one line. Paragraphs, such as a
/// tip, are separated by semicolons.
fn as_one_line(message: &str) -> String {
    let cause = message.split("\n\nUsage:").next().unwrap_or(message);
    let cause = cause.split("\n\nFor more information").next().unwrap_or(cause);
    let paragraphs: Vec<String> =
        cause.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    format!("{} (see --help)", paragraphs.join("; "))
}
