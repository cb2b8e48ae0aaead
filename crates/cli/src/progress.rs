//! Progress of a run: a bar on a terminal, plain lines in a pipe or file.

use std::path::Path;
use std::time::{Duration, Instant};

use orrery_engine::EngineError;
use orrery_engine::control::{RunEvent, Status};
use orrery_model::Units;

use crate::clean::clean_line;
use crate::commands::shell_quoted;
use crate::events::{Importance, describe};
use crate::failure::Failure;
use crate::log;
use crate::print::{eprint_line, print_detail, print_line};
use crate::terminal_line::{TerminalLine, can_redraw, terminal_columns, write_stderr};

/// Minimum time between two progress lines in a pipe or file.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Minimum time between two progress lines in `run.log`.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Minimum time between two updates of the bar.
const REDRAW_EVERY: Duration = Duration::from_millis(50);

/// Widths of the bar, each with the smallest terminal width that it is used for, in columns.
const BAR_WIDTHS: [(usize, usize); 2] = [(24, 100), (8, 0)];

/// Reports the progress and the events of a run to the user.
pub struct Progress {
    mode: Mode,
    units: Units,
    /// Directory of the run. Without other output, it names the run in every warning.
    run: String,
    /// Time of the last line about progress in `run.log`.
    logged: Instant,
}

enum Mode {
    /// Prints warnings only.
    Quiet,
    /// Redraws one line of a terminal. The instant is that of the last update.
    Bar(TerminalLine, Option<Instant>),
    /// Prints a line from time to time. The instant is that of the last line.
    Lines(Instant),
}

impl Progress {
    /// Selects the mode that suits standard error: a bar for a terminal, else lines.
    pub fn new(quiet: bool) -> Self {
        let mode = if quiet {
            Mode::Quiet
        } else if can_redraw() {
            Mode::Bar(TerminalLine::new(), None)
        } else {
            Mode::Lines(Instant::now())
        };
        Self { mode, units: Units::NBody, run: String::new(), logged: Instant::now() }
    }

    /// Sets the directory of the run. With `--quiet`, it names the run in warnings: those of many
    /// runs of a batch can be in one file, and nothing else tells them apart.
    pub fn of_run(self, folder: &Path) -> Self {
        Self { run: shell_quoted(folder), ..self }
    }

    /// Sets the units in which times are printed.
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    /// Prints an event of the run.
    pub fn print_event(&mut self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Step(status) => {
                let units = self.units;
                self.print_status(
                    || status_text(status, &units, usize::MAX),
                    || bar_line(status, &units, terminal_columns()),
                );
            }
            // Messages about the setup follow on standard output.
            RunEvent::Minimised(_) => {
                if let Mode::Bar(line, _) = &mut self.mode {
                    *line = TerminalLine::new();
                }
            }
            RunEvent::Minimising(status) => {
                let text = || format!("minimising  step {}  {status}", status.state.steps);
                self.print_status(text, || text().chars().take(terminal_columns()).collect());
            }
            RunEvent::Ready { folder, .. } => log::open(folder),
            RunEvent::Resumed { case, .. } => self.units = case.units,
            _ => {}
        }
        let Some((importance, text)) = describe(event) else { return };
        match importance {
            // The description of the setup has several lines.
            Importance::Detail if matches!(event, RunEvent::Ready { .. }) => {
                text.lines().for_each(|line| print_detail!("{line}"));
            }
            Importance::Detail => print_detail!("{text}"),
            Importance::Text => print_line!("{text}"),
            Importance::Notice if matches!(self.mode, Mode::Quiet) => log::write(&clean_line(&text)),
            Importance::Notice | Importance::Warning => match &self.mode {
                Mode::Bar(line, _) => line.print_above(format_args!("{text}")),
                Mode::Lines(_) => eprint_line!("{text}"),
                Mode::Quiet => eprint_line!("{}", self.named(&text)),
            },
        }
    }

    /// Adds the directory of the run to a warning, such as `warning: out/plummer: step 5: ...`,
    /// unless it names the directory or a file there.
    fn named(&self, text: &str) -> String {
        let run = self.run.trim_end_matches('/');
        let rest = ["warning: ", "waiting: "].iter().find_map(|start| text.strip_prefix(start));
        let is_after_run =
            rest.unwrap_or(text).strip_prefix(run).is_some_and(|end| end.starts_with([':', '/']));
        // The directory "10" is not named by "step 10: ...".
        if is_after_run || text.contains(&format!(" {run}/")) {
            return text.to_owned();
        }
        match text.strip_prefix("warning: ") {
            Some(warning) => format!("warning: {}: {warning}", self.run),
            None => format!("{}: {text}", self.run),
        }
    }

    /// Updates the bar, or prints a line, after a step. `text` returns the line, and `bar` the line
    /// of a terminal.
    fn print_status(&mut self, text: impl Fn() -> String, bar: impl Fn() -> String) {
        if self.logged.elapsed() >= LOG_EVERY {
            log::write(&text());
            self.logged = Instant::now();
        }
        match &mut self.mode {
            Mode::Quiet => {}
            // A step of three bodies takes less time than an update of the bar.
            Mode::Bar(_, Some(last)) if last.elapsed() < REDRAW_EVERY => {}
            Mode::Bar(line, last) => {
                *last = Some(Instant::now());
                line.draw(&bar());
            }
            Mode::Lines(last) => {
                if last.elapsed() >= LINE_EVERY {
                    write_stderr(&format!("{}\n", text()));
                    *last = Instant::now();
                }
            }
        }
    }

    /// Removes the bar after the last step.
    pub fn finish(self) {
        drop(self.mode);
    }
}

/// Names the directory of the run in an error of a step, which names no file. In a batch nothing
/// else tells the runs apart.
pub fn name_run(error: EngineError, folder: &Path) -> Failure {
    match error.is_of_step() {
        true => Failure::Run { run: shell_quoted(folder), source: Box::new(error) },
        false => error.into(),
    }
}

/// Returns the bar and the status text, or only the text if both do not fit into `columns`.
fn bar_line(status: &Status, units: &Units, columns: usize) -> String {
    let text = status_text(status, units, columns);
    let width = BAR_WIDTHS.iter().find(|(_, terminal)| columns >= *terminal).map_or(0, |(width, _)| *width);
    if text.chars().count() + 1 + width > columns {
        return text;
    }
    let done = ((fraction_done(status) * width as f64) as usize).min(width);
    format!("{}{} {text}", "━".repeat(done), " ".repeat(width - done))
}

fn fraction_done(status: &Status) -> f64 {
    (status.time - status.start) / (status.end - status.start)
}

/// Returns percentage, step, time, rate, remaining time and the error of the run. Omits the less
/// important parts if there are fewer `columns`.
fn status_text(status: &Status, units: &Units, columns: usize) -> String {
    let seconds = status.elapsed.as_secs_f64().max(1e-9);
    let rate = (status.step - status.from.0) as f64 / seconds;
    let left = seconds * (status.end - status.time) / (status.time - status.from.1).max(f64::MIN_POSITIVE);
    let mut parts = [
        format!("{:3.0}%", (100.0 * fraction_done(status)).floor()),
        format!("  step {}", status.step),
        format!("  t {}", units.format_time(status.time)),
        if rate < 10.0 { format!("  {rate:.1} steps/s") } else { format!("  {rate:.0} steps/s") },
        format!("  {} left", format_duration(left)),
        status.drift.map_or_else(String::new, |(symbol, error)| format!("  {symbol} {error:+.1e}")),
    ];
    // Rate, step, error, time and remaining time, in the order in which they are omitted.
    for least_important in [3, 1, 5, 2, 4] {
        if parts.iter().map(|part| part.chars().count()).sum::<usize>() <= columns {
            break;
        }
        parts[least_important].clear();
    }
    parts.concat()
}

/// Formats seconds for people, such as `3m12s` or `2h01m`.
pub fn format_duration(seconds: f64) -> String {
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
    fn durations_are_formatted_with_two_units() {
        assert_eq!([0.4, 59.4, 192.0, 7265.0].map(format_duration), ["0s", "59s", "3m12s", "2h01m"]);
    }

    fn some_status() -> Status {
        Status {
            step: 1_234_567,
            time: 1.234,
            start: 0.0,
            end: 1.5,
            from: (0, 0.0),
            elapsed: Duration::from_secs(30_000),
            drift: Some(("dE/E", -1.23e-4)),
        }
    }

    #[test]
    fn warnings_name_their_run_once() {
        let progress = Progress::new(true).of_run(Path::new("out/a b"));
        for (text, expected) in [
            ("warning: step 5: the energy error", "warning: 'out/a b': step 5: the energy error"),
            ("storage works again", "'out/a b': storage works again"),
            ("waiting: 'out/a b': no space", "waiting: 'out/a b': no space"),
            ("warning: 'out/a b'/case.toml was edited", "warning: 'out/a b'/case.toml was edited"),
        ] {
            assert_eq!(progress.named(text), expected);
        }
        for (folder, text, expected) in [
            ("10", "warning: step 10: x", "warning: 10: step 10: x"),
            ("0", "warning: step 10: x", "warning: 0: step 10: x"),
            ("10", "warning: 10: restarted", "warning: 10: restarted"),
            ("10", "waiting: 10/case.toml: no space", "waiting: 10/case.toml: no space"),
            ("out/", "warning: out/case.toml was edited", "warning: out/case.toml was edited"),
            ("10", "warning: skipped: 10/checkpoints/x: cut", "warning: skipped: 10/checkpoints/x: cut"),
        ] {
            assert_eq!(Progress::new(true).of_run(Path::new(folder)).named(text), expected);
        }
    }

    /// Only errors that name no place get the directory.
    #[test]
    fn errors_of_a_step_name_their_run() {
        let error = EngineError::WallTimeTooShort { step: 0, needed: Duration::from_secs(2) };
        let message = "10: step 0: the wall time is too short for one step, expected at least 2 s";
        assert_eq!(name_run(error, Path::new("10")).to_string(), message);
        let error = EngineError::OutputNotEmpty("10".into());
        let message = error.to_string();
        assert_eq!(name_run(error, Path::new("10")).to_string(), message);
    }

    /// Progress is logged once per interval, also with `--quiet`.
    #[test]
    fn progress_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        log::start();
        log::open(folder.path());
        let mut progress = Progress::new(true);
        progress.print_event(&RunEvent::Step(some_status()));
        progress.logged = Instant::now().checked_sub(LOG_EVERY).unwrap();
        progress.print_event(&RunEvent::Step(Status { step: 1_234_568, ..some_status() }));
        progress.print_event(&RunEvent::Step(Status { step: 1_234_569, ..some_status() }));
        let text = std::fs::read_to_string(folder.path().join("run.log")).unwrap();
        let steps: Vec<&str> = text.lines().filter(|line| line.contains("  step ")).collect();
        assert!(steps.len() == 1 && steps[0].contains("  step 1234568  t 1.234 "), "{text}");
    }

    /// The line of a long run has a bar from 80 columns. Narrower terminals show fewer parts.
    #[test]
    fn the_line_fits_the_terminal() {
        let status = some_status();
        let line = |columns| bar_line(&status, &Units::Galactic, columns);
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
