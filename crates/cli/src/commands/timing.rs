//! Times of a run: the table that `run` and `resume` print, and the JSON of `--timing`.

use orrery_engine::run::{Summary, WorkerTimes};
use orrery_lab::format::format_seconds;
use serde_json::{Value, json};

use crate::print::print_line;

/// Prints the time that each activity took.
pub fn print_times(summary: &Summary) {
    let (times, wall) = (&summary.times, summary.elapsed.as_secs_f64());
    let steps = summary.step - summary.from;
    let row = |name: &str, seconds: f64| {
        let share = 100.0 * seconds / wall.max(1e-9);
        print_line!("{name:<18} {:>12} {share:>7.1}%", format_seconds(seconds));
    };
    print_line!("");
    print_line!(
        "time               {:>12}   {:.1} steps/s",
        format_seconds(wall),
        steps as f64 / wall.max(1e-9)
    );
    let is_rare = |name: &str| name == "observers" || name == "storage wait";
    for (name, time) in times.activities() {
        if !time.is_zero() || !is_rare(name) {
            row(name, time.as_secs_f64());
        }
    }
    if let Some(forces) = times.forces.filter(|_| times.is_on_device) {
        row("device: forces", forces.as_secs_f64());
    }
    let WorkerTimes { prepare, commit } = times.workers;
    row("workers: drawing", prepare.as_secs_f64());
    row("workers: writing", commit.as_secs_f64());
    print_line!("before the run     {:>12}", format_seconds(times.startup.as_secs_f64()));
}

/// Returns the times of a run for `--timing`.
pub fn timing_json(summary: &Summary) -> Value {
    let (times, wall) = (&summary.times, summary.elapsed.as_secs_f64());
    let steps = summary.step - summary.from;
    let run_loop: serde_json::Map<String, Value> = times
        .activities()
        .into_iter()
        .map(|(name, time)| (name.replace(' ', "_"), json!(time.as_secs_f64())))
        .collect();
    json!({
        "name": summary.case.name,
        "steps": steps,
        "seconds": wall,
        "steps_per_second": steps as f64 / wall.max(1e-9),
        "run_loop": run_loop,
        "forces": times.forces.map(|time| time.as_secs_f64()),
        "is_on_device": times.is_on_device,
        "workers": {
            "prepare": times.workers.prepare.as_secs_f64(),
            "commit": times.workers.commit.as_secs_f64(),
        },
        "startup": times.startup.as_secs_f64(),
    })
}
