//! Ranks under Open MPI 4 and 5, MPICH and the standard ABI. `cargo xtask test` runs all sizes with
//! MPICH and one size with each of the others, `cargo xtask soak` all of them.

use orrery_device::testing::suite_cases;

use crate::common::{Installation, Launch, launch, mpich_library, run_alone};

fn assert_passed(launch: Option<Launch>, size: usize, version: &str) {
    let Some(launch) = launch else { return };
    assert_eq!(launch.status, Some(0), "{}", launch.text);
    let passed = launch.text.matches("passed: Transport(").count();
    assert_eq!((passed, launch.text.matches(version).count()), (size, size), "{}", launch.text);
}

/// Runs the conformance suite on these numbers of ranks, with and without divided messages.
fn check_conformance(installation: Installation, sizes: &[usize], version: &str) {
    for &size in sizes {
        let variables: &[_] = if size == 2 || size == 3 { &[("TEST_CHUNK_BYTES", "1000")] } else { &[] };
        assert_passed(launch(installation, size, "conformance", variables), size, version);
    }
}

#[test]
fn open_mpi_passes_the_conformance_suite() {
    check_conformance(Installation::OpenMpi, suite_cases(&[3, 1, 2, 4], 1), "Open MPI v");
}

#[test]
fn open_mpi_5_passes_the_conformance_suite() {
    check_conformance(Installation::OpenMpi5, suite_cases(&[4, 3], 1), "Open MPI v5");
}

#[test]
fn mpich_passes_the_conformance_suite() {
    check_conformance(Installation::Mpich, &[1, 2, 3, 4], "libmpi.so.12");
}

#[test]
fn the_standard_abi_passes_the_conformance_suite() {
    check_conformance(Installation::StandardAbi, suite_cases(&[3, 4], 1), "libmpi_abi.so.1");
}

/// The counts of MPI have 32 bits, so this message is divided. The suite divides messages of 1,000
/// bytes.
#[test]
fn messages_above_2_gib_arrive() {
    let installations = [(Installation::OpenMpi, "Open MPI v"), (Installation::Mpich, "libmpi.so.12")];
    for &(installation, version) in suite_cases(&installations, 0) {
        assert_passed(launch(installation, 2, "huge_message", &[]), 2, version);
    }
}

/// Checks that a failure ended all ranks, with its message once. The other ranks would sleep for 50
/// s and print `was not ended`.
fn assert_ended(launch: Option<Launch>, message: &str, status: Option<i32>) {
    let Some(launch) = launch else { return };
    assert_eq!(launch.count(message), 1, "{}", launch.text);
    assert_eq!(launch.count("was not ended"), 0, "{}", launch.text);
    assert_ne!(launch.status, Some(0));
    if let Some(status) = status {
        assert_eq!(launch.status, Some(status), "{}", launch.text);
    }
}

#[test]
fn a_failure_of_one_rank_ends_all() {
    for installation in [Installation::OpenMpi, Installation::OpenMpi5, Installation::Mpich] {
        let launched = launch(installation, 3, "error_on_one_rank", &[]);
        assert_ended(launched, "error: rank 1 of 3: planned error", Some(7));
        assert_ended(launch(installation, 2, "panic_during_exchange", &[]), "planned panic", None);
    }
}

#[test]
fn an_error_of_all_ranks_is_printed_once() {
    for installation in [Installation::OpenMpi, Installation::Mpich] {
        let launched = launch(installation, 4, "error_on_all_ranks", &[]);
        assert_ended(launched, "planned error", Some(7));
    }
}

/// With the library of another launcher, every process would be alone.
#[test]
fn the_library_of_another_launcher_is_refused() {
    let check = |installation, library: &str, messages: &[&str]| {
        let launched = launch(installation, 2, "print_transport", &[("ORRERY_MPI_LIBRARY", library)]);
        let Some(launch) = launched else { return };
        for message in messages {
            assert!(launch.text.contains(message), "{message}: {}", launch.text);
        }
        assert_eq!(launch.text.matches("Transport(").count(), 0, "{}", launch.text);
        assert_ne!(launch.status, Some(0));
    };
    let Some(mpich) = mpich_library() else { return };
    let messages = ["error: mpirun of Open MPI started this process, but ", "libmpi.so.12 is MPICH 5"];
    check(Installation::OpenMpi, mpich.to_str().unwrap(), &messages);
    let messages = [
        "error: mpiexec or srun started 2 processes (PMI_SIZE), but ",
        "finds 1, so each would compute alone; ",
    ];
    check(Installation::Mpich, "libmpi.so.40", &messages);
}

#[test]
fn without_a_launcher_mpi_is_not_loaded() {
    let launch = run_alone("print_transport", &[("ORRERY_MPI_LIBRARY", "/nonexistent")]);
    assert_eq!(launch.status, Some(0), "{}", launch.text);
    assert_eq!(launch.count("Transport(rank 0 of 1, threads), mpi loaded: false"), 1, "{}", launch.text);
}

/// An interactive shell of Slurm, and a process of several whose user wants no MPI.
#[test]
fn single_tasks_and_processes_with_the_switch_are_alone() {
    let wrong_library = ("ORRERY_MPI_LIBRARY", "/nonexistent");
    let shell = [("SLURM_STEP_ID", "4294967290"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NTASKS", "8")];
    let off = [("PMI_SIZE", "4"), ("PMI_RANK", "1"), ("ORRERY_MPI", "off")];
    for variables in [shell, off] {
        let launch = run_alone("print_transport", &[&variables[..], &[wrong_library]].concat());
        assert_eq!(launch.status, Some(0), "{}", launch.text);
        let expected = "Transport(rank 0 of 1, threads), mpi loaded: false";
        assert_eq!(launch.count(expected), 1, "{}", launch.text);
    }
    let launch = run_alone("print_transport", &[("ORRERY_MPI", "no")]);
    assert_eq!(launch.count("error: ORRERY_MPI=no: expected off, or no such variable"), 1, "{}", launch.text);
}

/// Variables of srun with a library that has no connection to it, as with `--mpi=none`. MPICH then
/// finds one process.
#[test]
fn a_library_that_finds_too_few_processes_is_refused() {
    let Some(library) = mpich_library() else { return };
    let library = ("ORRERY_MPI_LIBRARY", library.to_str().unwrap());
    let step = [("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), library];
    let launch = run_alone("print_transport", &step);
    assert_eq!(launch.count("error: srun started 4 processes (SLURM_NTASKS), but "), 1, "{}", launch.text);
    assert_eq!(launch.status, Some(2), "{}", launch.text);
}

#[test]
fn a_launcher_without_a_library_is_an_error_for_several_processes() {
    let named = [("PMI_SIZE", "4"), ("PMI_RANK", "0"), ("ORRERY_MPI_LIBRARY", "/nonexistent/libmpi.so")];
    let launch = run_alone("print_transport", &named);
    assert_eq!(launch.count("error: ORRERY_MPI_LIBRARY=/nonexistent/libmpi.so: "), 1, "{}", launch.text);
    assert_eq!(launch.status, Some(2));
    // If there is a library of MPICH, it finds no other process. Otherwise there is none to load.
    let launch = run_alone("print_transport", &[("PMI_SIZE", "4"), ("PMI_RANK", "0")]);
    assert_eq!(launch.count("error: mpiexec or srun started 4 processes"), 1, "{}", launch.text);
    assert_eq!(launch.status, Some(2));
    let no_mpi = run_alone("print_transport", &[("ORRERY_MPI_LIBRARY", "libm.so.6"), ("PMI_SIZE", "2")]);
    assert_eq!(no_mpi.count("MPI_Init_thread is missing, so this is no MPI library"), 1, "{}", no_mpi.text);
}
