//! Tests of the help texts, the shell completions and the manual page.

use crate::common::{TestDir, text};

const COMMANDS: [&str; 21] = [
    "run",
    "resume",
    "check",
    "presets",
    "init",
    "schema",
    "ic",
    "info",
    "convert",
    "forces",
    "accuracy",
    "analyze",
    "compare",
    "bench",
    "devices",
    "selftest",
    "ladder",
    "occupancy",
    "tune",
    "completions",
    "man",
];

#[test]
fn help_lists_all_commands() {
    let dir = TestDir::new();
    let help = dir.stdout_of(&["--help"]);
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        assert!(dir.stdout_of(&[command, "--help"]).contains("Usage: orrery "), "{command}");
    }
    assert_eq!(dir.stdout_of(&["--version"]), format!("orrery {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn orrery_without_a_command_prints_the_help() {
    let dir = TestDir::new();
    assert_eq!(dir.stdout_of(&[]), dir.stdout_of(&["--help"]));
}

/// Help is wrapped at the width of the terminal, and at 100 columns on wider terminals.
#[test]
fn help_fits_the_terminal() {
    let dir = TestDir::new();
    for command in COMMANDS.into_iter().chain([""]) {
        for flag in ["-h", "--help"] {
            for (columns, widest) in [("80", 80), ("250", 100)] {
                let arguments: Vec<_> = [command, flag].into_iter().filter(|word| !word.is_empty()).collect();
                let output = dir.command(&arguments).env("COLUMNS", columns).output().unwrap();
                for line in text(&output.stdout).lines() {
                    let width = line.chars().count();
                    assert!(width <= widest, "orrery {command} {flag}: {width} columns: {line}");
                    // A deep indentation would mean a column of single words at the right margin.
                    assert!(
                        width - line.trim_start().chars().count() <= 40,
                        "orrery {command} {flag}: {line}"
                    );
                }
            }
        }
    }
}

#[test]
fn completions_and_man_page_contain_the_flags() {
    let dir = TestDir::new();
    for (shell, expected) in
        [("bash", "complete -F _orrery"), ("zsh", "#compdef orrery"), ("fish", "complete -c orrery")]
    {
        let script = dir.stdout_of(&["completions", shell]);
        assert!(script.contains(expected) && script.contains("dry-run"), "{shell}");
    }
    let page = dir.stdout_of(&["man"]);
    assert!(page.starts_with(".ie ") || page.starts_with(".TH "), "{}", &page[..20]);
    for flag in ["galaxy\\-collision", "\\-\\-dry\\-run", "\\-\\-softening", "\\-\\-json"] {
        assert!(page.contains(flag), "{flag}");
    }
}

#[test]
fn the_man_page_has_all_sections() {
    let page = TestDir::new().stdout_of(&["man"]);
    let sections: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".SH "))
        .map(|title| title.trim_matches('"'))
        .collect();
    assert_eq!(
        sections,
        [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "COMMANDS",
            "EXIT STATUS",
            "SIGNALS",
            "ENVIRONMENT",
            "FILES",
            "EXAMPLES",
            "VERSION"
        ]
    );
    let commands: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".SS "))
        .map(|title| title.trim_matches('"'))
        .collect();
    assert_eq!(commands, COMMANDS.map(|command| format!("orrery {command}")));
    let page = page.replace("\\-", "-").replace("\\&", "");
    for text in
        ["130", "SIGUSR1", "ORRERY_CACHE_DIR", "ORRERY_DEBUG=1", "XDG_CACHE_HOME", "out/NAME/checkpoints/"]
    {
        assert!(page.contains(text), "{text}");
    }
}

/// There is one page for all commands, so it must not refer to pages such as `orrery-run(1)`.
#[test]
fn the_man_page_refers_to_no_other_page() {
    let page = TestDir::new().stdout_of(&["man"]).replace("\\-", "-");
    assert!(!page.contains("(1)"), "{page}");
    assert!(!page.contains("orrery-"), "{page}");
}
