//! The models of `[bodies]`: their keys, readers and writers.
//!
//! Keys have the names and defaults of the parameters in `orrery_model::ic`, which a test checks.

use std::sync::atomic::AtomicBool;

use orrery_model::Dimension::{Angle, Length, Mass};
use orrery_model::Particles;
use orrery_model::ic::{
    Encounter, FigureEight, Galaxy, Hernquist, IcError, Kepler, Plummer, Pythagorean, SolarSystem,
    UniformSphere,
};

use super::galaxies;
use super::image::read_angle;
use crate::case::declare::{
    KeySpec, KeyTables, Range, Variant, When, Word, WordList, integer_from, key, number, quantity,
};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;

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

/// A model of `[bodies]`: its keys and its reader.
pub(in crate::case) struct ModelEntry {
    /// Value of `model`.
    pub name: &'static str,
    /// Meaning, without a period.
    pub meaning: &'static str,
    pub keys: KeyTables,
    /// Reads the model. The number is the softening length.
    pub read: fn(&Section<'_>, f64) -> Model,
}

pub(in crate::case) const MODELS: &[ModelEntry] = &[
    ModelEntry {
        name: "plummer",
        meaning: "star cluster in equilibrium (Plummer sphere)",
        keys: &[PLUMMER_KEYS],
        read: |section, _| Model::Plummer(read_plummer(section)),
    },
    ModelEntry {
        name: "hernquist",
        meaning: "sphere with a central cusp, in equilibrium (Hernquist sphere)",
        keys: &[HERNQUIST_KEYS],
        read: |section, _| Model::Hernquist(read_hernquist(section)),
    },
    ModelEntry {
        name: "uniform-sphere",
        meaning: "uniform sphere at rest",
        keys: &[UNIFORM_SPHERE_KEYS],
        read: |section, _| Model::UniformSphere(read_uniform_sphere(section)),
    },
    ModelEntry {
        name: "galaxy",
        meaning: "disc galaxy in equilibrium: disc, bulge and halo",
        keys: galaxies::GALAXY_KEYS,
        read: |section, eps| Model::Galaxy(galaxies::read_galaxy(section, eps)),
    },
    ModelEntry {
        name: "encounter",
        meaning: "two disc galaxies on a parabolic orbit",
        keys: galaxies::ENCOUNTER_KEYS,
        read: |section, eps| Model::Encounter(Box::new(galaxies::read_encounter(section, eps))),
    },
    ModelEntry {
        name: "kepler",
        meaning: "two bodies on an ellipse",
        keys: &[KEPLER_KEYS],
        read: |section, _| Model::Kepler(read_kepler(section)),
    },
    ModelEntry {
        name: "figure-eight",
        meaning: "three bodies on a figure-eight orbit",
        keys: &[],
        read: |_, _| Model::FigureEight(FigureEight),
    },
    ModelEntry {
        name: "pythagorean",
        meaning: "three bodies at rest on a 3-4-5 triangle",
        keys: &[],
        read: |_, _| Model::Pythagorean(Pythagorean),
    },
    ModelEntry {
        name: "solar-system",
        meaning: "the Sun and eight planets, in solar or galactic units",
        keys: &[],
        read: |section, _| Model::SolarSystem(read_solar_system(section)),
    },
];

impl WordList for &[ModelEntry] {
    fn words(&self) -> Vec<Word> {
        self.iter().map(|model| Word { word: model.name, meaning: model.meaning }).collect()
    }
}

impl ModelEntry {
    pub fn variant(&self) -> Variant {
        let Self { name, meaning, keys, .. } = *self;
        Variant { name, when: When::Is("model", name), meaning, keys }
    }
}

pub(super) const SEED: KeySpec = key("seed", integer_from(0), "1", "Seed of the random numbers.");
const COUNT: KeySpec = key("n", integer_from(1), "1000", "Number of bodies.");
const TOTAL_MASS: KeySpec = mass_key("mass", "1", "Total mass.");

pub(super) const fn mass_key(name: &'static str, default: &'static str, meaning: &'static str) -> KeySpec {
    key(name, quantity(Mass, Range::Positive), default, meaning)
}

pub(super) const fn length_key(name: &'static str, default: &'static str, meaning: &'static str) -> KeySpec {
    key(name, quantity(Length, Range::Positive), default, meaning)
}

/// Largest angle of a model in degrees.
pub(super) const LARGEST_ANGLE: f64 = 360.0;

pub(super) const fn angle_key(name: &'static str, default: &'static str, meaning: &'static str) -> KeySpec {
    key(name, quantity(Angle, Range::Any), default, meaning)
}

const PLUMMER_KEYS: &[KeySpec] = &[
    COUNT,
    SEED,
    TOTAL_MASS,
    length_key(
        "scale_radius",
        "0.5890486225480862",
        "Scale radius a. Half of the mass lies within 1.305 a. With the default, 3 pi / 16, the total energy is \
         -1/4 in units with G = 1 and mass 1.",
    ),
];

const HERNQUIST_KEYS: &[KeySpec] = &[
    COUNT,
    SEED,
    TOTAL_MASS,
    length_key("scale_radius", "1", "Scale radius a. Half of the mass lies within 2.41 a."),
    key(
        "cutoff",
        number(Range::Positive),
        "1000",
        "Largest radius, in scale radii. The speeds are those of a sphere without cutoff, so a cut sphere expands: \
         the virial ratio is 1.02 for 10, 1.05 for 5 and 1.42 for 1.",
    ),
];

const UNIFORM_SPHERE_KEYS: &[KeySpec] =
    &[COUNT, SEED, TOTAL_MASS, length_key("radius", "1", "Radius of the sphere.")];

const KEPLER_KEYS: &[KeySpec] = &[
    mass_key("primary_mass", "0.5", "Mass of the first body."),
    key(
        "secondary_mass",
        quantity(Mass, Range::NotNegative),
        "0.5",
        "Mass of the second body. 0 is a test particle.",
    ),
    length_key("semi_major_axis", "1", "Semi-major axis of the relative orbit."),
    key("eccentricity", number(Range::BelowOne), "0", "Eccentricity of the orbit. 0 is a circle."),
    angle_key(
        "inclination",
        "0",
        "Inclination of the orbit to the x-y plane. Angles are from -360 to 360 degrees. Those without a unit are \
         in radians.",
    ),
    angle_key("node", "0", "Longitude of the ascending node."),
    angle_key("pericentre", "0", "Argument of the pericentre."),
    angle_key("mean_anomaly", "0", "Mean anomaly at the start. It is 0 at the pericentre."),
];

/// Returns the names of all models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
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

    pub(in crate::case) fn write_keys(&self, w: &mut SectionWriter<'_>) {
        match self {
            Self::Plummer(Plummer { n, seed, mass, scale_radius }) => {
                w.integer("n", *n as u64);
                w.integer("seed", *seed);
                w.quantity("mass", *mass);
                w.quantity("scale_radius", *scale_radius);
            }
            Self::Hernquist(Hernquist { n, seed, mass, scale_radius, cutoff }) => {
                w.integer("n", *n as u64);
                w.integer("seed", *seed);
                w.quantity("mass", *mass);
                w.quantity("scale_radius", *scale_radius);
                w.number("cutoff", *cutoff);
            }
            Self::UniformSphere(UniformSphere { n, seed, mass, radius }) => {
                w.integer("n", *n as u64);
                w.integer("seed", *seed);
                w.quantity("mass", *mass);
                w.quantity("radius", *radius);
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
                w.quantity("primary_mass", *primary_mass);
                w.quantity("secondary_mass", *secondary_mass);
                w.quantity("semi_major_axis", *semi_major_axis);
                w.number("eccentricity", *eccentricity);
                w.quantity("inclination", *inclination);
                w.quantity("node", *node);
                w.quantity("pericentre", *pericentre);
                w.quantity("mean_anomaly", *mean_anomaly);
            }
            // No parameters. The solar system takes its units from the case.
            Self::FigureEight(FigureEight) | Self::Pythagorean(Pythagorean) | Self::SolarSystem(_) => {}
        }
    }
}

fn read_plummer(section: &Section<'_>) -> Plummer {
    Plummer {
        n: section.count("n"),
        seed: section.integer("seed"),
        mass: section.quantity("mass"),
        scale_radius: section.quantity("scale_radius"),
    }
}

fn read_hernquist(section: &Section<'_>) -> Hernquist {
    Hernquist {
        n: section.count("n"),
        seed: section.integer("seed"),
        mass: section.quantity("mass"),
        scale_radius: section.quantity("scale_radius"),
        cutoff: section.number("cutoff"),
    }
}

fn read_uniform_sphere(section: &Section<'_>) -> UniformSphere {
    UniformSphere {
        n: section.count("n"),
        seed: section.integer("seed"),
        mass: section.quantity("mass"),
        radius: section.quantity("radius"),
    }
}

fn read_kepler(section: &Section<'_>) -> Kepler {
    Kepler {
        primary_mass: section.quantity("primary_mass"),
        secondary_mass: section.quantity("secondary_mass"),
        semi_major_axis: section.quantity("semi_major_axis"),
        eccentricity: section.number("eccentricity"),
        inclination: read_angle(section, "inclination", LARGEST_ANGLE),
        node: read_angle(section, "node", LARGEST_ANGLE),
        pericentre: read_angle(section, "pericentre", LARGEST_ANGLE),
        mean_anomaly: read_angle(section, "mean_anomaly", LARGEST_ANGLE),
    }
}

fn read_solar_system(section: &Section<'_>) -> SolarSystem {
    if section.units().scale().is_none() {
        section.reject("model", " needs a physical scale, expected units = \"solar\" or \"galactic\"");
    }
    SolarSystem { units: section.units() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{BodiesSource, Case, CaseSource};

    #[test]
    fn defaults_of_the_keys_are_those_of_the_models() {
        let load = |model: &ModelEntry| {
            let text =
                format!("units = \"solar\"\nbodies.model = {:?}\ntime = {{ step = 1, end = 2 }}", model.name);
            let source = CaseSource::Text { label: "case".into(), text, folder: Default::default() };
            let case = Case::load(&source, &[]).unwrap_or_else(|e| panic!("{e}"));
            match &case.gravity().unwrap().bodies {
                BodiesSource::Model(model) => model.clone(),
                BodiesSource::File(file) => panic!("{}", file.path.display()),
            }
        };
        let defaults = [
            Model::Plummer(Plummer::default()),
            Model::Hernquist(Hernquist::default()),
            Model::UniformSphere(UniformSphere::default()),
            Model::Galaxy(Galaxy::default()),
            Model::Encounter(Box::default()),
            Model::Kepler(Kepler::default()),
            Model::FigureEight(FigureEight),
            Model::Pythagorean(Pythagorean),
            Model::SolarSystem(SolarSystem::default()),
        ];
        for (model, default) in MODELS.iter().zip(&defaults) {
            assert_eq!(load(model), *default);
        }
        assert_eq!(MODELS.len(), defaults.len());
    }
}
