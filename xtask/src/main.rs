//! Development commands of the project. `cargo xtask test` installs missing packages and runs the
//! whole test suite, `cargo xtask soak` repeats it at length, `cargo xtask validate` runs the long
//! physics tests, `cargo xtask reliability` runs the full fault tests, `cargo xtask reference`
//! writes the generated reference page, and `cargo xtask style` checks names and comments.
//!
//! It depends only on the standard library, so it builds on a machine where nothing else works yet.

mod examples;
#[cfg(test)]
mod houses;
mod prerequisites;
mod python;
mod reliability;
mod report;
mod shell;
mod soak;
mod style;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use report::{Report, StageFailure};
use shell::{CommandLine, Failure};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test         install missing packages; check format, style, lints, tests, docs, examples
  soak         run all repetitions, all MPI installations and all long tests, before an issue is closed
  validate     run the long physics tests in release mode
  reliability  run the full fault tests of docs/reliability.md (fuzzing takes 13 min)
  reference    write docs/reference/case.md from the declarations of the keys
  style [DIR]  check names, phrases and comments, and print style figures";

type Command = fn(&Path, &mut Report) -> Result<(), StageFailure>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let command: Command = match arguments[..] {
        ["test"] => run_tests,
        ["soak"] => soak::run_soak_tests,
        ["validate"] => run_validation,
        ["reliability"] => reliability::run_fault_tests,
        ["reference"] => write_reference,
        ["style"] => check_style,
        ["style", ref folders @ ..] => {
            let root = project_root();
            return match style::print_figures(&root, folders) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => {
                    eprintln!("{}", failure.message);
                    ExitCode::FAILURE
                }
            };
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let root = project_root();
    let mut report = Report::default();
    let result = command(&root, &mut report);
    print!("\n{report}");
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

fn project_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

fn check_style(root: &Path, report: &mut Report) -> Result<(), StageFailure> {
    report.run_stage("style", || style::print_figures(root, &[]).and_then(|()| style::check(root)))
}

fn run_tests(root: &Path, report: &mut Report) -> Result<(), StageFailure> {
    let cargo = |text: &str| CommandLine::new(text).in_folder(root);
    report.run_stage("prerequisites", || prerequisites::install_missing(root))?;
    std::thread::scope(|scope| {
        // Mostly waits for downloads, so it runs beside the compiler.
        let environment = scope.spawn(|| python::set_up_environment(root));
        report.run_stage("format", || cargo("cargo fmt --all --check").run())?;
        report.run_stage("style", || style::check(root))?;
        report.run_stage("lints", || cargo("cargo clippy --workspace --all-targets -- -D warnings").run())?;
        // Builds all targets of `cargo test` and the program with the same features, so nothing is
        // built twice. The lints have checked the examples.
        report.run_stage("build", || cargo("cargo build --workspace --bins --tests").run())?;
        report.run_stage("python", || environment.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
    })?;
    let tests = |text: &str| test_command(root, text);
    // Cargo runs one test program after the other, and most of them use less than two cores. The
    // integration tests run beside the others. All commands have the whole workspace, because
    // features of dependencies, and with them builds, depend on the selected packages.
    report.run_stage("tests and docs", || {
        std::thread::scope(|scope| {
            let integration = tests("cargo test --workspace --test integration");
            let integration = scope.spawn(move || integration.run_and_print_later());
            tests("cargo test --workspace --lib --bins").arg("--test").arg("[!i]*").run()?;
            tests("cargo test --workspace --doc").run()?;
            cargo("cargo doc --no-deps --workspace").with_env("RUSTDOCFLAGS", "-D warnings").run()?;
            integration.join().unwrap_or_else(|_| Err(Failure::new("panicked")))
        })
    })?;
    report.run_stage("examples", || examples::run_examples(root))
}

/// Returns a command that runs tests, with the programs and the folder that they need.
fn test_command(root: &Path, text: &str) -> CommandLine {
    let tests = CommandLine::new(text)
        .in_folder(root)
        .with_env("ORRERY_PYTHON", python::interpreter_path(root))
        .with_env("ORRERY_NVRTC_DIR", python::nvrtc_folder(root));
    match memory_folder(Path::new("/dev/shm")) {
        Some(folder) => tests.with_env("TMPDIR", folder),
        None => tests,
    }
}

/// Free memory that a folder in memory needs, in KiB. The tests write less than 1 GiB.
const MIN_FREE_KIB: u64 = 4 << 20;

/// Returns `folder` if it is in memory and has enough space for the files of the tests. There,
/// syncs do not wait for a disk.
fn memory_folder(folder: &Path) -> Option<&Path> {
    let table = CommandLine::new("df --output=fstype,avail").arg(folder).output()?;
    let mut cells = table.lines().last()?.split_whitespace();
    let is_in_memory = cells.next()? == "tmpfs";
    let free_kib: u64 = cells.next()?.parse().ok()?;
    (is_in_memory && free_kib >= MIN_FREE_KIB).then_some(folder)
}

/// Writes the page of the case's keys, which is generated by an example of the engine.
fn write_reference(root: &Path, report: &mut Report) -> Result<(), StageFailure> {
    report.run_stage("reference", || {
        let command = "cargo run --quiet -p orrery-engine --example reference docs/reference/case.md";
        CommandLine::new(command).in_folder(root).run()
    })
}

fn run_validation(root: &Path, report: &mut Report) -> Result<(), StageFailure> {
    report.run_stage("validation", || {
        CommandLine::new("cargo test -p orrery-validation --release -- --ignored").in_folder(root).run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_file_systems_in_memory_are_used() {
        assert_eq!(memory_folder(Path::new("/nowhere")), None);
        assert_eq!(memory_folder(Path::new("/proc")), None);
    }
}
