//! The `orrery` command: parses the flags, calls the other crates, prints the results.
//!
//! The exit statuses are listed in [`args::EXIT_STATUS`].

mod args;
mod clean;
mod commands;
mod environment;
mod events;
mod failure;
mod json;
#[cfg(feature = "lab")]
mod laboratory;
#[cfg(not(feature = "lab"))]
#[path = "no_laboratory.rs"]
mod laboratory;
mod log;
mod print;
mod progress;
mod ranks;
mod signals;
mod terminal_line;

use std::fmt;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use orrery_cluster::process::{self, MpiOptions};
use orrery_cluster::{ClusterError, Transport};
use orrery_device::{connections, take_cache_warnings};

use clean::clean_line;
use failure::Failure;
use print::eprint_line;

fn main() -> ExitCode {
    if let Some(processes) = process::local_processes() {
        connections::limit_if_shared(processes);
    }
    let run_rank = |transport: &Transport| run_rank(transport).map_err(PrintedFailure::from);
    let status = process::run(MpiOptions::default(), |failure| failure.0.exit_status(), run_rank);
    ExitCode::from(status.unwrap_or_else(|PrintedFailure(failure)| {
        eprint_line!("error: {failure}");
        failure.exit_status()
    }))
}

/// Error of a rank, whose message the launcher of the ranks prints. It is one clean line.
struct PrintedFailure(Box<Failure>);

impl fmt::Display for PrintedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean_line(&self.0.to_string()))
    }
}

impl From<Failure> for PrintedFailure {
    fn from(failure: Failure) -> Self {
        Self(Box::new(failure))
    }
}

impl From<ClusterError> for PrintedFailure {
    fn from(error: ClusterError) -> Self {
        Failure::from(error).into()
    }
}

/// Executes the command line as a rank and returns the exit status. An error ends all ranks.
fn run_rank(transport: &Transport) -> Result<u8, Failure> {
    environment::check()?;
    let arguments = args::Arguments::try_parse();
    let case_file = arguments.as_ref().ok().and_then(|arguments| arguments.command.case_file());
    ranks::expect_same_command(transport, case_file)?;
    if transport.rank() > 0 {
        // Rank 0 prints errors in the flags.
        return arguments.map_or(Ok(()), |arguments| ranks::follow(&arguments, transport)).map(|()| 0);
    }
    let status = match arguments {
        Ok(arguments) => {
            let ending = ranks::lead(&arguments, transport);
            take_cache_warnings().iter().for_each(|warning| eprint_line!("warning: {warning}"));
            ending?
        }
        Err(error) => report_parse_error(&error),
    };
    Ok(finish_output(status))
}

/// Writes the rest of the output of a command, and returns the exit status.
fn finish_output(status: u8) -> u8 {
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
    status
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
