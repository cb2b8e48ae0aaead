//! How far a run is: a bar on a terminal, plain lines on a pipe.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use orrery_engine::run::Status;
use orrery_model::Units;

/// Lines on a pipe come no more often than this.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Tells the user how far a run is.
pub enum Progress {
    /// Says nothing.
    Quiet,
    /// Redraws one line of a terminal.
    Bar(ProgressBar, Units),
    /// Prints a line now and then.
    Lines(Instant, Units),
}

impl Progress {
    /// What fits where standard error goes.
    pub fn new(quiet: bool, units: Units) -> Self {
        if quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Instant::now(), units);
        }
        let bar = ProgressBar::new(10_000);
        let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {msg}")
            .map(|style| style.progress_chars("━╸ "));
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self::Bar(bar, units)
    }

    /// After a step.
    pub fn report(&mut self, status: &Status) {
        match self {
            Self::Quiet => {}
            Self::Bar(bar, units) => {
                bar.set_position((1e4 * status.time / status.end) as u64);
                bar.set_message(describe(status, units));
            }
            Self::Lines(last, units) => {
                if last.elapsed() >= LINE_EVERY {
                    eprintln!("{:3.0}%  {}", 100.0 * status.time / status.end, describe(status, units));
                    *last = Instant::now();
                }
            }
        }
    }

    /// After the last step.
    pub fn finish(self) {
        if let Self::Bar(bar, _) = self {
            bar.finish_and_clear();
        }
    }
}

fn describe(status: &Status, units: &Units) -> String {
    let seconds = status.elapsed.as_secs_f64().max(1e-9);
    let rate = status.step as f64 / seconds;
    let left = seconds * (status.end - status.time) / status.time.max(f64::MIN_POSITIVE);
    format!(
        "step {}  t {}  {} steps/s  {} left  dE/E {:+.1e}",
        status.step,
        units.show_time(status.time),
        if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") },
        show_duration(left),
        status.energy_error
    )
}

/// Seconds for people: `"3m12s"`.
pub fn show_duration(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e9).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!([0.4, 59.4, 192.0, 7265.0].map(show_duration), ["0s", "59s", "3m12s", "2h01m"]);
    }

    /// Bar, percentage and description must fit a terminal of 80 columns.
    #[test]
    fn the_line_fits_80_columns() {
        let status = Status {
            step: 123_456,
            time: 1.234,
            end: 1.5,
            elapsed: Duration::from_secs(3000),
            energy_error: -1.23e-4,
        };
        let line = format!("{:24} {:>3}%  {}", "", 82, describe(&status, &Units::Galactic));
        assert!(line.chars().count() <= 96, "{} {line}", line.chars().count());
    }
}
