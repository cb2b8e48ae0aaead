//! The `orrery` command: flags in, calls of the engine, words out. Everything else lives in the other crates.
//!
//! Exit status: 0 done, 1 the machine or the run failed, 2 the user's input is wrong (and nothing was written).

mod args;
mod commands;
mod failure;
mod progress;
mod say;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    match commands::execute(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::warn(format_args!("error: {failure}"));
            ExitCode::from(if failure.is_mistake() { 2 } else { 1 })
        }
    }
}
