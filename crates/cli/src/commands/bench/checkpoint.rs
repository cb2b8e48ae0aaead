//! `bench checkpoint`: time to write a checkpoint, compared with a plain write of the same bytes.
//!
//! Both files are synced and renamed. The two writes alternate, so that a disk that slows down
//! slows both. The bytes of the plain file are already in memory. Those of the checkpoint are
//! gathered from the columns and hashed during the write.

use std::path::Path;
use std::time::Instant;

use orrery_engine::gravity::state_columns;
use orrery_formats::{write_checkpoint, write_file_atomically};
use orrery_gravity::bodies::Bodies;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_model::Precision;
use orrery_model::ic::Plummer;
use serde_json::{Value, json};

use super::{cpu_name, repeat_count, selected_sizes};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Default time between two checkpoints of a run, in seconds.
const INTERVAL_SECS: f64 = 600.0;

/// Measures in the current directory and removes the files afterwards.
pub fn bench_checkpoint(arguments: &BenchArgs) -> Result<Value, Failure> {
    print_line!("{}; files in the current directory, synced and renamed", cpu_name());
    print_line!("median of {} (fastest to slowest)", repeat_count(arguments));
    print_line!("");
    print_line!(
        "{:>9} {:>10} {:>26} {:>26} {:>6}",
        "bodies",
        "bytes",
        "plain write, s",
        "checkpoint, s",
        "ratio"
    );
    let results: Result<Vec<Value>, Failure> =
        selected_sizes(arguments, &[1_000_000]).into_iter().map(|n| measure_size(arguments, n)).collect();
    Ok(json!(results?))
}

fn measure_size(arguments: &BenchArgs, n: usize) -> Result<Value, Failure> {
    let particles = Plummer { n, seed: 1, ..Plummer::default() }.generate(1.0);
    let particles = particles.map_err(|e| Failure::Usage(format!("-n {n}: {e}")))?;
    let settings = GravitySettings {
        g: 1.0,
        eps: 0.01,
        solver: SolverChoice::Tree,
        acceptance: Acceptance::Geometric { theta: 0.8 },
        precision: Precision::Single,
    };
    let bodies = Bodies::new(particles, &settings, None)?;
    let columns = state_columns(&bodies)?;
    let columns: Vec<_> = columns.iter().map(|column| (column.name, column.values.as_column())).collect();
    // The process id keeps a user's file from being replaced.
    let [path, plain] =
        ["checkpoint", "plain"].map(|kind| format!("bench-{kind}-{}.tmp", std::process::id()));
    let (path, plain) = (Path::new(&path), Path::new(&plain));
    let failed = |e| Failure::Output(e);
    let remove_files = || [path, plain].into_iter().for_each(|path| drop(std::fs::remove_file(path)));
    let time_writes = || {
        write_checkpoint(path, "{}", &columns).map_err(failed)?;
        let bytes = std::fs::read(path).map_err(|e| failed(orrery_formats::IoError::from_system(path, e)))?;
        let (mut plain_secs, mut checkpoint_secs) = (Vec::new(), Vec::new());
        for _ in 0..repeat_count(arguments) {
            let start = Instant::now();
            write_file_atomically(plain, &bytes).map_err(failed)?;
            plain_secs.push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            write_checkpoint(path, "{}", &columns).map_err(failed)?;
            checkpoint_secs.push(start.elapsed().as_secs_f64());
        }
        Ok((bytes.len(), plain_secs, checkpoint_secs))
    };
    let outcome: Result<_, Failure> = time_writes();
    remove_files();
    let (bytes, mut plain_secs, mut checkpoint_secs) = outcome?;
    plain_secs.sort_by(f64::total_cmp);
    checkpoint_secs.sort_by(f64::total_cmp);
    let median = |seconds: &[f64]| seconds[seconds.len() / 2];
    let format_range = |seconds: &[f64]| {
        format!("{:.4} ({:.4} to {:.4})", median(seconds), seconds[0], seconds[seconds.len() - 1])
    };
    let ratio = median(&checkpoint_secs) / median(&plain_secs);
    print_line!(
        "{n:>9} {bytes:>10} {:>26} {:>26} {ratio:>6.2}",
        format_range(&plain_secs),
        format_range(&checkpoint_secs)
    );
    print_line!(
        "one checkpoint every 10 min takes {:.3}% of the run time",
        100.0 * median(&checkpoint_secs) / INTERVAL_SECS
    );
    Ok(json!({
        "case": "checkpoint", "n": n, "bytes": bytes, "repeats": repeat_count(arguments),
        "plain_seconds": median(&plain_secs), "plain_fastest": plain_secs[0],
        "seconds": median(&checkpoint_secs), "fastest": checkpoint_secs[0], "ratio": ratio,
    }))
}
