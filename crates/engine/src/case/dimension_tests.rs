//! Every key of every section has its dimension, and refuses units of another one.

use orrery_model::{Dimension, Units};

use super::declare::{KeySpec, Kind, SectionSpec, SelectedDimension, Variant};
use super::document::{Entry, Location, Value};
use super::physics::PhysicsName;
use super::reader::{Findings, Section};
use super::sections::top;

/// Keys that are numbers without a unit: ratios, and amplitudes whose unit the case does not know.
const DIMENSIONLESS: &[&str] = &[
    "bodies.cutoff",
    "bodies.eccentricity",
    "bodies.first.halo_cutoff",
    "bodies.first.toomre_q",
    "bodies.halo_cutoff",
    "bodies.second.halo_cutoff",
    "bodies.second.toomre_q",
    "bodies.toomre_q",
    "gravity.accuracy",
    "gravity.theta",
    "image.high",
    "image.low",
    "lennard_jones.cutoff",
    "lennard_jones.species.fraction",
    "lennard_jones.switch_start",
    "limits.energy_error",
    "limits.heat_error",
    "particles.minimise_force",
    "time.eta",
    "wave.source.amplitude",
];

/// Dimensions of all other keys. A second one is that of another setting.
const DIMENSIONS: &str = "
bodies.bulge_mass: mass
bodies.bulge_scale_radius: length
bodies.disc_mass: mass
bodies.disc_scale_height: length
bodies.disc_scale_length: length
bodies.first.argument: angle
bodies.first.bulge_mass: mass
bodies.first.bulge_scale_radius: length
bodies.first.disc_mass: mass
bodies.first.disc_scale_height: length
bodies.first.disc_scale_length: length
bodies.first.halo_mass: mass
bodies.first.halo_scale_radius: length
bodies.first.inclination: angle
bodies.halo_mass: mass
bodies.halo_scale_radius: length
bodies.inclination: angle
bodies.mass: mass
bodies.mean_anomaly: angle
bodies.node: angle
bodies.pericentre: angle
bodies.pericentre: length
bodies.primary_mass: mass
bodies.radius: length
bodies.scale_radius: length
bodies.second.argument: angle
bodies.second.bulge_mass: mass
bodies.second.bulge_scale_radius: length
bodies.second.disc_mass: mass
bodies.second.disc_scale_height: length
bodies.second.disc_scale_length: length
bodies.second.halo_mass: mass
bodies.second.halo_scale_radius: length
bodies.second.inclination: angle
bodies.secondary_mass: mass
bodies.semi_major_axis: length
bodies.separation: length
checkpoint.every: time
gravity.softening: length
grid.depth: length
grid.height: length
grid.hx: length
grid.hy: length
grid.hz: length
grid.width: length
heat.conductivity: diffusivity, conductivity
heat.east.profile: temperature, temperature × length per time, heat flux
heat.east.value: temperature, temperature × length per time, heat flux
heat.heat_capacity: heat capacity
heat.north.profile: temperature, temperature × length per time, heat flux
heat.north.value: temperature, temperature × length per time, heat flux
heat.region.conductivity: diffusivity, conductivity
heat.region.heat_capacity: heat capacity
heat.region.height: length
heat.region.radius: length
heat.region.source: temperature per time, heat per volume and time
heat.region.width: length
heat.region.x: length
heat.region.y: length
heat.source: temperature per time, heat per volume and time
heat.south.profile: temperature, temperature × length per time, heat flux
heat.south.value: temperature, temperature × length per time, heat flux
heat.stop_range: temperature
heat.west.profile: temperature, temperature × length per time, heat flux
heat.west.value: temperature, temperature × length per time, heat flux
image.azimuth: angle
image.center: length
image.elevation: angle
image.high: temperature
image.low: temperature
image.position: length
image.width: length
initial.amplitude: temperature
initial.background: temperature
initial.first: temperature
initial.high: temperature
initial.low: temperature
initial.radius: length
initial.second: temperature
initial.value: temperature
initial.x: length
initial.y: length
lennard_jones.damping: length
lennard_jones.pair.epsilon: energy
lennard_jones.pair.sigma: length
lennard_jones.skin: length
lennard_jones.species.epsilon: energy
lennard_jones.species.mass: mass
lennard_jones.species.sigma: length
output.image_every: time
output.record_every: time
output.snapshot_every: time
particles.density: number per volume, number per area
particles.length: length
particles.mass_density: density, mass per area
particles.temperature: temperature
particles.vapour_density: number per volume
structure.every: time
structure.from: time
structure.radius: length
thermostat.temperature: temperature
thermostat.time: time
thermostat.until: time
time.end: time
time.start: time
time.step: time
wave.layer.top: length
wave.layer.velocity: velocity
wave.receivers.dx: length
wave.receivers.dy: length
wave.receivers.dz: length
wave.receivers.x: length
wave.receivers.y: length
wave.receivers.z: length
wave.region.depth: length
wave.region.height: length
wave.region.radius: length
wave.region.velocity: velocity
wave.region.width: length
wave.region.x: length
wave.region.y: length
wave.region.z: length
wave.snapshot.x_from: length
wave.snapshot.x_to: length
wave.snapshot.y_from: length
wave.snapshot.y_to: length
wave.snapshot.z_from: length
wave.snapshot.z_to: length
wave.source.delay: time
wave.source.frequency: frequency
wave.source.interval: time
wave.source.x: length
wave.source.y: length
wave.source.z: length
wave.velocity: velocity
wave.velocity_gradient: velocity per length
";

/// A key with its path and the section in which it is read.
struct Found {
    path: String,
    key: &'static KeySpec,
    spec: &'static SectionSpec,
    variant: Option<Variant>,
}

fn walk(spec: &'static SectionSpec, path: &str, found: &mut Vec<Found>) {
    let common = spec.common_keys().map(|key| (key, None));
    let variants = (spec.variants)().into_iter();
    let of_variants = variants
        .flat_map(|variant| variant.keys.iter().copied().flatten().map(move |key| (key, Some(variant))));
    for (key, variant) in common.chain(of_variants) {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        match key.kind {
            Kind::Section(below) | Kind::Sections(below) => walk(below, &path, found),
            _ => found.push(Found { path, key, spec, variant }),
        }
    }
}

fn all_keys() -> Vec<Found> {
    let mut found = Vec::new();
    walk(top::SPEC, "", &mut found);
    found
}

#[test]
fn every_key_has_its_dimension() {
    let keys = all_keys();
    let mut numbers: Vec<&str> = keys
        .iter()
        .filter(|found| matches!(found.key.kind, Kind::Number { .. }))
        .map(|found| &*found.path)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, DIMENSIONLESS);

    let mut lines: Vec<String> = keys
        .iter()
        .filter(|found| !found.key.kind.dimensions().is_empty())
        .map(|found| {
            let names: Vec<String> = found.key.kind.dimensions().iter().map(Dimension::to_string).collect();
            format!("{}: {}", found.path, names.join(", "))
        })
        .collect();
    lines.sort_unstable();
    lines.dedup();
    let lines = lines.join("\n");
    assert!(lines == DIMENSIONS.trim(), "{lines}");
}

/// Reads `text` as the value of a key. Returns the error.
fn read(
    found: &Found,
    physics: PhysicsName,
    units: Units,
    text: &str,
    dimension: Dimension,
) -> Option<String> {
    let key = found.key.name;
    let location = Location::Whole;
    let item = |key: &str, value, text: String| Entry {
        key: key.to_owned(),
        key_location: location.clone(),
        location: location.clone(),
        value,
        text,
    };
    let string = || item("", Value::String(text.to_owned()), text.to_owned());
    let value = match found.key.kind {
        Kind::Quantities { .. } => Value::Array(vec![string(), string()]),
        Kind::Point(_) => Value::Array(vec![string(), string(), string()]),
        _ => Value::String(text.to_owned()),
    };
    let entries = [item(key, value, text.to_owned())];
    let findings = Findings::default();
    let section = Section::root(found.spec, physics, &entries, &findings).with_units(units);
    found.variant.iter().for_each(|variant| section.add_variant(variant));
    let selected = SelectedDimension { dimension, reason: "" };
    match found.key.kind {
        Kind::Quantity { others: [], .. } => {
            section.quantity_if_given(key);
        }
        Kind::Quantity { .. } => {
            section.quantity_of_if_given(key, selected);
        }
        Kind::Quantities { .. } => {
            section.quantities_if_given(key, selected);
        }
        Kind::Interval => {
            section.interval(key);
        }
        _ => return None,
    }
    Some(findings.check_no_problems("case").err().map_or(String::new(), |error| error.to_string()))
}

#[test]
fn a_unit_of_another_dimension_is_refused_with_the_right_one() {
    let mut count = 0;
    for found in all_keys() {
        let owner = |physics: &&PhysicsName| found.key.applies_to(**physics);
        let physics = PhysicsName::ALL.iter().find(owner).copied().unwrap_or(PhysicsName::Gravity);
        // The same names exist for several physics, and the first one is read.
        let is_first = found.variant.is_some()
            || found
                .spec
                .keys_of(physics)
                .find(|key| key.name == found.key.name)
                .is_some_and(|key| std::ptr::eq(key, found.key));
        if !is_first {
            continue;
        }
        for dimension in found.key.kind.dimensions() {
            let units = if physics == PhysicsName::LennardJones { Units::Real } else { Units::Si };
            let refused = |text: &str| read(&found, physics, units, text, dimension);
            let Some(message) = refused("1 kg^5") else { continue };
            let expected =
                format!("'kg^5' is a unit of mass^5, expected {} such as \"", dimension.with_article());
            assert!(message.contains(&expected), "{}: {message}", found.path);
            let message = refused(&format!("1 {}", dimension.si_unit())).unwrap_or_default();
            assert!(!message.contains("unit"), "{}: {message}", found.path);
            count += 1;
        }
    }
    assert!(count > 90, "{count}");
}
