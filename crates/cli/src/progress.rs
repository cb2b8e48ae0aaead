//! Progress of a run: a bar on a terminal, plain lines in a pipe or file.

use std::fmt::Arguments;
use std::time::{Duration, Instant};

use orrery_engine::control::{RunEvent, Status};
use orrery_model::Units;
use orrery_particles::resolution::MAX_SINGLE_ROUNDING;

use crate::commands::shell_quoted;
use crate::print::{eprint_line, print_line, write_stderr_line};
use crate::terminal_line::{TerminalLine, can_redraw, terminal_columns};

/// Minimum time between two progress lines in a pipe or file.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Minimum time between two updates of the bar.
const REDRAW_EVERY: Duration = Duration::from_millis(50);

/// Widths of the bar, each with the smallest terminal width that it is used for, in columns.
const BAR_WIDTHS: [(usize, usize); 2] = [(24, 100), (8, 0)];

/// Reports the progress and the events of a run to the user.
pub struct Progress {
    mode: Mode,
    units: Units,
}

enum Mode {
    /// Prints warnings only.
    Quiet,
    /// Redraws one line of a terminal. The instant is that of the last update.
    Bar(TerminalLine, Option<Instant>),
    /// Prints a line from time to time. The instant is that of the last line.
    Lines(Instant),
}

/// Returns the warning about bodies that single precision does not resolve. `rounding` is the error
/// of their coordinates in separations or softening lengths.
pub fn unresolved_bodies_text(rounding: f64) -> String {
    format!(
        "warning: single precision does not resolve these bodies: rounding moves a typical body by {rounding:.1e} \
         of the distance to its neighbour or of the softening, expected at most {MAX_SINGLE_ROUNDING:e}; \
         the forces are wrong, use precision mixed"
    )
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
        Self { mode, units: Units::NBody }
    }

    /// Sets the units in which times are printed.
    pub fn with_units(self, units: Units) -> Self {
        Self { units, ..self }
    }

    /// Prints an event of the run.
    pub fn print_event(&mut self, event: &RunEvent<'_>) {
        let quiet = matches!(self.mode, Mode::Quiet);
        match event {
            RunEvent::Step(status) => self.print_step(status),
            RunEvent::Device(selected) if !quiet => print_line!("device: {selected}"),
            RunEvent::TunedStrategy(strategy) if !quiet => print_line!("tuned: {}", strategy.describe()),
            RunEvent::Device(_) | RunEvent::TunedStrategy(_) => {}
            RunEvent::StartTime { case, file_time } if !quiet => {
                let [file_time, start] =
                    [*file_time, case.time.known_start()].map(|time| case.units.format_time(time));
                if file_time == start {
                    print_line!("start: t = {start}, the time of the file of bodies");
                } else {
                    print_line!(
                        "start: t = {start} (time.start), the time of the file of bodies is {file_time}"
                    );
                }
            }
            RunEvent::StartTime { .. } => {}
            RunEvent::Resumed { case, .. } if quiet => self.units = case.units,
            RunEvent::EndChanged { .. } if quiet => {}
            RunEvent::EndChanged { case, before } => {
                let [before, end] = [*before, case.time.end].map(|time| case.units.format_time(time));
                self.print_message(format_args!(
                    "{}: the end changes from t = {before} to t = {end}",
                    case.name
                ));
            }
            RunEvent::CheckpointWritten { .. } if quiet => {}
            RunEvent::Resumed { case, path, step, time } => {
                self.units = case.units;
                let action = if *time >= case.time.end { "already finished" } else { "resuming" };
                let (name, time, path) = (&case.name, case.units.format_time(*time), path.display());
                self.print_message(format_args!(
                    "{name}: {action} after step {step}, t = {time}, from {path}"
                ));
            }
            RunEvent::CheckpointWritten { path, step } => {
                self.print_message(format_args!("checkpoint after step {step}: {}", path.display()));
            }
            warning => self.print_warning(warning),
        }
    }

    /// Prints an event that is shown in all modes.
    fn print_warning(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::DamagedCheckpoint(error) => {
                self.print_message(format_args!("warning: skipped a damaged checkpoint: {error}"));
            }
            RunEvent::InputWarning(warning) => self.print_message(format_args!("warning: {warning}")),
            RunEvent::WriterChanged { before, now } => self.print_message(format_args!(
                "warning: the checkpoint was written by {before}, this is {now}: the last bits may differ"
            )),
            RunEvent::CaseFileEdited { folder, found, given } => {
                let folder = shell_quoted(folder);
                self.print_message(format_args!(
                    "warning: {folder}/case.toml was edited: it has {given}, the run keeps {found}; \
                     to change it: orrery resume {folder} --set '{}'",
                    given.replace(" = ", "=")
                ));
            }
            RunEvent::InputChanged { path, is_resumed: true } => self.print_message(format_args!(
                "warning: {} has changed since the run started from it; the run continues from its checkpoint, \
                 run --force starts from the changed file",
                path.display()
            )),
            RunEvent::InputChanged { path, is_resumed: false } => self.print_message(format_args!(
                "warning: {} has changed since the run that is replaced started from it",
                path.display()
            )),
            RunEvent::OutputRestarted(path) => self.print_message(format_args!(
                "warning: {}: restarted; the old file is kept as .changed",
                path.display()
            )),
            RunEvent::OutputFailed(error) => self.print_message(format_args!("warning: {error}")),
            RunEvent::NoFileLocks => self.print_message(format_args!(
                "warning: this file system has no locks: a second run in this directory is not detected"
            )),
            RunEvent::MissingFiles { path, count } => self.print_message(format_args!(
                "warning: {count} output files of the run are missing, the first is {}; they are not written again",
                path.display()
            )),
            RunEvent::WaitingForStorage { error, pause } => self.print_message(format_args!(
                "waiting: {error}; next attempt in {}",
                format_duration(pause.as_secs_f64())
            )),
            RunEvent::StorageRecovered => {
                self.print_message(format_args!("storage works again, the run continues"));
            }
            RunEvent::EnergyError { step, error, limit } => self.print_message(format_args!(
                "warning: step {step}: the energy error is {error:.1e}, above {limit} ([limits] energy_error); \
                 a shorter step or a larger softening may help"
            )),
            RunEvent::UnresolvedBodies { rounding } => {
                self.print_message(format_args!("{}", unresolved_bodies_text(*rounding)));
            }
            RunEvent::ManySteps { steps, dt } => self.print_message(format_args!(
                "warning: the run would take about {steps:.0e} steps of {dt:.1e}; \
                 a longer step, a larger eta or an earlier end may be intended"
            )),
            RunEvent::Device(_)
            | RunEvent::StartTime { .. }
            | RunEvent::TunedStrategy(_)
            | RunEvent::Step(_)
            | RunEvent::CheckpointWritten { .. }
            | RunEvent::EndChanged { .. }
            | RunEvent::Resumed { .. } => {}
        }
    }

    /// Prints a line that stays on the screen, above the bar if there is one.
    fn print_message(&self, text: Arguments<'_>) {
        match &self.mode {
            Mode::Bar(line, _) => line.print_above(text),
            Mode::Quiet | Mode::Lines(_) => write_stderr_line(text),
        }
    }

    /// Updates the bar, or prints a line, after a step.
    fn print_step(&mut self, status: &Status) {
        match &mut self.mode {
            Mode::Quiet => {}
            // A step of three bodies takes less time than an update of the bar.
            Mode::Bar(_, Some(last)) if last.elapsed() < REDRAW_EVERY => {}
            Mode::Bar(line, last) => {
                *last = Some(Instant::now());
                line.draw(&bar_line(status, &self.units, terminal_columns()));
            }
            Mode::Lines(last) => {
                if last.elapsed() >= LINE_EVERY {
                    eprint_line!("{}", status_text(status, &self.units, usize::MAX));
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

/// Returns percentage, step, time, rate, remaining time and energy error. Omits the less important
/// parts if there are fewer `columns`.
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
        format!("  dE/E {:+.1e}", status.energy_error),
    ];
    // Rate, step, energy error, time and remaining time, in the order in which they are omitted.
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

    /// The line of a long run has a bar from 80 columns. Narrower terminals show fewer parts.
    #[test]
    fn the_line_fits_the_terminal() {
        let status = Status {
            step: 1_234_567,
            time: 1.234,
            start: 0.0,
            end: 1.5,
            from: (0, 0.0),
            elapsed: Duration::from_secs(30_000),
            energy_error: -1.23e-4,
        };
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
