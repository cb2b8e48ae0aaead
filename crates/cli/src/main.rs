//! The `orrery` command: flags in, calls of the other crates, words out.
//!
//! Exit status: 0 done, 1 the machine or the run failed, 2 the user's input is wrong (and nothing was written),
//! 3 the run was stopped in good order and can be resumed, 130 a second SIGINT ended it at once.

mod args;
mod commands;
mod failure;
mod progress;
mod say;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use commands::Ending;

fn main() -> ExitCode {
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            say::warn(format_args!("{}", one_line(&error.to_string())));
            return ExitCode::from(2);
        }
        // Help and version.
        Err(wanted) => wanted.exit(),
    };
    match commands::execute(&arguments) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Stopped) => ExitCode::from(3),
        Err(failure) => {
            say::warn(format_args!("error: {failure}"));
            ExitCode::from(if failure.is_mistake() { 2 } else { 1 })
        }
    }
}

/// clap's message without its usage and hints, as one line like every other error's.
fn one_line(message: &str) -> String {
    let cause = message.split("\n\nUsage:").next().unwrap_or(message);
    let cause = cause.split("\n\nFor more information").next().unwrap_or(cause);
    let words: Vec<&str> = cause.split_whitespace().collect();
    format!("{} (see --help)", words.join(" "))
}
