//! `cargo xtask reliability`: every fault of docs/reliability.md, in full.

use std::path::Path;

use crate::report::{Failed, Report};
use crate::shell::Line;

/// The fuzz targets, with folders of seeds besides their own.
const TARGETS: [(&str, &[&str]); 6] = [
    ("snapshot_hdf5", &["../crates/io/tests/data", "../crates/io/tests/hostile"]),
    ("snapshot_gadget", &[]),
    ("snapshot_xyz", &[]),
    ("snapshot_npz", &[]),
    ("case", &[]),
    ("checkpoint", &[]),
];

/// Runs the long versions; each test prints the figures that the page quotes.
pub fn run(root: &Path, report: &mut Report) -> Result<(), Failed> {
    let cargo = |text: &str| Line::new(text).in_folder(root);
    report.stage("build", || cargo("cargo build --release --workspace --bins --tests").run())?;
    report.stage("faults", || {
        cargo("cargo test --release -p orrery --test fault -- --ignored --nocapture --test-threads 1").run()
    })?;
    report.stage("damage", || {
        cargo("cargo test --release -p orrery-engine --test golden --test resume").run()
    })?;
    report.stage("hostile", || {
        cargo("cargo test --release -p orrery-io --test hostile -- --nocapture").run()
    })?;
    report.stage("determinism", || {
        cargo("cargo test --release -p orrery-validation --test determinism").run()
    })?;
    report.stage("checkpoint", || {
        cargo("cargo run --release --bin orrery -- bench checkpoint --repeats 15").run()
    })?;
    report.stage("fuzz", || {
        if !Line::new("cargo +nightly fuzz --version").succeeds() {
            println!("left out: it needs a nightly toolchain and cargo-fuzz (cargo install cargo-fuzz)");
            return Ok(());
        }
        let folder = root.join("fuzz");
        TARGETS.iter().try_for_each(|(target, seeds)| {
            // libFuzzer keeps what it finds in the first folder.
            std::fs::create_dir_all(folder.join("corpus").join(target)).ok();
            let seeds = seeds.join(" ");
            let line = format!(
                "cargo +nightly fuzz run {target} corpus/{target} seeds/{target} {seeds} -- -max_total_time=60 \
                 -rss_limit_mb=1024 -timeout=5 -print_final_stats=1"
            );
            Line::new(&line).in_folder(&folder).run()
        })
    })
}
