//! How far a run is: a bar on a terminal, plain lines on a pipe.

use std::fmt::Arguments;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use orrery_engine::control::{RunEvent, Status};
use orrery_model::Units;
use terminal_size::terminal_size_of;

use crate::say::{say, warn};

/// Lines on a pipe come no more often than this.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The bar is redrawn no more often than this.
const REDRAW_EVERY: Duration = Duration::from_millis(50);

/// The bar's columns on a terminal of at least as many as stand beside them.
const BARS: [(usize, usize); 2] = [(24, 100), (8, 0)];

/// Tells the user how far a run is.
pub struct Progress {
    manner: Manner,
    units: Units,
}

enum Manner {
    /// Says only what is wrong.
    Quiet,
    /// Redraws one line of a terminal, last at the given instant.
    Bar(ProgressBar, Option<Instant>),
    /// Prints a line now and then, last at the given instant.
    Lines(Instant),
}

impl Progress {
    /// What fits where standard error goes.
    pub fn new(quiet: bool) -> Self {
        let manner = if quiet {
            Manner::Quiet
        } else if !std::io::stderr().is_terminal() {
            Manner::Lines(Instant::now())
        } else {
            let line = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                line.set_style(style);
            }
            Manner::Bar(line, None)
        };
        Self { manner, units: Units::NBody }
    }

    /// Times are shown in these units.
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    /// Whatever a run tells.
    pub fn hear(&mut self, news: &RunEvent<'_>) {
        let quiet = matches!(self.manner, Manner::Quiet);
        match news {
            RunEvent::Step(status) => self.report(status),
            RunEvent::Device(selected) if !quiet => say!("device: {selected}"),
            RunEvent::Tuned(strategy) if !quiet => say!("tuned: {}", strategy.describe()),
            RunEvent::Device(_) | RunEvent::Tuned(_) => {}
            RunEvent::Resumed { case, .. } if quiet => self.units = case.units,
            RunEvent::Checkpoint { .. } if quiet => {}
            RunEvent::Resumed { case, path, step, time } => {
                self.units = case.units;
                let is_over = *time >= case.time.end;
                let what = if is_over { "at its end" } else { "going on" };
                let (name, time, path) = (&case.name, case.units.format_time(*time), path.display());
                self.note(format_args!("{name}: {what} after step {step}, t = {time}, from {path}"));
            }
            RunEvent::Checkpoint { path, step } => {
                self.note(format_args!("checkpoint after step {step}: {}", path.display()));
            }
            RunEvent::Damaged(error) => {
                self.note(format_args!("warning: passed over a damaged checkpoint: {error}"));
            }
            RunEvent::Moved { before, now } => self.note(format_args!(
                "warning: the checkpoint was written by {before}, this is {now}: the last bits may differ"
            )),
            RunEvent::BegunAnew(path) => self.note(format_args!(
                "warning: {}: begun anew; what was there is kept as .changed",
                path.display()
            )),
            RunEvent::Unwritten(error) => self.note(format_args!("warning: {error}")),
            RunEvent::Unlocked => self.note(format_args!(
                "warning: this file system has no locks: nothing keeps a second run out of the directory"
            )),
            RunEvent::Missing { path, count } => self.note(format_args!(
                "warning: {}: it and {} more that the run wrote are missing; only what follows is written",
                path.display(),
                count - 1
            )),
            RunEvent::Waiting { error, pause } => self.note(format_args!(
                "waiting: {error}; the next attempt is in {}",
                show_duration(pause.as_secs_f64())
            )),
            RunEvent::StorageIsBack => self.note(format_args!("written after all, going on")),
            RunEvent::EnergyError { step, error, limit } => self.note(format_args!(
                "warning: step {step}: the energy error is {error:.1e}, beyond {limit} ([limits] energy_error); \
                 a shorter step or a larger softening may help"
            )),
        }
    }

    /// A line that stays, above the bar where there is one.
    fn note(&self, text: Arguments<'_>) {
        match &self.manner {
            Manner::Bar(line, _) => line.suspend(|| warn(text)),
            Manner::Quiet | Manner::Lines(_) => warn(text),
        }
    }

    /// After a step.
    fn report(&mut self, status: &Status) {
        match &mut self.manner {
            Manner::Quiet => {}
            // Three bodies take a step in less time than a line takes to compose.
            Manner::Bar(_, Some(last)) if last.elapsed() < REDRAW_EVERY => {}
            Manner::Bar(line, last) => {
                *last = Some(Instant::now());
                let columns = terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0.into());
                line.set_message(bar_and_words(status, &self.units, columns));
                line.tick();
            }
            Manner::Lines(last) => {
                if last.elapsed() >= LINE_EVERY {
                    warn(format_args!("{}", words(status, &self.units, usize::MAX)));
                    *last = Instant::now();
                }
            }
        }
    }

    /// After the last step.
    pub fn finish(self) {
        if let Manner::Bar(line, _) = self.manner {
            line.finish_and_clear();
        }
    }
}

fn bar_and_words(status: &Status, units: &Units, columns: usize) -> String {
    let words = words(status, units, columns);
    let width = BARS.iter().find(|(_, terminal)| columns >= *terminal).map_or(0, |(width, _)| *width);
    if words.chars().count() + 1 + width > columns {
        return words;
    }
    let done = ((status.time / status.end * width as f64) as usize).min(width);
    format!("{}{} {words}", "━".repeat(done), " ".repeat(width - done))
}

/// Percentage, step, time, rate, time left and energy error; where columns are few, the less needed go.
fn words(status: &Status, units: &Units, columns: usize) -> String {
    let seconds = status.elapsed.as_secs_f64().max(1e-9);
    let rate = (status.step - status.from.0) as f64 / seconds;
    let left = seconds * (status.end - status.time) / (status.time - status.from.1).max(f64::MIN_POSITIVE);
    let mut parts = [
        format!("{:3.0}%", (100.0 * status.time / status.end).floor()),
        format!("  step {}", status.step),
        format!("  t {}", units.format_time(status.time)),
        if rate < 10.0 { format!("  {rate:.1} steps/s") } else { format!("  {rate:.0} steps/s") },
        format!("  {} left", show_duration(left)),
        format!("  dE/E {:+.1e}", status.energy_error),
    ];
    for least_needed in [3, 1, 5, 2, 4] {
        if parts.iter().map(|part| part.chars().count()).sum::<usize>() <= columns {
            break;
        }
        parts[least_needed].clear();
    }
    parts.concat()
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

    /// A long run's line fits, with a bar from 80 columns on, and loses the least needed words below.
    #[test]
    fn the_line_fits_the_terminal() {
        let status = Status {
            step: 1_234_567,
            time: 1.234,
            end: 1.5,
            from: (0, 0.0),
            elapsed: Duration::from_secs(30_000),
            energy_error: -1.23e-4,
        };
        let line = |columns| bar_and_words(&status, &Units::Galactic, columns);
        assert_eq!(
            line(100),
            "━━━━━━━━━━━━━━━━━━━       82%  step 1234567  t 1.207 Gyr  41 steps/s  1h47m left  dE/E -1.2e-4"
        );
        assert_eq!(
            line(80),
            "━━━━━━    82%  step 1234567  t 1.207 Gyr  41 steps/s  1h47m left  dE/E -1.2e-4"
        );
        assert_eq!(line(50), " 82%  t 1.207 Gyr  1h47m left  dE/E -1.2e-4");
        assert_eq!(line(10), " 82%");
        for columns in 4..200 {
            assert!(line(columns).chars().count() <= columns, "{columns}: {}", line(columns));
        }
    }
}
