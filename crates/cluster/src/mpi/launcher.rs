//! Launchers of MPI programs, found from the environment variables that they set.
//!
//! | launcher | variables |
//! |---|---|
//! | mpirun of Open MPI | `OMPI_COMM_WORLD_SIZE`, `OMPI_COMM_WORLD_RANK` |
//! | mpiexec of MPICH or Intel MPI, srun with `--mpi=pmi2` | `PMI_SIZE`, `PMI_RANK` |
//! | srun with `--mpi=pmix` or without MPI | `SLURM_STEP_ID`, `SLURM_NTASKS`, `SLURM_PROCID` |
//! | other launchers with PMIx, such as prun | `PMIX_NAMESPACE`, `PMIX_RANK` |
//!
//! The variables of Slurm are also set in its batch scripts, and mpirun inherits them there. They
//! count only in a step, which srun creates, and only if no other launcher set its variables.

/// A program that started this process, perhaps together with others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launcher {
    pub(crate) kind: LauncherKind,
    /// Number of processes.
    pub(crate) size: Option<usize>,
    /// Variable with the number of processes.
    pub(crate) size_variable: &'static str,
    /// Number of this process.
    pub(crate) rank: Option<usize>,
}

/// Kind of a launcher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LauncherKind {
    OpenMpi,
    Pmi,
    Slurm,
    Pmix,
}

impl LauncherKind {
    /// Returns a name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun of Open MPI",
            Self::Pmi => "mpiexec or srun",
            Self::Slurm => "srun",
            Self::Pmix => "a PMIx launcher",
        }
    }
}

impl Launcher {
    /// Returns the launcher of this process, or `None` if there is none.
    pub(crate) fn of_process() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse().ok();
        let launcher = |kind, size_variable: &'static str, rank_variable: &str| Self {
            kind,
            size: number(size_variable),
            size_variable,
            rank: number(rank_variable),
        };
        let is_set = |name: &str| variable(name).is_some();
        if is_set("OMPI_COMM_WORLD_SIZE") {
            Some(launcher(LauncherKind::OpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
        } else if is_set("PMI_SIZE") {
            Some(launcher(LauncherKind::Pmi, "PMI_SIZE", "PMI_RANK"))
        } else if is_set("SLURM_STEP_ID") && is_set("SLURM_STEP_NUM_TASKS") {
            Some(launcher(LauncherKind::Slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"))
        } else if is_set("SLURM_STEP_ID") && is_set("SLURM_NTASKS") {
            Some(launcher(LauncherKind::Slurm, "SLURM_NTASKS", "SLURM_PROCID"))
        } else if is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK") {
            Some(launcher(LauncherKind::Pmix, "", "PMIX_RANK"))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher_with(variables: &[(&str, &str)]) -> Option<Launcher> {
        let value = |name: &str| Some(variables.iter().find(|(other, _)| *other == name)?.1.to_owned());
        Launcher::from_variables(value)
    }

    fn kind_and_numbers(variables: &[(&str, &str)]) -> Option<(LauncherKind, Option<usize>, Option<usize>)> {
        launcher_with(variables).map(|launcher| (launcher.kind, launcher.size, launcher.rank))
    }

    #[test]
    fn launchers_are_found_by_their_variables() {
        let open_mpi = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMIX_RANK", "3")];
        assert_eq!(kind_and_numbers(&open_mpi), Some((LauncherKind::OpenMpi, Some(4), Some(3))));
        let hydra = [("PMI_SIZE", "2"), ("PMI_RANK", "0"), ("PMI_FD", "9")];
        assert_eq!(kind_and_numbers(&hydra), Some((LauncherKind::Pmi, Some(2), Some(0))));
        let srun = [("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_PROCID", "7")];
        assert_eq!(kind_and_numbers(&srun), Some((LauncherKind::Slurm, Some(8), Some(7))));
        let prun = [("PMIX_NAMESPACE", "prterun-1"), ("PMIX_RANK", "1")];
        assert_eq!(kind_and_numbers(&prun), Some((LauncherKind::Pmix, None, Some(1))));
    }

    #[test]
    fn variables_of_a_slurm_job_alone_are_no_launcher() {
        assert_eq!(launcher_with(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        // An interactive step of one task in a job with four.
        let step = [("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(kind_and_numbers(&step), Some((LauncherKind::Slurm, Some(1), None)));
        // mpirun -n 2 in a step with eight tasks.
        let mpirun = [("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "8"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(kind_and_numbers(&mpirun), Some((LauncherKind::OpenMpi, Some(2), None)));
    }

    #[test]
    fn a_size_that_is_not_a_number_is_unknown() {
        assert_eq!(kind_and_numbers(&[("PMI_SIZE", "many")]), Some((LauncherKind::Pmi, None, None)));
    }
}
