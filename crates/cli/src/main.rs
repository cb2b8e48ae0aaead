//! The `orrery` command: parses the flags, calls the other crates, prints the results.
//!
//! The exit statuses are listed in [`args::EXIT_STATUS`].

mod args;
mod commands;
mod events;
mod failure;
mod json;
mod log;
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
    let status = match args::Arguments::try_parse() {
        Ok(arguments) => execute_command(&arguments),
        Err(error) => report_parse_error(&error),
    };
    let status = match print::finish_stdout() {
        Ok(()) => status,
        Err(error) => {
            eprint_line!("error: standard output: cannot be written: {error}");
            // A command that failed or was stopped keeps its status.
            if status == 0 { 1 } else { status }
        }
    };
    // After an error, one line says enough. It is usually about the same disk.
    if let Some(warning) = log::warning().filter(|_| [0, 3].contains(&status)) {
        eprint_line!("{warning}");
    }
    ExitCode::from(status)
}

/// Executes the command, prints its error if it fails, and returns the exit status.
fn execute_command(arguments: &args::Arguments) -> u8 {
    match commands::execute(arguments) {
        Ok(Ending::Done) => 0,
        Ok(Ending::Different) => 1,
        Ok(Ending::Stopped) => 3,
        Err(failure) => {
            eprint_line!("error: {failure}");
            if failure.is_mistake() { 2 } else { 1 }
        }
    }
}

/// Prints the help or version that was requested, or the error in the flags, and returns the exit
/// status.
fn report_parse_error(error: &clap::Error) -> u8 {
    match error.kind() {
        // `orrery` without a command. clap would print this help on standard error, with status 2.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print::keep_stdout_error(args::Arguments::command().print_help());
            0
        }
        _ if error.use_stderr() => {
            eprint_line!("{}", as_one_line(&error.to_string()));
            2
        }
        _ => {
            print::keep_stdout_error(error.print());
            0
        }
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
