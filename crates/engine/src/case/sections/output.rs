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
/// Default interval between rows of `conserved.csv`, in steps.
pub(in crate::case) const RECORD_EVERY_STEPS: u64 = 10;

pub(in crate::case) fn read_output(section: &Section<'_>) -> OutputSettings {
    let settings = OutputSettings {
        snapshot_every: read_interval(section, "snapshot_every").unwrap_or(Every::Never),
        image_every: read_interval(section, "image_every").unwrap_or(Every::Never),
        record_every: read_interval(section, "record_every").unwrap_or(Every::Steps(RECORD_EVERY_STEPS)),
        format: section.choice("format", FORMATS).unwrap_or_default(),
        on_error: section.choice("on_error", ON_ERROR).unwrap_or_default(),
    };
    section.report_unknown_keys();
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
        // GIF delays are multiples of 0.01 s, and viewers slow down delays below 0.02 s.
        frames_per_second: count("frames_per_second", 1, 50, 20),
    };
    section.report_unknown_keys();
    settings
}

fn read_interval(section: &Section<'_>, key: &'static str) -> Option<Every> {
    read_interval_with(section, key, |section, key| {
        section.quantity(key, Dimension::Time, Range::NotNegative)
    })
}

/// Reads an interval: a simulated time or steps such as `"100 steps"`. 0 means never.
pub(super) fn read_interval_with(
    section: &Section<'_>,
    key: &'static str,
    time: impl FnOnce(&Section<'_>, &'static str) -> Option<f64>,
) -> Option<Every> {
    let steps = section.text_before_suffix(key, &["steps", "step"]);
    match steps.as_deref().map(str::parse::<u64>) {
        Some(Ok(0)) => Some(Every::Never),
        Some(Ok(count)) => Some(Every::Steps(count)),
        Some(Err(_)) => {
            section.reject(key, " is not a count of steps, expected one such as \"100 steps\"");
            None
        }
        None => match time(section, key)? {
            0.0 => Some(Every::Never),
            time => Some(Every::Time(time)),
        },
    }
}
