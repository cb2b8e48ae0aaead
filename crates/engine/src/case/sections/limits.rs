//! `[limits]`.

use crate::case::declare::{Kind, Range, SectionSpec, Words, key, number};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;
use crate::case::{LimitSettings, OnDrift};

const ON_ENERGY_ERROR: &Words<OnDrift> = &[
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
        ),
        key("on_energy_error", Kind::Word(&ON_ENERGY_ERROR), "warn", "Reaction to a larger change."),
    ]],
);

pub(in crate::case) fn read_limits(section: &Section<'_>) -> LimitSettings {
    let settings = LimitSettings {
        drift: section.number_or_word("energy_error"),
        on_drift: section.word("on_energy_error", ON_ENERGY_ERROR),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_limits(w: &mut SectionWriter<'_>, settings: &LimitSettings) {
    w.number_or_word("energy_error", settings.drift);
    w.word("on_energy_error", ON_ENERGY_ERROR, &settings.on_drift);
}
