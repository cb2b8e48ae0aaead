//! `[output]` and `[image]`.

use orrery_model::Dimension;

use super::Words;
use crate::case::reader::{Range, Section};
use crate::case::{Every, ImageSettings, OnError, OutputSettings, Plane, Show, SnapshotFormat};

pub(in crate::case) const FORMATS: &Words<SnapshotFormat> =
    &[("hdf5", SnapshotFormat::Hdf5), ("xyz", SnapshotFormat::Xyz), ("npz", SnapshotFormat::Npz)];
pub(in crate::case) const ON_ERROR: &Words<OnError> = &[("stop", OnError::Stop), ("wait", OnError::Wait)];
pub(in crate::case) const PLANES: &Words<Plane> = &[("xy", Plane::Xy), ("xz", Plane::Xz), ("yz", Plane::Yz)];
pub(in crate::case) const SHOWS: &Words<Show> =
    &[("auto", Show::Auto), ("all", Show::All), ("stars", Show::Stars)];
/// How often a record is made where the case does not say.
pub(in crate::case) const RECORD_EVERY_STEPS: u64 = 10;

pub(in crate::case) fn read_output(section: &Section<'_>) -> OutputSettings {
    let settings = OutputSettings {
        snapshot_every: every(section, "snapshot_every").unwrap_or(Every::Never),
        image_every: every(section, "image_every").unwrap_or(Every::Never),
        record_every: every(section, "record_every").unwrap_or(Every::Steps(RECORD_EVERY_STEPS)),
        format: section.choice("format", FORMATS).unwrap_or_default(),
        on_error: section.choice("on_error", ON_ERROR).unwrap_or_default(),
    };
    section.finish();
    settings
}

pub(in crate::case) fn read_image(section: &Section<'_>) -> ImageSettings {
    let count = |key, least, most, default| {
        section.integer(key, least, most).and_then(|i| u32::try_from(i).ok()).unwrap_or(default)
    };
    let settings = ImageSettings {
        size: count("size", 64, 4096, 640),
        width: section.quantity_or("width", Some("auto"), Dimension::Length, Range::Positive),
        plane: section.choice("plane", PLANES).unwrap_or_default(),
        show: section.choice("show", SHOWS).unwrap_or_default(),
        // A GIF counts in hundredths of a second, and viewers slow down what is shorter than two.
        frames_per_second: count("frames_per_second", 1, 50, 20),
    };
    section.finish();
    settings
}

fn every(section: &Section<'_>, key: &'static str) -> Option<Every> {
    every_with(section, key, |section, key| section.quantity(key, Dimension::Time, Range::NotNegative))
}

/// A time, or `"100 steps"`; 0 of either is never.
pub(super) fn every_with(
    section: &Section<'_>,
    key: &'static str,
    time: impl FnOnce(&Section<'_>, &'static str) -> Option<f64>,
) -> Option<Every> {
    let steps = section.before_ending(key, &["steps", "step"]);
    match steps.as_deref().map(str::parse::<u64>) {
        Some(Ok(0)) => Some(Every::Never),
        Some(Ok(count)) => Some(Every::Steps(count)),
        Some(Err(_)) => {
            section.refuse(key, " is not a count of steps, expected one such as \"100 steps\"");
            None
        }
        None => match time(section, key)? {
            0.0 => Some(Every::Never),
            time => Some(Every::Time(time)),
        },
    }
}
