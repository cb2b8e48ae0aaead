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

use crate::case::declare::{Kind, Range, SectionSpec, key};
use crate::case::document::{Entry, Value};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::values::number_value;
use crate::case::{CheckpointEvery, CheckpointSettings, Every};
use crate::wall_time;

const EVERY: &str = "every";
const EXPECTED: &str =
    "\"10 min\" (wall clock), \"100 steps\", or a simulated time such as 0.5 or \"10 Myr\"";

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "checkpoint",
    "Checkpoints, from which a run can be resumed. There is always one at the end of a run.",
    &[&[
        key(
            EVERY,
            Kind::CheckpointInterval,
            "10 min",
            "Interval of checkpoints. The unit selects the clock: \"10 s\", \"10 min\" and \"2 h\" are \
             wall-clock times of at least 1 s. A plain number, \"1 day\", \"1 yr\" and \"10 Myr\" are simulated \
             times. 0 is never.",
        ),
        key("keep", Kind::Integer { least: 1, most: 1000 }, "2", "Number of checkpoints that are kept."),
    ]],
);

pub(in crate::case) fn read_checkpoint(section: &Section<'_>) -> CheckpointSettings {
    let settings = CheckpointSettings {
        every: section.read(EVERY, |entry| parse_every(section, entry)).unwrap_or(CheckpointEvery::Never),
        keep: section.small_integer("keep"),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_checkpoint(w: &mut SectionWriter<'_>, settings: &CheckpointSettings) {
    match settings.every {
        CheckpointEvery::WallClock(interval) => w.wall_clock_interval(EVERY, &wall_time::to_text(interval)),
        every => w.interval(EVERY, every.schedule()),
    }
    w.integer("keep", settings.keep.into());
}

fn parse_every(section: &Section<'_>, entry: &Entry) -> Option<CheckpointEvery> {
    if let Value::String(text) = &entry.value
        && is_wall_clock(text)
    {
        return parse_wall_clock(section, text);
    }
    let simulated_time = |entry: &Entry| parse_simulated_time(section, entry);
    Some(match section.parse_interval(EVERY, entry, simulated_time)? {
        Every::Never => CheckpointEvery::Never,
        Every::Steps(count) => CheckpointEvery::Steps(count),
        Every::Time(time) => CheckpointEvery::Time(time),
    })
}

fn last_word(text: &str) -> &str {
    text.trim().rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default()
}

fn is_wall_clock(text: &str) -> bool {
    let last = last_word(text);
    wall_time::is_unit(last) && !matches!(last, "day" | "days")
}

fn parse_wall_clock(section: &Section<'_>, text: &str) -> Option<CheckpointEvery> {
    let fault = match wall_time::parse(text) {
        _ if last_word(text) == "d" => {
            " is ambiguous, expected \"24 h\" (wall clock) or \"1 day\" (simulated time)"
        }
        None => " is not a wall-clock time, expected one such as \"10 min\" or \"1 h 30 min\"",
        Some(Duration::ZERO) => return Some(CheckpointEvery::Never),
        Some(interval) if interval < Duration::from_secs(1) => {
            " is shorter than a second, expected \"1 s\" or more, or 0 for never"
        }
        Some(interval) => return Some(CheckpointEvery::WallClock(interval)),
    };
    section.reject(EVERY, fault);
    None
}

fn parse_simulated_time(section: &Section<'_>, entry: &Entry) -> Option<f64> {
    if let Some(time) = number_value(&entry.value) {
        return section.check_range(EVERY, time, Range::NotNegative);
    }
    let Value::String(text) = &entry.value else {
        section.reject_type(entry, EXPECTED);
        return None;
    };
    match section.units().parse(text, Dimension::Time) {
        Ok(time) => {
            section.record_quantity(EVERY, text, Dimension::Time);
            return section.check_range(EVERY, time, Range::NotNegative);
        }
        Err(e @ (UnitError::NoScale { .. } | UnitError::NoUnits { .. })) => {
            section.reject(EVERY, &format!(": {e}"))
        }
        Err(_) => section.reject(EVERY, &format!(" is not an interval, expected {EXPECTED}")),
    }
    None
}
