//! `man`: one manual page with all commands.
//!
//! clap_mangen would write one page per command and refer to them, for example as `orrery-run(1)`.
//! This page has a subsection per command, so it refers to no other page.

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{Arguments, ENVIRONMENT, EXIT_STATUS, FILES, SIGNALS, Table};
use crate::failure::Failure;
use crate::print::print_lines;

/// Prints the manual page in roff.
pub fn print_manual_page() -> Result<(), Failure> {
    let page = manual_page().map_err(|e| Failure::Machine(format!("cannot format the manual page: {e}")))?;
    print_lines(page.trim_end());
    Ok(())
}

fn manual_page() -> std::io::Result<String> {
    let mut page = Vec::new();
    let mut command = Arguments::command();
    command.build();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    // No hyphenation, and ragged right margins: both keep flags and file names intact.
    page.extend(b".nh\n.ad l\n");
    man.render_name_section(&mut page)?;
    introduction(&command).to_writer(&mut page)?;
    Roff::new().control("SH", ["COMMANDS"]).to_writer(&mut page)?;
    for subcommand in command.get_subcommands_mut().filter(|subcommand| subcommand.get_name() != "help") {
        page.extend(command_section(subcommand)?);
    }
    for (title, introduction, table) in [
        ("EXIT STATUS", "orrery without a command prints its help and exits with status 0.", EXIT_STATUS),
        (
            "SIGNALS",
            "orrery run and orrery resume handle these signals. Other commands end at once.",
            SIGNALS,
        ),
        ("ENVIRONMENT", "", ENVIRONMENT),
        ("FILES", "", FILES),
    ] {
        table_section(title, introduction, table).to_writer(&mut page)?;
    }
    example_section().to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Returns the sections SYNOPSIS and DESCRIPTION.
fn introduction(command: &clap::Command) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    section.text([bold("orrery"), roman(" COMMAND [OPTIONS] [ARGUMENTS]")]);
    section.control("br", []);
    section.text([bold("orrery"), roman(" [COMMAND] --help")]);
    section.control("br", []);
    section.text([bold("orrery"), roman(" --version")]);
    section.control("SH", ["DESCRIPTION"]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    section.text([roman(format!("{about}."))]);
    section.text([roman(
        "A case file in TOML describes the bodies, the forces, the integrator and the output.",
    )]);
    section.text([roman("All commands have the flags --help and --version.")]);
    section
}

/// Returns the subsection of one command: usage, description, arguments and options.
fn command_section(command: &mut clap::Command) -> std::io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let is_run = ["run", "resume"].contains(&command.get_name());
    let mut section = Roff::new();
    section.control("SS", [format!("orrery {}", command.get_name()).as_str()]);
    section.text([bold(usage)]);
    section.control("PP", []);
    section.text([roman(format!("{about}."))]);
    let mut bytes = Vec::new();
    section.to_writer(&mut bytes)?;

    // --help and --version are the same for all commands.
    let is_common = |id: &str| ["help", "version"].contains(&id);
    let own = command.clone().mut_args(|argument| {
        let hidden = argument.is_hide_set() || is_common(argument.get_id().as_str());
        argument.hide(hidden)
    });
    let mut options = Vec::new();
    Man::new(own).render_options_section(&mut options)?;
    for line in String::from_utf8_lossy(&options).lines() {
        match line.strip_prefix(".SH ").map(|title| title.trim_matches('"')) {
            Some("OPTIONS") => {}
            // A group of options, such as those of `bench tree`. clap_mangen writes it in capitals.
            Some(title) => {
                let (first, rest) = title.split_at(1);
                bytes.extend(format!(".PP\n{first}{}:\n", rest.to_lowercase()).bytes());
            }
            None => bytes.extend(format!("{line}\n").bytes()),
        }
    }
    // The notes of `run` and `resume` are the sections SIGNALS and EXIT STATUS.
    if let Some(notes) = command.get_after_help().filter(|_| !is_run) {
        let mut section = Roff::new();
        section.control("PP", []).control("nf", []);
        for line in notes.to_string().lines() {
            section.text([roman(line)]);
        }
        section.control("fi", []);
        section.to_writer(&mut bytes)?;
    }
    Ok(bytes)
}

/// Returns a section with a list of names and descriptions.
fn table_section(title: &str, introduction: &str, table: Table) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [title]);
    if !introduction.is_empty() {
        section.text([roman(introduction)]);
    }
    for (name, text) in table {
        section.control("TP", []);
        section.text([bold(*name)]);
        section.text([roman(*text)]);
    }
    section
}

fn example_section() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]);
    for (text, line) in [
        ("Simulate a preset:", "orrery run galaxy-collision"),
        ("Edit a preset and run it on the first CUDA device:", "orrery init plummer"),
        ("", "orrery run plummer.toml --device cuda"),
        ("Stop before a limit of two hours, then resume:", "orrery run big.toml --wall-time 2h"),
        ("", "orrery resume out/big"),
    ] {
        if !text.is_empty() {
            section.control("PP", []);
            section.text([roman(text)]);
        }
        section.control("RS", []);
        section.text([bold(line)]);
        section.control("RE", []);
    }
    section
}
