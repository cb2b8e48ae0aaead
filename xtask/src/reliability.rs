//! `cargo xtask reliability`: the full versions of the fault tests in docs/reliability.md.

use std::path::Path;

use crate::report::{Report, StageFailure};
use crate::shell::{CommandLine, Failure};

/// Fuzz targets, each with additional folders of seed inputs.
const FUZZ_TARGETS: [(&str, &[&str]); 13] = [
    ("snapshot_hdf5", &["../crates/formats/tests/data", "../crates/formats/tests/hostile"]),
    ("snapshot_gadget", &[]),
    ("snapshot_xyz", &[]),
    ("snapshot_npz", &[]),
    ("field_npy", &[]),
    ("field_vti", &[]),
    ("field_png", &[]),
    ("segy", &[]),
    ("fluid_gsd", &[]),
    ("fluid_xyz", &[]),
    ("fluid_lammps", &[]),
    ("case", &[]),
    ("checkpoint", &[]),
];

/// Runs all stages. Each test prints the figures that docs/reliability.md quotes.
pub fn run_fault_tests(root: &Path, report: &mut Report) -> Result<(), StageFailure> {
    let cargo = |text: &str| CommandLine::new(text).in_folder(root);
    report.run_stage("build", || cargo("cargo build --release --workspace --bins --tests").run())?;
    report.run_stage("faults", || {
        let options = "--ignored --nocapture --test-threads 1";
        cargo(&format!("cargo test --release -p orrery --test integration fault:: -- {options}")).run()
    })?;
    report.run_stage("damage", || {
        cargo("cargo test --release -p orrery-engine --test integration -- golden:: resume::").run()
    })?;
    report.run_stage("hostile", || {
        cargo("cargo test --release -p orrery-formats --test integration hostile:: -- --nocapture").run()
    })?;
    report.run_stage("determinism", || {
        cargo("cargo test --release -p orrery-validation --test integration determinism::").run()
    })?;
    report.run_stage("checkpoint", || {
        cargo("cargo run --release --bin orrery -- bench checkpoint --repeats 15").run()
    })?;
    report.run_stage("fuzz", || fuzz_readers(&root.join("fuzz")))
}

/// Fuzzes each reader for 60 s. Without cargo-fuzz it prints a message and succeeds.
fn fuzz_readers(folder: &Path) -> Result<(), Failure> {
    if !CommandLine::new("cargo +nightly fuzz --version").succeeds() {
        println!("skipped: needs a nightly toolchain and cargo-fuzz (cargo install cargo-fuzz)");
        return Ok(());
    }
    FUZZ_TARGETS.iter().try_for_each(|(target, seeds)| {
        // libFuzzer writes new inputs to the first folder.
        std::fs::create_dir_all(folder.join("corpus").join(target)).ok();
        let seeds = seeds.join(" ");
        let line = format!(
            "cargo +nightly fuzz run {target} corpus/{target} seeds/{target} {seeds} -- -max_total_time=60 \
             -rss_limit_mb=1024 -timeout=5 -print_final_stats=1"
        );
        CommandLine::new(&line).in_folder(folder).run()
    })
}
