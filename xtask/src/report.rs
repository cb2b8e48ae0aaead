//! Stages of a command with their times, printed as a table.

use std::fmt;
use std::time::{Duration, Instant};

use crate::shell::Failure;

/// Stages that have run, in order.
#[derive(Default)]
pub struct Report {
    stages: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    time: Duration,
    passed: bool,
}

/// Stage that failed, and its error.
#[derive(Debug)]
pub struct StageFailure {
    stage: &'static str,
    failure: Failure,
}

impl Report {
    /// Runs `work` as a stage, prints its name and time, and records both.
    pub fn run_stage(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), StageFailure> {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = work();
        let time = start.elapsed();
        println!("=== {name}: {}", format_time(time));
        self.stages.push(Stage { name, time, passed: result.is_ok() });
        result.map_err(|failure| StageFailure { stage: name, failure })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut write_row = |name: &str, time, note: &str| {
            let line = format!("{name:<13} {:>12}  {note}", format_time(time));
            writeln!(f, "{}", line.trim_end())
        };
        for stage in &self.stages {
            write_row(stage.name, stage.time, if stage.passed { "" } else { "FAILED" })?;
        }
        write_row("total", self.stages.iter().map(|stage| stage.time).sum(), "")
    }
}

impl fmt::Display for StageFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage '{}' failed: {}", self.stage, self.failure.message)?;
        match &self.failure.rerun {
            Some(line) => write!(f, "\nto run it again, from the root of the project:\n  {line}"),
            None => Ok(()),
        }
    }
}

/// Formats a time, for example as `12.3 s` or `3 min 05 s`.
pub fn format_time(time: Duration) -> String {
    let tenths = (time.as_secs_f64() * 10.0).round();
    if tenths < 600.0 {
        return format!("{:.1} s", tenths / 10.0);
    }
    let seconds = time.as_secs_f64().round() as u64;
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_from_60_s_on_are_in_minutes_and_seconds() {
        let format_millis = |ms| format_time(Duration::from_millis(ms));
        assert_eq!(format_millis(0), "0.0 s");
        assert_eq!(format_millis(12_340), "12.3 s");
        assert_eq!(format_millis(59_940), "59.9 s");
        assert_eq!(format_millis(59_960), "1 min 00 s");
        assert_eq!(format_millis(185_000), "3 min 05 s");
    }

    #[test]
    fn table_marks_the_stage_that_failed() {
        let mut report = Report::default();
        report.run_stage("first", || Ok(())).unwrap();
        let rerun = Some("cargo fmt".to_owned());
        let failed =
            report.run_stage("second", || Err(Failure { message: "why".into(), rerun })).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "stage 'second' failed: why\nto run it again, from the root of the project:\n  cargo fmt"
        );

        let table = report.to_string();
        let rows: Vec<_> = table.lines().collect();
        assert_eq!(rows.len(), 3, "{table}");
        assert!(rows[0].starts_with("first ") && rows[0].ends_with(" s"), "{table}");
        assert!(rows[1].starts_with("second ") && rows[1].ends_with("FAILED"), "{table}");
        assert!(rows[2].starts_with("total "), "{table}");
    }
}
