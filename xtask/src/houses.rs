//! The border between the two houses: nothing in `crates/` but the command depends on the
//! laboratory.

use std::path::Path;

use crate::shell::{CommandLine, Failure};

/// Package of the laboratory.
const LABORATORY: &str = "orrery-lab";
/// Package of the command, the only one that may depend on the laboratory.
const COMMAND: &str = "orrery";

/// Checks the dependencies of all packages, also those of tests, as Cargo reports them.
pub fn check(root: &Path) -> Result<(), Failure> {
    let users = format!("cargo tree --workspace --invert {LABORATORY} --depth 1 --edges all");
    let users = packages(root, &users)?;
    if let Some(other) = users.iter().find(|name| ![LABORATORY, COMMAND].contains(&name.as_str())) {
        return Err(Failure::new(format!(
            "{other} depends on {LABORATORY}, expected {COMMAND} as its only user"
        )));
    }
    // Without its feature `lab` the command is the simulator alone.
    let simulator = format!("cargo tree --package {COMMAND} --no-default-features --edges normal,build");
    match packages(root, &simulator)?.iter().any(|name| name == LABORATORY) {
        true => Err(Failure::new(format!("{COMMAND} without default features depends on {LABORATORY}"))),
        false => Ok(()),
    }
}

/// Returns the names of the packages that `cargo tree` prints.
fn packages(root: &Path, command: &str) -> Result<Vec<String>, Failure> {
    let command = CommandLine::new(command).arg("--prefix").arg("none").in_folder(root);
    let output = command.output().ok_or_else(|| Failure {
        message: "cargo tree failed".to_owned(),
        rerun: Some(command.to_string()),
    })?;
    Ok(output.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_does_not_depend_on_the_laboratory() {
        let root = crate::project_root();
        check(&root).unwrap();
        // The command has the laboratory by default, so the check can fail.
        let all = packages(&root, "cargo tree --package orrery --edges normal").unwrap();
        assert!(all.iter().any(|name| name == LABORATORY), "{all:?}");
    }
}
