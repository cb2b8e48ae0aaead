//! `cargo xtask soak`: everything that is too long for the suite. The tests that read `ORRERY_SOAK`
//! with all repetitions and all installations of MPI, then `cargo xtask validate` and
//! `cargo xtask reliability`.

use std::path::Path;

use crate::report::{Report, StageFailure};
use crate::{prerequisites, python, reliability, run_validation, test_command};

/// Integration tests that run more with `ORRERY_SOAK`: names or parts of names.
const REPEATED: &str = "determinism:: fault:: mpi:: ranks:: bench_scaling:: devices:: initial_conditions::";

/// Runs all stages.
pub fn run_soak_tests(root: &Path, report: &mut Report) -> Result<(), StageFailure> {
    report.run_stage("prerequisites", || prerequisites::install_missing(root))?;
    report.run_stage("python", || python::set_up_environment(root))?;
    report.run_stage("repetitions", || {
        let tests = format!("cargo test --workspace --test integration -- {REPEATED}");
        test_command(root, &tests).with_env("ORRERY_SOAK", "1").run()
    })?;
    run_validation(root, report)?;
    reliability::run_fault_tests(root, report)
}
