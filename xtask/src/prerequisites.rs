//! Packages that the tests need in addition to Rust.
//!
//! Each package has a function that detects it, so a package that was installed by other means is
//! not installed again.

use std::path::Path;

use crate::python;
use crate::shell::{CommandLine, Failure};

/// A package and the function that detects it.
struct Prerequisite {
    package: &'static str,
    installer: Installer,
    is_installed: fn(root: &Path) -> bool,
}

/// Program that installs a package.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Installer {
    Apt,
    Rustup,
}

const PREREQUISITES: &[Prerequisite] = &[
    Prerequisite {
        package: "python3-venv",
        installer: Installer::Apt,
        is_installed: python::can_create_environment,
    },
    // OpenCL loader and PoCL. The tests run the kernels on the CPU with them.
    Prerequisite {
        package: "ocl-icd-libopencl1",
        installer: Installer::Apt,
        is_installed: |_| has_opencl_loader(),
    },
    Prerequisite { package: "pocl-opencl-icd", installer: Installer::Apt, is_installed: |_| has_pocl() },
    // Launcher and library of Open MPI. The program itself builds and runs without them.
    Prerequisite { package: "openmpi-bin", installer: Installer::Apt, is_installed: |_| has_open_mpi() },
    // A minimal Rust installation does not contain rustfmt and clippy.
    Prerequisite {
        package: "rustfmt",
        installer: Installer::Rustup,
        is_installed: |_| command_succeeds("cargo fmt --version"),
    },
    Prerequisite {
        package: "clippy",
        installer: Installer::Rustup,
        is_installed: |_| command_succeeds("cargo clippy --version"),
    },
];

fn command_succeeds(line: &str) -> bool {
    CommandLine::new(line).succeeds()
}

/// Returns whether the dynamic linker finds the OpenCL loader. Not every system has ldconfig, and
/// on some it is in a folder that is not in the PATH of every user.
fn has_opencl_loader() -> bool {
    const LOADER: &str = "libOpenCL.so.1";
    let is_listed = |ldconfig: &str| {
        CommandLine::new(ldconfig).arg("-p").output().is_some_and(|list| list.contains(LOADER))
    };
    ["ldconfig", "/sbin/ldconfig"].into_iter().any(is_listed)
        || ["/usr/lib", "/usr/lib64"].iter().any(|folder| Path::new(folder).join(LOADER).exists())
}

/// Returns whether PoCL is one of the drivers that the OpenCL loader uses.
fn has_pocl() -> bool {
    let vendors = std::env::var("OCL_ICD_VENDORS").unwrap_or_else(|_| "/etc/OpenCL/vendors".to_owned());
    lists_pocl(Path::new(&vendors))
}

/// Returns whether an `.icd` file in the folder `vendors` names the library of PoCL.
fn lists_pocl(vendors: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(vendors) else { return false };
    let mut paths = files.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.any(|path| {
        path.extension().is_some_and(|extension| extension == "icd")
            && std::fs::read_to_string(&path).is_ok_and(|library| library.contains("libpocl"))
    })
}

/// Returns whether the launcher of Open MPI is in the PATH. Debian has several MPI packages, and
/// `mpirun` is the one that the administrator selected.
fn has_open_mpi() -> bool {
    let is_open_mpi = |launcher: &str| {
        CommandLine::new(launcher).arg("--version").output().is_some_and(|text| text.contains("Open MPI"))
    };
    ["mpirun.openmpi", "mpirun"].into_iter().any(is_open_mpi)
}

/// Installs missing packages. If that is not possible, the error contains the command to run.
pub fn install_missing(root: &Path) -> Result<(), Failure> {
    let missing = missing_prerequisites(root);
    if missing.is_empty() {
        let packages: Vec<_> = PREREQUISITES.iter().map(|prerequisite| prerequisite.package).collect();
        println!("all installed: {}", packages.join(", "));
        return Ok(());
    }
    let packages_from = |installer| -> Vec<_> {
        let selected = missing.iter().filter(|prerequisite| prerequisite.installer == installer);
        selected.map(|prerequisite| prerequisite.package).collect()
    };
    let components = packages_from(Installer::Rustup);
    if !components.is_empty() {
        components.iter().fold(CommandLine::new("rustup component add"), CommandLine::arg).run()?;
    }
    let packages = packages_from(Installer::Apt);
    if !packages.is_empty() {
        install_with_apt(&packages)?;
    }
    match missing_prerequisites(root).first() {
        None => Ok(()),
        Some(prerequisite) => Err(Failure::new(format!(
            "{} is installed but does not work; check for another program of that name earlier in PATH",
            prerequisite.package
        ))),
    }
}

fn install_with_apt(packages: &[&str]) -> Result<(), Failure> {
    if !command_succeeds("apt-get --version") {
        let packages = packages.join(" ");
        return Err(Failure::new(format!(
            "apt-get not found; install the equivalents of these Debian packages: {packages}"
        )));
    }
    let (update, install) = apt_commands(packages, InstallRights::of_current_user())?;
    // The update fails if a single repository does not answer. The others may be sufficient.
    if update.run().is_err() {
        println!("continuing with the existing package lists");
    }
    install.run()
}

fn missing_prerequisites(root: &Path) -> Vec<&'static Prerequisite> {
    PREREQUISITES.iter().filter(|prerequisite| !(prerequisite.is_installed)(root)).collect()
}

/// Rights of the current user to install packages.
#[derive(Clone, Copy)]
enum InstallRights {
    Root,
    /// sudo without a password. A password prompt would block an unattended run.
    Sudo,
    None,
}

impl InstallRights {
    fn of_current_user() -> Self {
        if CommandLine::new("id -u").output().as_deref() == Some("0") {
            Self::Root
        } else if command_succeeds("sudo -n true") {
            Self::Sudo
        } else {
            Self::None
        }
    }
}

/// Returns the commands that update the package lists and install `packages`.
fn apt_commands(packages: &[&str], rights: InstallRights) -> Result<(CommandLine, CommandLine), Failure> {
    // sudo drops environment variables, so `env` sets them after sudo.
    let apt = match rights {
        InstallRights::Root => "env DEBIAN_FRONTEND=noninteractive apt-get",
        InstallRights::Sudo => "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get",
        InstallRights::None => {
            let packages = packages.join(" ");
            let line = format!("sudo apt-get update && sudo apt-get install -y {packages}");
            return Err(Failure::new(format!(
                "no permission to install {packages}; run this command first:\n  {line}"
            )));
        }
    };
    let install = CommandLine::new(apt).arg("install").arg("-y").arg("--no-install-recommends");
    Ok((CommandLine::new(apt).arg("update"), packages.iter().fold(install, CommandLine::arg)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_listed_once() {
        for (index, prerequisite) in PREREQUISITES.iter().enumerate() {
            let package = prerequisite.package;
            assert!(PREREQUISITES[..index].iter().all(|earlier| earlier.package != package), "{package}");
        }
    }

    #[test]
    fn pocl_is_detected_by_the_library_named_in_an_icd_file() {
        let folder = std::env::temp_dir().join(format!("orrery-xtask-icd-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        assert!(!lists_pocl(&folder.join("missing")));
        write("nvidia.icd", "libnvidia-opencl.so.1\n");
        write("pocl.icd.bak", "libpocl.so.2\n");
        assert!(!lists_pocl(&folder));
        write("any.icd", "/usr/lib/libpocl.so.2.10.0\n");
        assert!(lists_pocl(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn apt_runs_as_root_or_through_sudo() {
        let commands = |rights| {
            let (update, install) = apt_commands(&["a", "b"], rights).unwrap();
            (update.to_string(), install.to_string())
        };
        let (update, install) = commands(InstallRights::Root);
        assert_eq!(update, "env DEBIAN_FRONTEND=noninteractive apt-get update");
        assert_eq!(
            install,
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends a b"
        );
        let (update, install) = commands(InstallRights::Sudo);
        assert!(update.starts_with("sudo -n env DEBIAN"), "{update}");
        assert!(install.starts_with("sudo -n env DEBIAN"), "{install}");
    }

    #[test]
    fn without_rights_the_error_contains_the_command_to_run() {
        let message = apt_commands(&["a", "b"], InstallRights::None).unwrap_err().message;
        let line = message.lines().last().unwrap().trim();
        assert_eq!(line, "sudo apt-get update && sudo apt-get install -y a b");
    }
}
