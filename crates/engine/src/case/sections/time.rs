//! `[time]`.

use orrery_model::Dimension;
use orrery_particles::settings::{IntegratorChoice, StepChoice};

use super::Words;
use crate::case::TimeSettings;
use crate::case::reader::{Range, Section};

pub(in crate::case) const INTEGRATORS: &Words<IntegratorChoice> = &[
    ("leapfrog", IntegratorChoice::Leapfrog),
    ("yoshida4", IntegratorChoice::Yoshida4),
    ("yoshida6", IntegratorChoice::Yoshida6),
    ("blanes-moan4", IntegratorChoice::BlanesMoan4),
    ("hermite4", IntegratorChoice::Hermite4),
];

pub(in crate::case) fn read_time(section: &Section<'_>) -> TimeSettings {
    let integrator = section.choice("integrator", INTEGRATORS).unwrap_or_default();
    let eta = section.number("eta", Range::UpTo(1.0)).unwrap_or(0.02);
    let dt = section.quantity_or("step", Some("adaptive"), Dimension::Time, Range::Positive);
    let step = if section.is_word("step", "adaptive") {
        StepChoice::Adaptive { eta }
    } else {
        section.reject_unless_applicable("eta", "step", "step = \"adaptive\"");
        StepChoice::Fixed(section.require_key("step", dt, "a time > 0 or \"adaptive\""))
    };
    let start = section.quantity("start", Dimension::Time, Range::NotNegative);
    let end = section.quantity("end", Dimension::Time, Range::Positive);
    let end = section.require_key("end", end, "a time > 0");
    section.report_unknown_keys();
    TimeSettings { integrator, step, start, end }
}
