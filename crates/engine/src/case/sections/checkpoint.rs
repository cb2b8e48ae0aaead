//! `[checkpoint]`.
//!
//! `every` is read by its last word: `steps` counts steps; `s`, `min`, `h` and their other forms (see
//! [`wall_time`]) are the wall clock; anything else is simulated time, as in `[output]`, and so are `day`
//! and `days`, the natural step of a planetary system. So "10 s" is the clock here, "2 days" and "10 Myr" the
//! simulation; "2 d" could be either and is refused.

use std::time::Duration;

use orrery_model::Dimension;
use orrery_model::units::UnitError;

use super::output::every_with;
use crate::case::reader::{Range, Section};
use crate::case::{CheckpointEvery, CheckpointSettings, Every};
use crate::wall_time;

const DEFAULT: CheckpointSettings =
    CheckpointSettings { every: CheckpointEvery::WallClock(Duration::from_secs(600)), keep: 2 };
const MOST_KEPT: u64 = 1000;
const EVERY: &str = "every";
const EXPECTED: &str =
    "\"10 min\" (wall clock), \"100 steps\", or a simulated time such as 0.5 or \"10 Myr\"";

pub(in crate::case) fn read(section: &Section<'_>) -> CheckpointSettings {
    let every = every(section).unwrap_or(DEFAULT.every);
    let keep = section.integer("keep", 1, MOST_KEPT).and_then(|keep| u32::try_from(keep).ok());
    section.finish();
    CheckpointSettings { every, keep: keep.unwrap_or(DEFAULT.keep) }
}

fn every(section: &Section<'_>) -> Option<CheckpointEvery> {
    match section.text(EVERY).filter(|text| is_of_the_clock(text)) {
        Some(text) if last_word(text) == "d" => {
            let fault = " could be either, expected \"24 h\" (wall clock) or \"1 day\" (simulated time)";
            section.refuse(EVERY, fault);
            None
        }
        Some(text) => wall_clock(section, text),
        None => Some(match every_with(section, EVERY, simulated)? {
            Every::Never => CheckpointEvery::Never,
            Every::Steps(count) => CheckpointEvery::Steps(count),
            Every::Time(time) => CheckpointEvery::Time(time),
        }),
    }
}

fn last_word(text: &str) -> &str {
    text.trim().rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default()
}

fn is_of_the_clock(text: &str) -> bool {
    let last = last_word(text);
    wall_time::is_unit(last) && !matches!(last, "day" | "days")
}

fn wall_clock(section: &Section<'_>, text: &str) -> Option<CheckpointEvery> {
    match wall_time::parse(text) {
        None => {
            let fault = " is not a time on the clock, expected one such as \"10 min\" or \"1 h 30 min\"";
            section.refuse(EVERY, fault);
            None
        }
        Some(Duration::ZERO) => Some(CheckpointEvery::Never),
        Some(interval) if interval < Duration::from_secs(1) => {
            section.refuse(EVERY, " is shorter than a second, expected \"1 s\" or more, or 0 for never");
            None
        }
        Some(interval) => Some(CheckpointEvery::WallClock(interval)),
    }
}

fn simulated(section: &Section<'_>, key: &'static str) -> Option<f64> {
    let Some(text) = section.text(key) else {
        return section.number_expecting(key, Range::NotNegative, EXPECTED);
    };
    match section.units().parse(text, Dimension::Time) {
        Ok(time) => section.in_range(key, time, Range::NotNegative),
        Err(UnitError::NoScale { unit }) => {
            section.refuse(key, &format!(": {}", UnitError::NoScale { unit }));
            None
        }
        Err(_) => {
            section.refuse(key, &format!(" is not an interval, expected {EXPECTED}"));
            None
        }
    }
}
