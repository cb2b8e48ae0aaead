//! Times of a run: the table that `run` and `resume` print, and the JSON of `--timing`.

use orrery_engine::run::{RankTimes, Summary, WorkerTimes};
use orrery_measure::format::format_seconds;
use orrery_model::analysis::max_or_nan;
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
    print_rank_times(&summary.rank_times);
}

/// Largest number of ranks that have their own row.
const MAX_ROWS: usize = 16;

/// Prints the times of several ranks, and how evenly the work was divided.
fn print_rank_times(ranks: &[RankTimes]) {
    if ranks.is_empty() {
        return;
    }
    print_line!("");
    print_line!("{:<18} {:>12} {:>14} {:>12}", "", "computation", "communication", "waiting");
    let row = |name: String, times: [f64; 3]| {
        let [computation, communication, waiting] = times.map(format_seconds);
        print_line!("{name:<18} {computation:>12} {communication:>14} {waiting:>12}");
    };
    let seconds = |times: &RankTimes| {
        [times.computation, times.communication, times.waiting].map(|time| time.as_secs_f64())
    };
    if ranks.len() <= MAX_ROWS {
        for (rank, times) in ranks.iter().enumerate() {
            row(format!("rank {rank}"), seconds(times));
        }
    } else {
        let column = |k: usize| ranks.iter().map(move |times| seconds(times)[k]);
        let of_columns = |value: &dyn Fn(usize) -> f64| [0, 1, 2].map(value);
        row("smallest".to_owned(), of_columns(&|k| column(k).fold(f64::INFINITY, f64::min)));
        row("mean".to_owned(), of_columns(&|k| column(k).sum::<f64>() / ranks.len() as f64));
        row("largest".to_owned(), of_columns(&|k| column(k).fold(0.0, max_or_nan)));
    }
    print_line!("imbalance          {:>12.2}   largest computation / mean", imbalance(ranks));
}

/// Returns the largest computation time of a rank, divided by the mean.
fn imbalance(ranks: &[RankTimes]) -> f64 {
    let seconds = || ranks.iter().map(|times| times.computation.as_secs_f64());
    let mean = seconds().sum::<f64>() / ranks.len().max(1) as f64;
    seconds().fold(0.0, max_or_nan) / mean.max(1e-9)
}

fn rank_json(times: &RankTimes) -> Value {
    json!({
        "computation": times.computation.as_secs_f64(),
        "communication": times.communication.as_secs_f64(),
        "waiting": times.waiting.as_secs_f64(),
        "messages_sent": times.messages_sent,
        "bytes_sent": times.bytes_sent,
    })
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
        "ranks": summary.rank_times.iter().map(rank_json).collect::<Vec<_>>(),
        "imbalance": (!summary.rank_times.is_empty()).then(|| imbalance(&summary.rank_times)),
    })
}
