//! `[limits]`.

use super::Words;
use crate::case::reader::{Range, Section};
use crate::case::{LimitSettings, OnEnergyError};

pub(in crate::case) const ON_ENERGY_ERROR: &Words<OnEnergyError> =
    &[("warn", OnEnergyError::Warn), ("stop", OnEnergyError::Stop)];
/// Value of `energy_error` for no limit.
pub(in crate::case) const NO_LIMIT: &str = "none";
const DEFAULT_ENERGY_ERROR: f64 = 0.02;

pub(in crate::case) fn read_limits(section: &Section<'_>) -> LimitSettings {
    let energy_error = if section.is_word("energy_error", NO_LIMIT) {
        None
    } else {
        let given = section.number_expecting("energy_error", Range::Positive, "a number > 0, or \"none\"");
        Some(given.unwrap_or(DEFAULT_ENERGY_ERROR))
    };
    let on_energy_error = section.choice("on_energy_error", ON_ENERGY_ERROR).unwrap_or_default();
    section.report_unknown_keys();
    LimitSettings { energy_error, on_energy_error }
}
