//! The top level of a case: its name, its units and its sections.

use orrery_model::Units;

use super::{
    bodies, checkpoint, gravity, grid, heat, image, initial, lennard_jones, limits, output, particles,
    thermostat, time, wave,
};
use crate::case::declare::{Kind, SectionSpec, Words, derived_key, key, section_key};
use crate::case::physics::{BODIES, FIELDS, FLUIDS, HEAT, PhysicsName, WAVE};
use crate::case::reader::Section;

const UNIT_SYSTEMS: &Words<Units> = &[
    ("nbody", Units::NBody, "G = 1, without a physical scale"),
    ("galactic", Units::Galactic, "kpc, 1e10 solar masses, km/s; the unit of time is 0.978 Gyr"),
    ("solar", Units::Solar, "au, solar masses, years"),
];
const FIELD_UNIT_SYSTEMS: &Words<Units> = &[
    ("none", Units::Dimensionless, "plain numbers, without a physical scale"),
    ("si", Units::Si, "metres, kilograms, seconds"),
];
const FLUID_UNIT_SYSTEMS: &Words<Units> = &[
    (
        "lj",
        Units::LennardJones,
        "reduced units: sigma, epsilon, mass and k_B are 1 for a fluid of one species",
    ),
    (
        "real",
        Units::Real,
        "angstrom, atomic mass units, picoseconds, kelvin; the unit of energy is 0.01 kJ/mol",
    ),
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
        key("units", Kind::Word(&UNIT_SYSTEMS), "nbody", "Units of all plain numbers in the case.")
            .only_for(BODIES),
        key("units", Kind::Word(&FIELD_UNIT_SYSTEMS), "none", "Units of all plain numbers in the case.")
            .only_for(FIELDS),
        key("units", Kind::Word(&FLUID_UNIT_SYSTEMS), "lj", "Units of all plain numbers in the case.")
            .only_for(FLUIDS),
        section_key(bodies::SPEC).only_for(BODIES),
        section_key(gravity::SPEC).only_for(BODIES),
        section_key(grid::SPEC).only_for(FIELDS),
        section_key(heat::SPEC).only_for(HEAT),
        section_key(initial::SPEC).only_for(HEAT),
        section_key(wave::SPEC).only_for(WAVE),
        section_key(particles::SPEC).only_for(FLUIDS),
        section_key(lennard_jones::SPEC).only_for(FLUIDS),
        section_key(thermostat::SPEC).only_for(FLUIDS),
        section_key(thermostat::STRUCTURE_SPEC).only_for(FLUIDS),
        section_key(time::SPEC),
        section_key(output::SPEC),
        section_key(checkpoint::SPEC),
        section_key(limits::SPEC),
        section_key(image::SPEC),
    ]],
);

/// Reads the units of a case.
pub(in crate::case) fn read_units(root: &Section<'_>, physics: PhysicsName) -> Units {
    let systems = match physics {
        PhysicsName::Gravity => UNIT_SYSTEMS,
        PhysicsName::Heat | PhysicsName::Wave => FIELD_UNIT_SYSTEMS,
        PhysicsName::LennardJones => FLUID_UNIT_SYSTEMS,
    };
    root.word("units", systems)
}
