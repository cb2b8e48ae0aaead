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

pub(in crate::case) fn read(section: &Section<'_>) -> TimeSettings {
    let integrator = section.choice("integrator", INTEGRATORS).unwrap_or_default();
    let eta = section.number("eta", Range::UpTo(1.0)).unwrap_or(0.02);
    let dt = section.quantity_or("step", Some("adaptive"), Dimension::Time, Range::Positive);
    let step = if section.is_word("step", "adaptive") {
        StepChoice::Adaptive { eta }
    } else {
        section.refuse_beside("eta", "step", "step = \"adaptive\"");
        StepChoice::Fixed(section.required("step", dt, "a time > 0 or \"adaptive\""))
    };
    let end = section.quantity("end", Dimension::Time, Range::Positive);
    let end = section.required("end", end, "a time > 0");
    section.finish();
    TimeSettings { integrator, step, end }
}
