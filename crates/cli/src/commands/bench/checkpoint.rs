//! `bench checkpoint`: what a checkpoint costs, against writing its bytes once.
//!
//! Both are brought to the disk and renamed into place, one after the other in turn, so that a disk that
//! slows down slows both. The bytes of the plain file are ready in memory; the checkpoint's are gathered from
//! the columns and hashed on the way.

use std::path::Path;
use std::time::Instant;

use orrery_engine::checkpoint;
use orrery_io::{write_checkpoint, write_file_atomically};
use orrery_model::ic::Plummer;
use orrery_particles::bodies::Bodies;
use orrery_particles::settings::{Acceptance, GravitySettings, Precision, SolverChoice};
use serde_json::{Value, json};

use super::{cpu_name, repeats, sizes};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::say::say;

/// What the checkpoints of a run are written every so many seconds by default.
const INTERVAL: f64 = 600.0;

/// Measures in the present folder, and leaves nothing there.
pub fn bench(arguments: &BenchArgs) -> Result<Value, Failure> {
    say!("{}; both synced and renamed, in the present directory", cpu_name());
    say!("median of {} (fastest to slowest)", repeats(arguments));
    say!("");
    say!("{:>9} {:>10} {:>26} {:>26} {:>6}", "bodies", "bytes", "plain write, s", "checkpoint, s", "ratio");
    let results: Result<Vec<Value>, Failure> =
        sizes(arguments, &[1_000_000]).into_iter().map(|n| measure(arguments, n)).collect();
    Ok(json!(results?))
}

fn measure(arguments: &BenchArgs, n: usize) -> Result<Value, Failure> {
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
    let species = checkpoint::species_column(&bodies)?;
    let columns = checkpoint::columns(&bodies, &species)?;
    let (path, plain) = (Path::new("bench-checkpoint.tmp"), Path::new("bench-plain.tmp"));
    let failed = |e| Failure::Output(e);
    let removed = || [path, plain].into_iter().for_each(|path| drop(std::fs::remove_file(path)));
    let attempt = || {
        write_checkpoint(path, "{}", &columns).map_err(failed)?;
        let bytes = std::fs::read(path).map_err(|e| failed(orrery_io::IoError::from_system(path, e)))?;
        let (mut plainly, mut checkpoints) = (Vec::new(), Vec::new());
        for _ in 0..repeats(arguments) {
            let began = Instant::now();
            write_file_atomically(plain, &bytes).map_err(failed)?;
            plainly.push(began.elapsed().as_secs_f64());
            let began = Instant::now();
            write_checkpoint(path, "{}", &columns).map_err(failed)?;
            checkpoints.push(began.elapsed().as_secs_f64());
        }
        Ok((bytes.len(), plainly, checkpoints))
    };
    let outcome: Result<_, Failure> = attempt();
    removed();
    let (bytes, mut plainly, mut checkpoints) = outcome?;
    plainly.sort_by(f64::total_cmp);
    checkpoints.sort_by(f64::total_cmp);
    let median = |seconds: &[f64]| seconds[seconds.len() / 2];
    let show = |seconds: &[f64]| {
        format!("{:.4} ({:.4} to {:.4})", median(seconds), seconds[0], seconds[seconds.len() - 1])
    };
    let ratio = median(&checkpoints) / median(&plainly);
    say!("{n:>9} {bytes:>10} {:>26} {:>26} {ratio:>6.2}", show(&plainly), show(&checkpoints));
    say!("one every 10 min takes {:.3}% of a run", 100.0 * median(&checkpoints) / INTERVAL);
    Ok(json!({
        "case": "checkpoint", "n": n, "bytes": bytes, "repeats": repeats(arguments),
        "plain_seconds": median(&plainly), "plain_fastest": plainly[0],
        "seconds": median(&checkpoints), "fastest": checkpoints[0], "ratio": ratio,
    }))
}
