//! The project's own commands: `cargo xtask test` takes a fresh machine to a passed test suite, `cargo xtask
//! validate` runs the physics tests that take too long for it, and `cargo xtask reliability` the faults.
//!
//! It depends on nothing but the standard library: it is built before anything else is known to work.

mod examples;
mod needs;
mod python;
mod reliability;
mod report;
mod shell;
mod style;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use report::{Failed, Report};
use shell::Line;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test         install what is missing, then check format, style, lints, tests, docs and every example
  validate     run the long physics tests, in release
  reliability  kill, starve and damage runs as docs/reliability.md says, in full; fuzzing takes 6 min of it
  style [DIR]  check names, phrases and comments, and print style figures";

type Command = fn(&Path, &mut Report) -> Result<(), Failed>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let command: Command = match arguments[..] {
        ["test"] => test,
        ["validate"] => validate,
        ["reliability"] => reliability::run,
        ["style"] => style,
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
    let outcome = command(&root, &mut report);
    print!("\n{report}");
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("\n{failed}");
            ExitCode::FAILURE
        }
    }
}

fn project_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

fn style(root: &Path, report: &mut Report) -> Result<(), Failed> {
    report.stage("style", || style::print_figures(root, &[]).and_then(|()| style::check(root)))
}

fn test(root: &Path, report: &mut Report) -> Result<(), Failed> {
    let cargo = |text: &str| Line::new(text).in_folder(root);
    report.stage("needs", || needs::install(root))?;
    report.stage("python", || python::set_up(root))?;
    report.stage("format", || cargo("cargo fmt --all --check").run())?;
    report.stage("lints", || cargo("cargo clippy --workspace --all-targets -- -D warnings").run())?;
    // What `cargo test` builds and the program besides, all with the same features: nothing is built twice.
    report.stage("build", || cargo("cargo build --workspace --bins --tests --examples").run())?;
    report.stage("tests", || {
        cargo("cargo test --workspace").with_env("ORRERY_PYTHON", python::interpreter(root)).run()
    })?;
    report.stage("docs", || {
        cargo("cargo doc --no-deps --workspace").with_env("RUSTDOCFLAGS", "-D warnings").run()
    })?;
    report.stage("examples", || examples::run_all(root))
}

fn validate(root: &Path, report: &mut Report) -> Result<(), Failed> {
    report.stage("validation", || {
        Line::new("cargo test -p orrery-validation --release -- --ignored").in_folder(root).run()
    })
}
