//! Runs the case of every folder in examples/ and checks its output.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::report::format_time;
use crate::shell::{CommandLine, Failure};

/// Runs all examples in alphabetical order.
pub fn run_examples(root: &Path) -> Result<(), Failure> {
    let names = example_names(&root.join("examples"))?;
    if names.is_empty() {
        return Err(Failure::new("examples/ contains no folder"));
    }
    let program = orrery_program()?;
    for name in names {
        let start = Instant::now();
        run_example(root, &program, &name)?;
        println!("{name}: {}", format_time(start.elapsed()));
    }
    Ok(())
}

/// Returns the path of the `orrery` program of this build, which is in the same folder as xtask.
fn orrery_program() -> Result<PathBuf, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| Failure::new(format!("the path of xtask is unknown: {error}")))?;
    Ok(this.with_file_name(format!("orrery{EXE_SUFFIX}")))
}

fn example_names(examples: &Path) -> Result<Vec<String>, Failure> {
    let failure = |error: std::io::Error| Failure::new(format!("{}: {error}", examples.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(examples).map_err(failure)? {
        let entry = entry.map_err(failure)?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn run_example(root: &Path, program: &Path, name: &str) -> Result<(), Failure> {
    let folder = root.join("examples").join(name);
    for file in ["README.md", "case.toml"] {
        if !folder.join(file).is_file() {
            return Err(Failure::new(format!("examples/{name}/{file} is missing")));
        }
    }
    let out = root.join("target/examples").join(name);
    // Output of an earlier run must not be checked in place of this run's.
    let _ = fs::remove_dir_all(&out);
    let line = CommandLine::new("")
        .arg(program)
        .arg("run")
        .arg(format!("examples/{name}/case.toml"))
        .arg("--out")
        .arg(format!("target/examples/{name}"))
        .arg("--force")
        .arg("--quiet")
        .in_folder(root);
    line.run()?;
    check_table(&out.join("conserved.csv"))
        .map_err(|message| Failure { message, rerun: Some(line.to_string()) })
}

/// Checks that a CSV file has a heading and at least two rows, for the start and the end of the
/// run, and that every row contains one finite number per column.
fn check_table(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines();
    let columns = lines.next().map_or(0, |heading| heading.split(',').count());
    let mut rows = 0;
    for line in lines {
        let numbers = line.split(',').filter_map(|cell| cell.trim().parse::<f64>().ok());
        if numbers.filter(|number| number.is_finite()).count() != columns {
            let position = format!("{}:{}", path.display(), rows + 2);
            return Err(format!("{position}: '{line}', expected {columns} finite numbers"));
        }
        rows += 1;
    }
    if rows < 2 {
        return Err(format!("{}: {rows} rows, expected at least 2 (start and end)", path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_needs_rows_of_finite_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conserved.csv");
        let check = |text: &str| {
            fs::write(&path, text).unwrap();
            check_table(&path)
        };
        assert_eq!(check("step,time\n0,0.0\n10,1e-3\n"), Ok(()));
        let assert_rejected = |text: &str, expected: &str| {
            let message = check(text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        assert_rejected("", "0 rows");
        assert_rejected("step,time\n0,0\n", "1 rows");
        assert_rejected("step,time\n0,0\n1\n", "conserved.csv:3: '1', expected 2");
        assert_rejected("step,time\n0,0\n1,NaN\n", "conserved.csv:3: '1,NaN', expected 2");
        assert!(check_table(&folder.path().join("nowhere.csv")).is_err());
    }

    #[test]
    fn examples_are_in_alphabetical_order() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples");
        let names = example_names(&examples).unwrap();
        assert!(names.is_sorted() && names.iter().any(|name| name == "plummer"), "{names:?}");
    }
}
