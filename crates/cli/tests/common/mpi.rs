//! Launchers of MPI.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// An installation of MPI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mpi {
    /// Package openmpi-bin of Debian.
    OpenMpi,
    /// Package mpich of PyPI.
    Mpich,
}

pub const INSTALLATIONS: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

impl Mpi {
    /// Returns the launcher. Without it the tests are skipped, except in `cargo xtask test`, which
    /// installs it.
    fn launcher(self) -> Option<PathBuf> {
        let python = std::env::var_os("ORRERY_PYTHON").map(PathBuf::from);
        let launcher = match self {
            Self::OpenMpi => {
                let is_open_mpi = |name: &&str| {
                    let output = Command::new(name).arg("--version").output();
                    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
                };
                ["mpirun.openmpi", "mpirun"].into_iter().find(is_open_mpi).map(PathBuf::from)
            }
            Self::Mpich => {
                let path = python.as_ref().and_then(|python| Some(python.parent()?.join("mpiexec")));
                path.filter(|path| path.exists())
            }
        };
        if launcher.is_none() {
            let message = format!("{self:?} is missing; `cargo xtask test` installs it");
            assert!(python.is_none(), "{message}");
            println!("skipped: {message}");
        }
        launcher
    }

    /// Returns the command that starts a program on `ranks` ranks, or `None` if this MPI is not
    /// installed. The variables are set for the ranks only.
    pub fn command<S: AsRef<OsStr>>(
        self,
        ranks: usize,
        arguments: impl IntoIterator<Item = S>,
        variables: &[(&str, &str)],
    ) -> Option<Command> {
        let mut command = Command::new(self.launcher()?);
        command.args(["-n", &ranks.to_string()]);
        if self == Self::OpenMpi {
            // More ranks than cores, and the user of a container. Binding to a core would make
            // ranks of tests that run at the same time share it.
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        command.arg("env").args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(env!("CARGO_BIN_EXE_orrery")).args(arguments);
        Some(command)
    }

    /// Variable with the number of a rank.
    pub fn rank_variable(self) -> &'static str {
        match self {
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Mpich => "PMI_RANK",
        }
    }
}
