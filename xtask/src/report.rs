//! Stages with their times, and the table of them.

use std::fmt;
use std::time::{Duration, Instant};

use crate::shell::Failure;

/// The stages so far, in order.
#[derive(Default)]
pub struct Report {
    stages: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    time: Duration,
    passed: bool,
}

/// The stage that ended the run, and why.
#[derive(Debug)]
pub struct Failed {
    stage: &'static str,
    failure: Failure,
}

impl Report {
    /// Does `work` under a heading and remembers how long it took.
    pub fn stage(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failed> {
        println!("\n=== {name}");
        let start = Instant::now();
        let outcome = work();
        let time = start.elapsed();
        println!("=== {name}: {}", shown(time));
        self.stages.push(Stage { name, time, passed: outcome.is_ok() });
        outcome.map_err(|failure| Failed { stage: name, failure })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, time, note: &str| {
            let line = format!("{name:<12} {:>12}  {note}", shown(time));
            writeln!(f, "{}", line.trim_end())
        };
        for stage in &self.stages {
            row(stage.name, stage.time, if stage.passed { "" } else { "FAILED" })?;
        }
        row("total", self.stages.iter().map(|stage| stage.time).sum(), "")
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage '{}' failed: {}", self.stage, self.failure.message)?;
        match &self.failure.rerun {
            Some(line) => write!(f, "\nto run it again, from the root of the project:\n  {line}"),
            None => Ok(()),
        }
    }
}

/// A time for people.
pub fn shown(time: Duration) -> String {
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
    fn times_read_well() {
        let millis = |ms| shown(Duration::from_millis(ms));
        assert_eq!(millis(0), "0.0 s");
        assert_eq!(millis(12_340), "12.3 s");
        assert_eq!(millis(59_940), "59.9 s");
        assert_eq!(millis(59_960), "1 min 00 s");
        assert_eq!(millis(185_000), "3 min 05 s");
    }

    #[test]
    fn the_table_marks_the_stage_that_failed() {
        let mut report = Report::default();
        report.stage("first", || Ok(())).unwrap();
        let rerun = Some("cargo fmt".to_owned());
        let failed = report.stage("second", || Err(Failure { message: "why".into(), rerun })).unwrap_err();
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
