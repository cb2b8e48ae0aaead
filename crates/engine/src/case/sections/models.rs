//! The models of `[bodies]`: reading and writing of their keys.
//!
//! Keys have the names and defaults of the parameters in `orrery_model::ic`.

use std::sync::atomic::AtomicBool;

use orrery_model::Dimension::{Angle, Length, Mass};
use orrery_model::Particles;
use orrery_model::ic::{
    Encounter, FigureEight, Galaxy, Hernquist, IcError, Kepler, Plummer, Pythagorean, SolarSystem,
    UniformSphere,
};

use super::galaxies;
use crate::case::reader::{MAX_INTEGER, Range, Section};
use crate::case::resolved::Writer;

/// A model and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A star cluster in equilibrium.
    Plummer(Plummer),
    /// A cusped sphere in equilibrium.
    Hernquist(Hernquist),
    /// A uniform sphere at rest.
    UniformSphere(UniformSphere),
    /// A disc galaxy.
    Galaxy(Galaxy),
    /// Two disc galaxies on a parabolic orbit.
    Encounter(Box<Encounter>),
    /// Two bodies on an ellipse.
    Kepler(Kepler),
    /// Three bodies on a figure-eight orbit.
    FigureEight(FigureEight),
    /// Three bodies at rest on a 3-4-5 triangle.
    Pythagorean(Pythagorean),
    /// The Sun and eight planets.
    SolarSystem(SolarSystem),
}

/// Reads a model. The number is the softening length.
pub(in crate::case) type Reader = fn(&Section<'_>, f64) -> Model;

pub(in crate::case) const READERS: &[(&str, Reader)] = &[
    ("plummer", |section, _| Model::Plummer(read_plummer(section))),
    ("hernquist", |section, _| Model::Hernquist(read_hernquist(section))),
    ("uniform-sphere", |section, _| Model::UniformSphere(read_uniform_sphere(section))),
    ("galaxy", |section, eps| Model::Galaxy(galaxies::read_galaxy(section, eps))),
    ("encounter", |section, eps| Model::Encounter(Box::new(galaxies::read_encounter(section, eps)))),
    ("kepler", |section, _| Model::Kepler(read_kepler(section))),
    ("figure-eight", |_, _| Model::FigureEight(FigureEight)),
    ("pythagorean", |_, _| Model::Pythagorean(Pythagorean)),
    ("solar-system", |section, _| Model::SolarSystem(read_solar_system(section))),
];

/// Returns the names of all models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    READERS.iter().map(|&(name, _)| name)
}

impl Model {
    /// Returns the name in case files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plummer(_) => "plummer",
            Self::Hernquist(_) => "hernquist",
            Self::UniformSphere(_) => "uniform-sphere",
            Self::Galaxy(_) => "galaxy",
            Self::Encounter(_) => "encounter",
            Self::Kepler(_) => "kepler",
            Self::FigureEight(_) => "figure-eight",
            Self::Pythagorean(_) => "pythagorean",
            Self::SolarSystem(_) => "solar-system",
        }
    }

    /// Returns the number of bodies.
    pub fn count(&self) -> u64 {
        match self {
            Self::Plummer(plummer) => plummer.n as u64,
            Self::Hernquist(hernquist) => hernquist.n as u64,
            Self::UniformSphere(sphere) => sphere.n as u64,
            Self::Galaxy(galaxy) => galaxies::count_bodies(galaxy),
            Self::Encounter(pair) => {
                galaxies::count_bodies(&pair.first).saturating_add(galaxies::count_bodies(&pair.second))
            }
            Self::Kepler(_) => 2,
            Self::FigureEight(_) | Self::Pythagorean(_) => 3,
            Self::SolarSystem(_) => SolarSystem::NAMES.len() as u64,
        }
    }

    /// Returns the seeds of the random numbers. Models without random numbers have none.
    pub fn seeds(&self) -> Vec<u64> {
        match self {
            Self::Plummer(plummer) => vec![plummer.seed],
            Self::Hernquist(hernquist) => vec![hernquist.seed],
            Self::UniformSphere(sphere) => vec![sphere.seed],
            Self::Galaxy(galaxy) => vec![galaxy.seed],
            Self::Encounter(pair) => vec![pair.first.seed, pair.second.seed],
            Self::Kepler(_) | Self::FigureEight(_) | Self::Pythagorean(_) | Self::SolarSystem(_) => {
                Vec::new()
            }
        }
    }

    /// Generates the bodies. `g` is the gravitational constant. Returns [`IcError::Stopped`] soon
    /// after `stop` is set.
    pub fn generate_until(&self, g: f64, stop: &AtomicBool) -> Result<Particles, IcError> {
        match self {
            Self::Plummer(model) => model.generate_until(g, stop),
            Self::Hernquist(model) => model.generate_until(g, stop),
            Self::UniformSphere(model) => model.generate_until(g, stop),
            Self::Galaxy(model) => model.generate_until(g, stop),
            Self::Encounter(model) => model.generate_until(g, stop),
            Self::Kepler(model) => model.generate(g),
            Self::FigureEight(model) => model.generate(g),
            Self::Pythagorean(model) => model.generate(g),
            Self::SolarSystem(model) => model.generate(g),
        }
    }

    pub(in crate::case) fn write_keys(&self, w: &mut Writer) {
        match self {
            Self::Plummer(Plummer { n, seed, mass, scale_radius }) => {
                w.integer("n", *n as u64);
                w.integer("seed", *seed);
                w.number("mass", *mass);
                w.number("scale_radius", *scale_radius);
            }
            Self::Hernquist(Hernquist { n, seed, mass, scale_radius, cutoff }) => {
                w.integer("n", *n as u64);
                w.integer("seed", *seed);
                w.number("mass", *mass);
                w.number("scale_radius", *scale_radius);
                w.number("cutoff", *cutoff);
            }
            Self::UniformSphere(UniformSphere { n, seed, mass, radius }) => {
                w.integer("n", *n as u64);
                w.integer("seed", *seed);
                w.number("mass", *mass);
                w.number("radius", *radius);
            }
            Self::Galaxy(galaxy) => galaxies::write_galaxy(w, galaxy),
            Self::Encounter(encounter) => galaxies::write_encounter(w, encounter),
            Self::Kepler(Kepler {
                primary_mass,
                secondary_mass,
                semi_major_axis,
                eccentricity,
                inclination,
                node,
                pericentre,
                mean_anomaly,
            }) => {
                w.number("primary_mass", *primary_mass);
                w.number("secondary_mass", *secondary_mass);
                w.number("semi_major_axis", *semi_major_axis);
                w.number("eccentricity", *eccentricity);
                w.number("inclination", *inclination);
                w.number("node", *node);
                w.number("pericentre", *pericentre);
                w.number("mean_anomaly", *mean_anomaly);
            }
            // No parameters. The solar system takes its units from the case.
            Self::FigureEight(FigureEight) | Self::Pythagorean(Pythagorean) | Self::SolarSystem(_) => {}
        }
    }
}

pub(super) fn read_count(section: &Section<'_>, key: &'static str, least: u64, default: usize) -> usize {
    section.integer(key, least, MAX_INTEGER).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
}

pub(super) fn read_seed(section: &Section<'_>, default: u64) -> u64 {
    section.integer("seed", 0, MAX_INTEGER).unwrap_or(default)
}

pub(super) fn read_length(section: &Section<'_>, key: &'static str, default: f64) -> f64 {
    section.quantity(key, Length, Range::Positive).unwrap_or(default)
}

pub(super) fn read_mass(section: &Section<'_>, key: &'static str, default: f64) -> f64 {
    section.quantity(key, Mass, Range::Positive).unwrap_or(default)
}

pub(super) fn read_angle(section: &Section<'_>, key: &'static str, default: f64) -> f64 {
    section.quantity(key, Angle, Range::Any).unwrap_or(default)
}

fn read_plummer(section: &Section<'_>) -> Plummer {
    let default = Plummer::default();
    Plummer {
        n: read_count(section, "n", 1, default.n),
        seed: read_seed(section, default.seed),
        mass: read_mass(section, "mass", default.mass),
        scale_radius: read_length(section, "scale_radius", default.scale_radius),
    }
}

fn read_hernquist(section: &Section<'_>) -> Hernquist {
    let default = Hernquist::default();
    Hernquist {
        n: read_count(section, "n", 1, default.n),
        seed: read_seed(section, default.seed),
        mass: read_mass(section, "mass", default.mass),
        scale_radius: read_length(section, "scale_radius", default.scale_radius),
        cutoff: section.number("cutoff", Range::Positive).unwrap_or(default.cutoff),
    }
}

fn read_uniform_sphere(section: &Section<'_>) -> UniformSphere {
    let default = UniformSphere::default();
    UniformSphere {
        n: read_count(section, "n", 1, default.n),
        seed: read_seed(section, default.seed),
        mass: read_mass(section, "mass", default.mass),
        radius: read_length(section, "radius", default.radius),
    }
}

fn read_kepler(section: &Section<'_>) -> Kepler {
    let default = Kepler::default();
    let secondary_mass = section.quantity("secondary_mass", Mass, Range::NotNegative);
    Kepler {
        primary_mass: read_mass(section, "primary_mass", default.primary_mass),
        secondary_mass: secondary_mass.unwrap_or(default.secondary_mass),
        semi_major_axis: read_length(section, "semi_major_axis", default.semi_major_axis),
        eccentricity: section.number("eccentricity", Range::BelowOne).unwrap_or(default.eccentricity),
        inclination: read_angle(section, "inclination", default.inclination),
        node: read_angle(section, "node", default.node),
        pericentre: read_angle(section, "pericentre", default.pericentre),
        mean_anomaly: read_angle(section, "mean_anomaly", default.mean_anomaly),
    }
}

fn read_solar_system(section: &Section<'_>) -> SolarSystem {
    if section.units().scale().is_none() {
        section.reject("model", " needs a physical scale, expected units = \"solar\" or \"galactic\"");
    }
    SolarSystem { units: section.units() }
}
