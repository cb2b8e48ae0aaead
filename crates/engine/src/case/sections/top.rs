//! The top level of a case: its name, its units and its sections.

use orrery_model::Units;

use super::{bodies, checkpoint, gravity, limits, output, time};
use crate::case::declare::{Kind, SectionSpec, Words, derived_key, key, section_key};

pub(in crate::case) const UNIT_SYSTEMS: &Words<Units> = &[
    ("nbody", Units::NBody, "G = 1, without a physical scale"),
    ("galactic", Units::Galactic, "kpc, 1e10 solar masses, km/s; the unit of time is 0.978 Gyr"),
    ("solar", Units::Solar, "au, solar masses, years"),
];

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "",
    "Keys at the top of the file, before the first section.",
    &[&[
        derived_key(
            "name",
            Kind::Text,
            "the name of the case file",
            "Name of the run and of its folder: up to 100 characters of A-Z a-z 0-9 . _ -, not starting with a \
             period.",
        ),
        key("description", Kind::Text, "", "Description of the run, in one line."),
        key("units", Kind::Word(&UNIT_SYSTEMS), "nbody", "Units of all plain numbers in the case."),
        section_key(bodies::SPEC),
        section_key(gravity::SPEC),
        section_key(time::SPEC),
        section_key(output::SPEC),
        section_key(checkpoint::SPEC),
        section_key(limits::SPEC),
        section_key(output::IMAGE_SPEC),
    ]],
);
