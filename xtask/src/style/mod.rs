//! `cargo xtask style`: the house rules for language that a program can check, and style figures.
//!
//! The check is part of `cargo xtask test`. It rejects names and phrases that this code base once used
//! in place of common terms (the table in CONTRIBUTING.md says what to write), comments that start with
//! "What", and comment lines longer than [`MAX_COMMENT_COLUMNS`]. It also finds test files that are part
//! of no test program, and maxima that drop NaN.

mod figures;
mod maxima;
mod source;

use std::path::Path;

use crate::shell::{CommandLine, Failure};
use source::{Comment, Language};

/// Comments are wrapped at this column.
const MAX_COMMENT_COLUMNS: usize = 100;

/// Phrases that must not appear in any text file, in lower case. They match whole words.
const DENIED_PHRASES: &[&str] = &[
    "no number",
    "no numbers",
    "numbers that are none",
    "number that is none",
    "go on with",
    "goes on with",
    "going on with",
    "gone on with",
    "went on with",
    "whoever",
    "anew",
    "rightly",
    "wrongly",
    "quicker",
    "quickest",
    "the processor",
    "so many bodies",
    "so many steps",
    "so many threads",
    "so much time",
    "some twenty",
    "flops a pair",
    "bytes a body",
    "bytes a second",
    "operations a second",
    "threads a group",
    "thread a body",
    "groups a multiprocessor",
    "a multiprocessor holds",
    "hands on",
    "handed on",
];

/// Identifiers, or parts of identifiers, that must not appear in source files.
const DENIED_NAMES: &[&str] = &[
    "_a_pair",
    "_a_body",
    "_a_cell",
    "_a_group",
    "_a_thread",
    "_a_second",
    "_a_multiprocessor",
    "_a_split",
    "_a_unit",
    "_a_flag",
    "HAND_ON",
    "take_up",
    "last_words",
    "struct Place",
    "enum Place",
    "struct Spot",
    "struct Wish",
    "enum News",
    "struct Strategy",
    "enum Strategy",
    "struct Bench",
    "enum Form",
    "struct Form",
    "trait Kernel",
    "mod twin",
];

/// Files that quote the denied words: this check, the table of terms and the decision note.
const EXEMPT: &[&str] =
    &["xtask/src/style/", "CONTRIBUTING.md", "docs/decisions/2026-11-16-plain-language.md"];

/// Folders whose files are records of the past or data and are not rewritten.
const RECORDS: &[&str] = &["benchmarks/runs/", "fuzz/seeds/"];

/// Checks all tracked files below `root`. Prints each violation as `file:line: message`.
pub fn check(root: &Path) -> Result<(), Failure> {
    let files = tracked_files(root, &[])?;
    let mut violations = unused_test_files(&files);
    for (name, text) in &files {
        violations.extend(violations_in(name, text));
    }
    violations.iter().for_each(|violation| println!("{violation}"));
    match violations.len() {
        0 => Ok(()),
        count => Err(Failure {
            message: format!("{count} violations of the style rules; CONTRIBUTING.md has the table of terms"),
            rerun: Some("cargo xtask style".to_owned()),
        }),
    }
}

/// Prints the style figures of the Rust and kernel sources below `folders`, or of all of them.
pub fn print_figures(root: &Path, folders: &[&str]) -> Result<(), Failure> {
    let files = tracked_files(root, folders)?;
    for language in [Language::Rust, Language::Kernel] {
        let sources = files.iter().filter(|(name, _)| Language::of(name) == Some(language));
        println!(
            "{}",
            figures::Figures::of(language, sources.map(|(name, text)| (name.as_str(), text.as_str())))
        );
    }
    Ok(())
}

/// Names and contents of the tracked text files below `folders`, relative to `root`.
fn tracked_files(root: &Path, folders: &[&str]) -> Result<Vec<(String, String)>, Failure> {
    let line = folders.iter().fold(CommandLine::new("git ls-files --").in_folder(root), CommandLine::arg);
    let Some(list) = line.output() else {
        return Err(Failure::new("git ls-files failed; the style check needs a git checkout"));
    };
    let is_text =
        |name: &&str| [".rs", ".cu", ".h", ".py", ".md", ".toml"].iter().any(|end| name.ends_with(end));
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?));
    Ok(list.lines().filter(is_text).filter_map(read).collect())
}

/// Finds files of `tests/` that are neither a module of `tests/integration.rs` nor a test program in
/// `Cargo.toml`. Their tests would never run.
fn unused_test_files(files: &[(String, String)]) -> Vec<String> {
    let text_of = |name: &str| files.iter().find(|(other, _)| other == name).map_or("", |(_, text)| text);
    let mut unused = Vec::new();
    for (name, modules) in files {
        let Some(package) = name.strip_suffix("/tests/integration.rs") else { continue };
        let manifest = text_of(&format!("{package}/Cargo.toml"));
        let in_folder = files.iter().filter_map(|(other, _)| {
            let path = other.strip_prefix(&format!("{package}/tests/"))?;
            path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs")).filter(|stem| !stem.contains('/'))
        });
        for stem in in_folder.filter(|stem| *stem != "integration") {
            let is_module = modules.lines().any(|line| line == format!("mod {stem};"));
            if !is_module && !manifest.contains(&format!("name = \"{stem}\"")) {
                unused.push(format!("{package}/tests/{stem}: not a module of integration.rs"));
            }
        }
    }
    unused
}

fn violations_in(name: &str, text: &str) -> Vec<String> {
    if EXEMPT.iter().chain(RECORDS).any(|prefix| name.starts_with(prefix)) {
        return Vec::new();
    }
    let is_source = Language::of(name).is_some();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut report = |message: String| found.push(format!("{name}:{}: {message}", number + 1));
        let lower = line.to_lowercase();
        for phrase in DENIED_PHRASES.iter().filter(|phrase| has_words(&lower, phrase)) {
            report(format!("'{phrase}'"));
        }
        if !is_source {
            continue;
        }
        for denied in DENIED_NAMES.iter().filter(|denied| has_name(line, denied)) {
            report(format!("the name '{denied}'"));
        }
        if Comment::starts(line) && line.chars().count() > MAX_COMMENT_COLUMNS {
            report(format!("comment longer than {MAX_COMMENT_COLUMNS} columns"));
        }
    }
    if is_source {
        for comment in source::comments(text).iter().filter(|c| c.text.starts_with("What ")) {
            found.push(format!("{name}:{}: a comment that starts with 'What'", comment.line));
        }
        for line in maxima::dropping_nan(name, text) {
            found.push(format!("{name}:{line}: a maximum that drops NaN; use analysis::max_or_nan"));
        }
    }
    found
}

/// Whether `line` holds `phrase` with no letter or digit next to it.
fn has_words(line: &str, phrase: &str) -> bool {
    let is_outside = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(phrase).any(|(at, _)| {
        is_outside(line[..at].chars().next_back()) && is_outside(line[at + phrase.len()..].chars().next())
    })
}

/// Whether `line` holds `name`, with nothing that continues an identifier after it.
fn has_name(line: &str, name: &str) -> bool {
    line.match_indices(name)
        .any(|(at, _)| !line[at + name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_outside_of_every_program_are_found() {
        let file = |name: &str, text: &str| (format!("a/{name}"), text.to_owned());
        let mut files = vec![
            file("Cargo.toml", "[[test]]\nname = \"golden\"\n"),
            file("tests/integration.rs", "mod cache;\nmod common;\n"),
            file("tests/cache.rs", ""),
            file("tests/cache/files.rs", ""),
            file("tests/common/mod.rs", ""),
            file("tests/golden.rs", ""),
        ];
        assert!(unused_test_files(&files).is_empty());
        files.push(file("tests/forgotten.rs", ""));
        files.push(file("tests/lost/mod.rs", ""));
        assert_eq!(
            unused_test_files(&files),
            ["forgotten", "lost"].map(|stem| format!("a/tests/{stem}: not a module of integration.rs"))
        );
    }

    #[test]
    fn denied_phrases_match_whole_words_in_any_case() {
        assert_eq!(violations_in("a.md", "The value is No Number."), ["a.md:1: 'no number'"]);
        assert_eq!(violations_in("a.md", "no numbering, a pronoun anewly made"), [""; 0]);
    }

    #[test]
    fn denied_names_match_identifiers_in_source_files_only() {
        let line = "let flops_a_pair = 20;";
        assert_eq!(violations_in("a.rs", line), ["a.rs:1: the name '_a_pair'"]);
        assert_eq!(violations_in("a.md", line), [""; 0]);
        assert_eq!(violations_in("a.rs", "fn of_a_pairing() {}"), [""; 0]);
        assert_eq!(violations_in("a.rs", "struct SortStrategy;"), [""; 0]);
        assert_eq!(violations_in("a.rs", "struct Strategy {"), ["a.rs:1: the name 'struct Strategy'"]);
    }

    #[test]
    fn comments_do_not_start_with_what_and_are_not_too_long() {
        assert_eq!(
            violations_in("a.rs", "/// What it is.\nfn f() {}"),
            ["a.rs:1: a comment that starts with 'What'"]
        );
        assert_eq!(violations_in("a.rs", "/// Says\n/// What it is."), [""; 0]);
        let long = format!("// {}", "x".repeat(98));
        assert_eq!(violations_in("a.cu", &long), ["a.cu:1: comment longer than 100 columns"]);
        assert_eq!(violations_in("a.md", &long), [""; 0]);
    }

    #[test]
    fn files_that_quote_the_terms_are_exempt() {
        assert_eq!(violations_in("CONTRIBUTING.md", "do not write: anew"), [""; 0]);
    }
}
