//! Runs every folder of examples/ as its README says, and looks at what it leaves.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::report::shown;
use crate::shell::{Failure, Line};

/// Runs them all, in the order of their names.
pub fn run_all(root: &Path) -> Result<(), Failure> {
    let names = names(&root.join("examples"))?;
    if names.is_empty() {
        return Err(Failure::new("examples/ holds no folder"));
    }
    let program = program()?;
    for name in names {
        let start = Instant::now();
        run(root, &program, &name)?;
        println!("{name}: {}", shown(start.elapsed()));
    }
    Ok(())
}

/// The `orrery` of this build: it lies beside this very program.
fn program() -> Result<PathBuf, Failure> {
    let this = std::env::current_exe().map_err(|error| Failure::new(format!("own path: {error}")))?;
    Ok(this.with_file_name(format!("orrery{EXE_SUFFIX}")))
}

fn names(examples: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |error: std::io::Error| Failure::new(format!("{}: {error}", examples.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(examples).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn run(root: &Path, program: &Path, name: &str) -> Result<(), Failure> {
    let folder = root.join("examples").join(name);
    for file in ["README.md", "case.toml"] {
        if !folder.join(file).is_file() {
            return Err(Failure::new(format!("examples/{name}/{file} is missing")));
        }
    }
    let out = root.join("target/examples").join(name);
    // What an earlier run left must not pass for this one's.
    let _ = fs::remove_dir_all(&out);
    let line = Line::new("")
        .word(program)
        .word("run")
        .word(format!("examples/{name}/case.toml"))
        .word("--out")
        .word(format!("target/examples/{name}"))
        .word("--force")
        .word("--quiet")
        .in_folder(root);
    line.run()?;
    check_table(&out.join("conserved.csv"))
        .map_err(|message| Failure { message, rerun: Some(line.to_string()) })
}

/// A heading, and a row of finite numbers at least for the start and the end.
fn check_table(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines();
    let columns = lines.next().map_or(0, |heading| heading.split(',').count());
    let mut rows = 0;
    for line in lines {
        let numbers = line.split(',').filter_map(|word| word.trim().parse::<f64>().ok());
        if numbers.filter(|number| number.is_finite()).count() != columns {
            let place = format!("{}:{}", path.display(), rows + 2);
            return Err(format!("{place}: '{line}', expected {columns} finite numbers"));
        }
        rows += 1;
    }
    if rows < 2 {
        return Err(format!(
            "{}: {rows} rows, expected one for the start and one for the end",
            path.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_needs_rows_of_finite_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conserved.csv");
        let check = |text: &str| {
            fs::write(&path, text).unwrap();
            check_table(&path)
        };
        assert_eq!(check("step,time\n0,0.0\n10,1e-3\n"), Ok(()));
        let says = |text: &str, expected: &str| {
            let message = check(text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        says("", "0 rows");
        says("step,time\n0,0\n", "1 rows");
        says("step,time\n0,0\n1\n", "conserved.csv:3: '1', expected 2");
        says("step,time\n0,0\n1,NaN\n", "conserved.csv:3: '1,NaN', expected 2");
        assert!(check_table(&folder.path().join("nowhere.csv")).is_err());
    }

    #[test]
    fn the_examples_are_found_in_order() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples");
        let names = names(&examples).unwrap();
        assert!(names.is_sorted() && names.iter().any(|name| name == "plummer"), "{names:?}");
    }
}
