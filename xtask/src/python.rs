//! The Python programs that the tests open Orrery's files with, in an environment of their own.
//!
//! The environment lies in target/python. A stamp inside holds the text of the requirements that were
//! installed last: where it equals the present text there is nothing to do, and it goes when the
//! environment goes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Failure, Line};

const REQUIREMENTS: &str = "xtask/python-requirements.txt";
/// What the required packages ask for: Debian 12 and Ubuntu 24.04 have it.
const OLDEST: (u32, u32) = (3, 11);

fn environment(root: &Path) -> PathBuf {
    root.join("target/python")
}

/// The environment's interpreter.
pub fn interpreter(root: &Path) -> PathBuf {
    environment(root).join("bin/python")
}

fn pip(environment: &Path) -> Line {
    Line::new("").word(environment.join("bin/python")).word("-m").word("pip")
}

fn works(environment: &Path) -> bool {
    pip(environment).word("--version").succeeds()
}

/// Whether there is an environment or one can be made: Debian's python3 alone has no pip to put into it.
pub fn is_possible(root: &Path) -> bool {
    if works(&environment(root)) {
        return true;
    }
    let trial = root.join("target/python-trial");
    let made = Line::new("python3 -m venv --clear").word(&trial).succeeds() && works(&trial);
    let _ = fs::remove_dir_all(&trial);
    made
}

/// Makes the environment and installs the requirements, unless that was done before.
pub fn set_up(root: &Path) -> Result<(), Failure> {
    let environment = environment(root);
    let path = root.join(REQUIREMENTS);
    let requirements =
        fs::read_to_string(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let works = works(&environment);
    if works && is_stamped(&environment, &requirements) {
        println!("{REQUIREMENTS}: installed");
        return Ok(());
    }
    if !works {
        check_version(Line::new("python3 --version").output().as_deref())?;
        Line::new("python3 -m venv --clear").word(&environment).run()?;
    }
    let install = ["install", "--quiet", "--disable-pip-version-check", "-r"];
    install.iter().fold(pip(&environment), Line::word).word(&path).run()?;
    stamp(&environment, &requirements)
}

fn stamp_file(environment: &Path) -> PathBuf {
    environment.join("requirements-installed.txt")
}

fn is_stamped(environment: &Path, requirements: &str) -> bool {
    fs::read_to_string(stamp_file(environment)).is_ok_and(|installed| installed == requirements)
}

fn stamp(environment: &Path, requirements: &str) -> Result<(), Failure> {
    let file = stamp_file(environment);
    fs::write(&file, requirements).map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

/// `said` is what `python3 --version` says: `Python 3.11.2`.
fn check_version(said: Option<&str>) -> Result<(), Failure> {
    let said = said.unwrap_or("nothing");
    let mut numbers = said.trim_start_matches("Python ").split('.').map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => {
            let (major, minor) = OLDEST;
            Err(Failure::new(format!("python3 is '{said}', expected Python {major}.{minor} or later")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_holds_for_the_same_requirements_only() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_stamped(folder.path(), "h5py==3\n"));
        stamp(folder.path(), "h5py==3\n").unwrap();
        assert!(is_stamped(folder.path(), "h5py==3\n"));
        assert!(!is_stamped(folder.path(), "h5py==4\n"));
    }

    #[test]
    fn every_requirement_is_pinned() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = fs::read_to_string(root.join(REQUIREMENTS)).unwrap();
        let packages: Vec<_> = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
        assert!(!packages.is_empty());
        for package in packages {
            assert!(package.contains("=="), "{package}");
        }
    }

    #[test]
    fn an_old_python_is_refused() {
        assert_eq!(check_version(Some("Python 3.11.2")), Ok(()));
        assert_eq!(check_version(Some("Python 3.14.0rc1")), Ok(()));
        assert_eq!(check_version(Some("Python 4.0")), Ok(()));
        let message = check_version(Some("Python 3.10.12")).unwrap_err().message;
        assert_eq!(message, "python3 is 'Python 3.10.12', expected Python 3.11 or later");
        assert!(check_version(Some("Python 2.7.18")).is_err());
        assert!(check_version(None).is_err());
    }
}
