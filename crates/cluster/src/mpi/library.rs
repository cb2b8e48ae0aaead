//! Search for the MPI library of the launcher.
//!
//! The library must belong to the launcher: with another one, each process would be alone. In this
//! order:
//! 1. the file in `ORRERY_MPI_LIBRARY`, and nothing else if it is set
//! 2. the folder `lib` beside the folder of the launcher, which is a parent of this process. The
//!    package `mpich` of PyPI needs this: it is in a virtual environment, and its mpiexec does not
//!    set `LD_LIBRARY_PATH`.
//! 3. the folder `lib` beside the folder of `mpiexec` or `mpirun` in `PATH`. With srun the parent
//!    is a daemon of Slurm.
//! 4. the search path of the dynamic linker
//!
//! In each folder the names of the launcher's kind are tried. The ABI does not follow from the
//! name but from the symbols, see `calls`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::launcher::{Launcher, LauncherKind};
use crate::error::ClusterError;

/// Variable with the file of the library.
const OVERRIDE: &str = "ORRERY_MPI_LIBRARY";

#[cfg(not(target_os = "macos"))]
mod names {
    pub const OPEN_MPI: &str = "libmpi.so.40";
    pub const MPICH: &str = "libmpi.so.12";
    pub const DEBIAN_MPICH: &str = "libmpich.so.12";
    pub const STANDARD: &str = "libmpi_abi.so.1";
}

#[cfg(target_os = "macos")]
mod names {
    pub const OPEN_MPI: &str = "libmpi.40.dylib";
    pub const MPICH: &str = "libmpi.12.dylib";
    pub const DEBIAN_MPICH: &str = "libmpich.12.dylib";
    pub const STANDARD: &str = "libmpi_abi.1.dylib";
}

/// A loaded library. It is never unloaded, because MPI leaves threads and handlers behind.
pub(super) struct Library {
    pub(super) handle: libloading::Library,
    pub(super) path: PathBuf,
}

/// Loads the library of the launcher.
pub(super) fn load_library(launcher: &Launcher) -> Result<Library, ClusterError> {
    if let Some(path) = std::env::var_os(OVERRIDE).filter(|path| !path.is_empty()) {
        return open(Path::new(&path)).map_err(|message| ClusterError::NamedLibrary {
            path: path.to_string_lossy().into_owned(),
            message,
        });
    }
    let mut folders = library_folders(&ancestor_programs());
    folders.extend(library_folders(&programs_in_path(std::env::var_os("PATH").as_deref())));
    let mut attempts = Vec::new();
    for path in candidates(launcher.kind, &folders) {
        match open(&path) {
            Ok(library) => return Ok(library),
            Err(message) => attempts.push(shortened(message)),
        }
    }
    Err(ClusterError::NoLibrary { launcher: launcher.kind.name(), size: launcher.size, attempts })
}

/// Returns the name of the library instead of the message that there is no such file.
fn shortened(message: String) -> String {
    match message.strip_suffix(": cannot open shared object file: No such file or directory") {
        Some(name) => name.to_owned(),
        None => message,
    }
}

/// Returns the files to try: those that exist in `folders`, then the names for the linker.
fn candidates(kind: LauncherKind, folders: &[PathBuf]) -> Vec<PathBuf> {
    let names: &[&str] = match kind {
        LauncherKind::OpenMpi => &[names::OPEN_MPI, names::STANDARD],
        LauncherKind::Pmi => &[names::MPICH, names::DEBIAN_MPICH, names::STANDARD],
        LauncherKind::Slurm | LauncherKind::Pmix => {
            &[names::OPEN_MPI, names::MPICH, names::DEBIAN_MPICH, names::STANDARD]
        }
    };
    let in_folders = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    in_folders.filter(|path| path.exists()).chain(names.iter().map(PathBuf::from)).collect()
}

/// Opens a library with global symbols, which the plug-ins of Open MPI need. The error names the
/// file.
fn open(path: &Path) -> Result<Library, String> {
    #[cfg(unix)]
    // SAFETY: loading runs the initialisers of the library. The user's MPI is trusted as the other
    // libraries of the system are.
    let handle = unsafe {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        Library::open(Some(path), RTLD_GLOBAL | RTLD_NOW).map(libloading::Library::from)
    };
    #[cfg(not(unix))]
    // SAFETY: as above.
    let handle = unsafe { libloading::Library::new(path) };
    match handle {
        Ok(handle) => Ok(Library { handle, path: path.to_owned() }),
        Err(error) => {
            // The source has the message of the linker, which names the file.
            let cause = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            Err(cause.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns the folders in which the libraries of programs may be. Intel MPI has `lib/release`.
fn library_folders(programs: &[PathBuf]) -> Vec<PathBuf> {
    let prefixes = programs.iter().filter_map(|program| Some(program.parent()?.parent()?.to_owned()));
    prefixes.flat_map(|prefix| ["lib", "lib64", "lib/release"].map(|folder| prefix.join(folder))).collect()
}

/// Returns the programs among the parents of this process that have the name of a launcher. A shell
/// or a profiler may be between the launcher and this process.
fn ancestor_programs() -> Vec<PathBuf> {
    const MAX_LEVELS: usize = 16;
    let mut programs = Vec::new();
    let mut id = std::process::id();
    for _ in 0..MAX_LEVELS {
        let Some(parent) = parent_of(id).filter(|&parent| parent > 1) else { break };
        programs.extend(std::fs::read_link(format!("/proc/{parent}/exe")).ok());
        id = parent;
    }
    programs.retain(|program| program.file_name().is_some_and(is_launcher_name));
    programs
}

fn is_launcher_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "prte", "prun", "hydra"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn parent_of(id: u32) -> Option<u32> {
    parent_in_status(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Returns the parent in the text of `/proc/ID/stat`: "12 (name) S 34 ...". The name may contain
/// parentheses and spaces.
fn parent_in_status(text: &str) -> Option<u32> {
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns `mpiexec` and `mpirun` in the folders of `path`, with their symbolic links and without.
fn programs_in_path(path: Option<&OsStr>) -> Vec<PathBuf> {
    let folders = path.into_iter().flat_map(std::env::split_paths);
    let programs = folders.flat_map(|folder| ["mpiexec", "mpirun"].map(|name| folder.join(name)));
    let existing = programs.filter(|program| program.is_file());
    let with_target = |program: PathBuf| [program.canonicalize().ok(), Some(program)];
    existing.flat_map(with_target).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_follows_the_name_of_the_program() {
        assert_eq!(parent_in_status("12 (mpirun) S 34 12 12 0"), Some(34));
        assert_eq!(parent_in_status("12 (a) b (c) S 7 12"), Some(7));
        assert_eq!(parent_in_status(""), None);
        #[cfg(target_os = "linux")]
        assert_eq!(parent_of(std::process::id()), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn libraries_beside_the_launcher_precede_the_search_path() {
        let folder = std::env::temp_dir().join(format!("orrery-mpi-search-{}", std::process::id()));
        let (programs, libraries) = (folder.join("bin"), folder.join("lib"));
        std::fs::create_dir_all(&programs).unwrap();
        std::fs::create_dir_all(&libraries).unwrap();
        for name in [names::OPEN_MPI, names::MPICH, names::STANDARD] {
            std::fs::write(libraries.join(name), "").unwrap();
        }
        std::fs::write(programs.join("mpiexec"), "").unwrap();
        let found = programs_in_path(Some(programs.as_os_str()));
        assert!(found.contains(&programs.join("mpiexec")), "{found:?}");
        let folders = library_folders(&[programs.join("mpiexec")]);
        let paths = candidates(LauncherKind::Pmi, &folders);
        let expected = [
            libraries.join(names::MPICH),
            libraries.join(names::STANDARD),
            PathBuf::from(names::MPICH),
            PathBuf::from(names::DEBIAN_MPICH),
            PathBuf::from(names::STANDARD),
        ];
        assert_eq!(paths, expected);
        assert_eq!(candidates(LauncherKind::OpenMpi, &folders)[0], libraries.join(names::OPEN_MPI));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_message_of_a_missing_library_is_its_name() {
        if cfg!(target_os = "linux") {
            let missing = open(Path::new("libmpi-missing.so.1")).err().unwrap();
            assert_eq!(shortened(missing), "libmpi-missing.so.1");
        }
        let other = "libmpi.so.40: undefined symbol: opal";
        assert_eq!(shortened(other.to_owned()), other);
    }

    #[test]
    fn launchers_are_recognised_by_name() {
        for name in ["mpirun", "mpiexec.hydra", "orterun", "orted", "prted", "hydra_pmi_proxy"] {
            assert!(is_launcher_name(OsStr::new(name)), "{name}");
        }
        for name in ["bash", "python3.11", "slurmstepd", "cargo"] {
            assert!(!is_launcher_name(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_with_its_name() {
        let message = open(Path::new("/nonexistent/libmpi.so.40")).err().unwrap();
        assert!(message.contains("/nonexistent/libmpi.so.40"), "{message}");
        assert!(!message.contains('\n'));
    }
}
