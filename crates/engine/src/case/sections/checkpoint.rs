//! `[checkpoint]`.
//!
//! The last word of `every` selects its meaning. `steps` counts steps. `s`, `min`, `h` and their
//! other forms (see [`wall_time`]) are wall-clock times. All others are simulated times as in
//! `[output]`. `day` and `days` are simulated times too, because they are the usual step of a
//! planetary system. For example, "10 s" is a wall-clock time, and "2 days" and "10 Myr" are
//! simulated times. "2 d" is ambiguous and is rejected.

use std::time::Duration;

use orrery_model::Dimension;
use orrery_model::units::UnitError;

use super::output::read_interval_with;
use crate::case::reader::{Range, Section};
use crate::case::{CheckpointEvery, CheckpointSettings, Every};
use crate::wall_time;

const DEFAULT: CheckpointSettings =
    CheckpointSettings { every: CheckpointEvery::WallClock(Duration::from_secs(600)), keep: 2 };
const MAX_KEPT: u64 = 1000;
const EVERY: &str = "every";
const EXPECTED: &str =
    "\"10 min\" (wall clock), \"100 steps\", or a simulated time such as 0.5 or \"10 Myr\"";

pub(in crate::case) fn read_checkpoint(section: &Section<'_>) -> CheckpointSettings {
    let every = read_every(section).unwrap_or(DEFAULT.every);
    let keep = section.integer("keep", 1, MAX_KEPT).and_then(|keep| u32::try_from(keep).ok());
    section.report_unknown_keys();
    CheckpointSettings { every, keep: keep.unwrap_or(DEFAULT.keep) }
}

fn read_every(section: &Section<'_>) -> Option<CheckpointEvery> {
    match section.string_if_any(EVERY).filter(|text| is_wall_clock(text)) {
        Some(text) if last_word(text) == "d" => {
            let fault = " is ambiguous, expected \"24 h\" (wall clock) or \"1 day\" (simulated time)";
            section.reject(EVERY, fault);
            None
        }
        Some(text) => read_wall_clock(section, text),
        None => Some(match read_interval_with(section, EVERY, read_simulated_time)? {
            Every::Never => CheckpointEvery::Never,
            Every::Steps(count) => CheckpointEvery::Steps(count),
            Every::Time(time) => CheckpointEvery::Time(time),
        }),
    }
}

fn last_word(text: &str) -> &str {
    text.trim().rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default()
}

fn is_wall_clock(text: &str) -> bool {
    let last = last_word(text);
    wall_time::is_unit(last) && !matches!(last, "day" | "days")
}

fn read_wall_clock(section: &Section<'_>, text: &str) -> Option<CheckpointEvery> {
    match wall_time::parse(text) {
        None => {
            let fault = " is not a wall-clock time, expected one such as \"10 min\" or \"1 h 30 min\"";
            section.reject(EVERY, fault);
            None
        }
        Some(Duration::ZERO) => Some(CheckpointEvery::Never),
        Some(interval) if interval < Duration::from_secs(1) => {
            section.reject(EVERY, " is shorter than a second, expected \"1 s\" or more, or 0 for never");
            None
        }
        Some(interval) => Some(CheckpointEvery::WallClock(interval)),
    }
}

fn read_simulated_time(section: &Section<'_>, key: &'static str) -> Option<f64> {
    let Some(text) = section.string_if_any(key) else {
        return section.number_expecting(key, Range::NotNegative, EXPECTED);
    };
    match section.units().parse(text, Dimension::Time) {
        Ok(time) => section.check_range(key, time, Range::NotNegative),
        Err(UnitError::NoScale { unit }) => {
            section.reject(key, &format!(": {}", UnitError::NoScale { unit }));
            None
        }
        Err(_) => {
            section.reject(key, &format!(" is not an interval, expected {EXPECTED}"));
            None
        }
    }
}
