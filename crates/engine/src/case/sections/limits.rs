//! `[limits]`.

use crate::case::declare::{Kind, Range, SectionSpec, Words, key, number};
use crate::case::physics::{BODIES, FLUIDS, HEAT, PhysicsName};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::{LimitSettings, OnDrift};

const ON_ERROR: &Words<OnDrift> = &[
    ("warn", OnDrift::Warn, "prints one warning and continues"),
    ("stop", OnDrift::Stop, "ends the run with exit status 1"),
];

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "limits",
    "Limits of the numerical errors of a run.",
    &[&[
        key(
            "energy_error",
            number(Range::Positive).or("none", "no limit"),
            "0.02",
            "Largest change of the total energy, as a fraction of its initial value.",
        )
        .only_for(BODIES),
        key("on_energy_error", Kind::Word(&ON_ERROR), "warn", "Reaction to a larger change.").only_for(BODIES),
        key(
            "heat_error",
            number(Range::Positive).or("none", "no limit"),
            "0.001",
            "Largest error of the heat content, relative to a plate at the largest temperature, if no edge is \
             fixed. With fixed edges, without sources and fluxes: largest excess of the initial range of \
             temperatures, relative to the largest. In other plates the error is not known and there is no limit.",
        )
        .only_for(HEAT),
        key(
            "energy_error",
            number(Range::Positive).or("none", "no limit"),
            "0.05",
            "Largest change of the total energy per particle without a thermostat, in units of the largest epsilon. \
             With a thermostat there is no limit.",
        )
        .only_for(FLUIDS),
        key("on_energy_error", Kind::Word(&ON_ERROR), "warn", "Reaction to a larger change.").only_for(FLUIDS),
        key("on_heat_error", Kind::Word(&ON_ERROR), "warn", "Reaction to a larger error.").only_for(HEAT),
    ]],
);

/// Returns the names of the keys of a physics: the limit and the reaction. `None` if it has none.
fn keys(physics: PhysicsName) -> Option<[&'static str; 2]> {
    match physics {
        PhysicsName::Gravity | PhysicsName::LennardJones => Some(["energy_error", "on_energy_error"]),
        PhysicsName::Heat => Some(["heat_error", "on_heat_error"]),
        PhysicsName::Wave => None,
    }
}

/// Reads `[limits]`. `is_error_known` is false if there is no error to limit.
pub(in crate::case) fn read_limits(
    section: &Section<'_>,
    physics: PhysicsName,
    is_error_known: bool,
) -> LimitSettings {
    let Some([limit, reaction]) = keys(physics) else {
        section.finish();
        return LimitSettings { drift: None, on_drift: OnDrift::Warn };
    };
    let drift = section.number_or_word(limit);
    if drift.is_some() && !is_error_known && section.has_key(limit) {
        section.reject(
            limit,
            match physics {
                PhysicsName::LennardJones => {
                    " has no meaning with a thermostat, expected \"none\": it changes the energy"
                }
                _ => {
                    " has no meaning for this plate, expected \"none\": with fixed edges and sources or fluxes, the \
                     error is not known"
                }
            },
        );
    }
    let on_drift = section.word(reaction, ON_ERROR);
    section.finish();
    LimitSettings { drift: drift.filter(|_| is_error_known), on_drift }
}

pub(in crate::case) fn write_limits(
    w: &mut SectionWriter<'_>,
    settings: &LimitSettings,
    physics: PhysicsName,
) {
    let Some([limit, reaction]) = keys(physics) else { return };
    w.number_or_word(limit, settings.drift);
    w.word(reaction, ON_ERROR, &settings.on_drift);
}
