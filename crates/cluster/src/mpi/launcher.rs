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
//! count only in a step of several tasks, which srun creates, and only if no other launcher set its
//! variables. A step of one task may be an interactive shell, where MPI need not work.
//!
//! With `ORRERY_MPI=off` there is no launcher: each process computes alone.

use crate::error::ClusterError;
use crate::process::MPI_SWITCH;

/// A program that started this process, perhaps together with others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launcher {
    pub(crate) kind: LauncherKind,
    /// Number of processes.
    pub(crate) size: Option<usize>,
    /// Variable with the number of processes, or with the number of this one.
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
    /// Returns advice for a library that finds too few processes.
    pub(crate) fn size_advice(self) -> &'static str {
        match self {
            // Without PMI, each process of srun is alone with the right library, too.
            Self::Slurm | Self::Pmi => {
                "set ORRERY_MPI_LIBRARY to the libmpi of this launcher, or start with srun --mpi=pmix (Open MPI) or \
                 --mpi=pmi2 (MPICH)"
            }
            Self::OpenMpi | Self::Pmix => "set ORRERY_MPI_LIBRARY to the libmpi of this launcher",
        }
    }

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
    pub(crate) fn of_process() -> Result<Option<Self>, ClusterError> {
        let variable = |name: &str| std::env::var(name).ok();
        match variable(MPI_SWITCH).as_deref() {
            None | Some("") => Ok(Self::from_variables(variable)),
            Some("off") => Ok(None),
            Some(value) => Err(ClusterError::Switch { value: value.to_owned() }),
        }
    }

    /// Returns the number of processes that the launcher started at least.
    pub(crate) fn least_size(&self) -> Option<usize> {
        self.size.or(self.rank.map(|rank| rank + 1))
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
        // There is no variable with the number of processes.
        let pmix = || Self { size: None, ..launcher(LauncherKind::Pmix, "PMIX_RANK", "PMIX_RANK") };
        if is_set("OMPI_COMM_WORLD_SIZE") {
            Some(launcher(LauncherKind::OpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
        } else if is_set("PMI_SIZE") {
            Some(launcher(LauncherKind::Pmi, "PMI_SIZE", "PMI_RANK"))
        } else if is_set("SLURM_STEP_ID") && (is_set("SLURM_STEP_NUM_TASKS") || is_set("SLURM_NTASKS")) {
            let has_step_size = is_set("SLURM_STEP_NUM_TASKS");
            let size_variable = if has_step_size { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
            let step = launcher(LauncherKind::Slurm, size_variable, "SLURM_PROCID");
            // prun in a step of one task, whose namespace is not that of Slurm.
            let is_in_pmix = variable("PMIX_NAMESPACE").is_some_and(|name| !name.starts_with("slurm"));
            if step.size != Some(1) { Some(step) } else { (is_in_pmix && is_set("PMIX_RANK")).then(pmix) }
        } else if is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK") {
            Some(pmix())
        } else {
            None
        }
    }
}

/// Returns the number of processes of a launcher on this computer. Slurm lists them for each node,
/// for example `4(x2),3`: then the first number, which is the largest unless the user asked for an
/// arbitrary distribution.
pub(crate) fn local_processes(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"];
    let text = names.into_iter().find_map(variable)?;
    let digits = text.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
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
        assert_eq!(launcher_with(&step), None);
        let own = [&step[..], &[("PMIX_NAMESPACE", "slurm.pmix.7.0"), ("PMIX_RANK", "0")]].concat();
        assert_eq!(launcher_with(&own), None);
        let prun = [&step[..], &[("PMIX_NAMESPACE", "prterun-1"), ("PMIX_RANK", "3")]].concat();
        assert_eq!(kind_and_numbers(&prun), Some((LauncherKind::Pmix, None, Some(3))));
        // mpirun -n 2 in a step with eight tasks.
        let mpirun = [("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "8"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(kind_and_numbers(&mpirun), Some((LauncherKind::OpenMpi, Some(2), None)));
    }

    /// With a library that finds only one process, the second one would compute alone.
    #[test]
    fn the_rank_of_a_process_is_below_the_size() {
        let variables = [("PMIX_NAMESPACE", "prterun-1"), ("PMIX_RANK", "1")];
        assert_eq!(launcher_with(&variables).unwrap().least_size(), Some(2));
        let variables = [("PMI_SIZE", "4"), ("PMI_RANK", "1")];
        assert_eq!(launcher_with(&variables).unwrap().least_size(), Some(4));
    }

    #[test]
    fn launchers_report_the_processes_on_a_computer() {
        for (name, value, expected) in [
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4", Some(4)),
            ("MPI_LOCALNRANKS", "2", Some(2)),
            ("SLURM_STEP_TASKS_PER_NODE", "4(x2),3", Some(4)),
            ("SLURM_STEP_TASKS_PER_NODE", "", None),
            ("OTHER", "4", None),
        ] {
            let variable = |other: &str| (other == name).then(|| value.to_owned());
            assert_eq!(local_processes(variable), expected, "{name}={value}");
        }
    }

    #[test]
    fn a_size_that_is_not_a_number_is_unknown() {
        assert_eq!(kind_and_numbers(&[("PMI_SIZE", "many")]), Some((LauncherKind::Pmi, None, None)));
    }
}
