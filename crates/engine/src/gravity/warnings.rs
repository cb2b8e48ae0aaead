//! Settings of bodies that are legal and do not give what they seem to.

use orrery_model::ic::{Hernquist, Kepler};
use orrery_model::{Particles, Units, four_digits};

use crate::case::{BodiesSource, Case, GravityCase, Model};

/// Cutoff of a Hernquist sphere in scale radii, below which 2 K / |W| is above 1.02.
const SMALLEST_CUTOFF: f64 = 10.0;

/// Returns a line for each setting that does not give what it seems to, with numbers and a remedy.
pub(super) fn setup_warnings(case: &Case, gravity: &GravityCase, particles: &Particles) -> Vec<String> {
    let eps = gravity.settings.eps;
    let of_model = match &gravity.bodies {
        BodiesSource::Model(Model::Hernquist(model)) => cutoff_warning(model),
        BodiesSource::Model(Model::Kepler(model)) => pericentre_warning(model, eps, case.units),
        _ => None,
    };
    of_model.into_iter().chain(softening_warning(particles, eps, case.units)).collect()
}

fn cutoff_warning(model: &Hernquist) -> Option<String> {
    (model.cutoff < SMALLEST_CUTOFF).then(|| {
        format!(
            "bodies.cutoff = {} scale radii cuts a sphere that is not in equilibrium: 2 K / |W| is {}, so it expands; \
             expected at least {SMALLEST_CUTOFF}",
            four_digits(model.cutoff),
            four_digits(model.virial_ratio())
        )
    })
}

fn pericentre_warning(model: &Kepler, eps: f64, units: Units) -> Option<String> {
    let pericentre = model.semi_major_axis * (1.0 - model.eccentricity);
    (eps > pericentre).then(|| {
        format!(
            "gravity.softening = {} is longer than the pericentre distance, {}: the orbit is not the ellipse of the case; \
             expected a softening far below it, or 0",
            units.format_length(eps),
            units.format_length(pericentre)
        )
    })
}

/// Reports a softening with which the bodies have hardly any gravity.
fn softening_warning(particles: &Particles, eps: f64, units: Units) -> Option<String> {
    let radius = half_mass_radius(particles).filter(|radius| eps > *radius)?;
    let text = |length: f64| units.format_length(length);
    Some(format!(
        "gravity.softening = {} is longer than the half-mass radius of the bodies, {}: forces are far too weak, and a model \
         in equilibrium expands; expected a softening far below it, such as {}",
        text(eps),
        text(radius),
        text(0.05 * radius)
    ))
}

/// Returns the radius about the centre of mass that contains half of the mass. `None` if one body
/// has half of the mass, such as the Sun.
fn half_mass_radius(particles: &Particles) -> Option<f64> {
    let mass = &particles.mass;
    let total: f64 = mass.iter().sum();
    if total <= 0.0 || mass.iter().any(|m| *m >= 0.5 * total) {
        return None;
    }
    let mut centre = [0.0; 3];
    for (position, m) in particles.position.iter().zip(mass) {
        for (centre, x) in centre.iter_mut().zip(position) {
            *centre += x * (m / total);
        }
    }
    let radius = |position: [f64; 3]| {
        position.iter().zip(centre).map(|(x, centre)| (x - centre).powi(2)).sum::<f64>().sqrt()
    };
    let mut bodies: Vec<(f64, f64)> =
        particles.position.iter().zip(mass).map(|(position, m)| (radius(position), *m)).collect();
    bodies.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut inside = 0.0;
    let found = bodies.iter().find(|(_, m)| {
        inside += m;
        inside >= 0.5 * total
    });
    found.map(|(radius, _)| *radius)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use orrery_formats::Limits;

    use super::*;
    use crate::case::CaseSource;
    use crate::gravity::initial_bodies;

    fn warnings(text: &str) -> Vec<String> {
        let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: Default::default() };
        warnings_of(&Case::load(&source, &[]).unwrap_or_else(|e| panic!("{e}")))
    }

    fn warnings_of(case: &Case) -> Vec<String> {
        let gravity = case.gravity().unwrap();
        let stop = AtomicBool::new(false);
        let start = initial_bodies(case, gravity, &Limits::default(), &stop, &mut |_| {}).unwrap();
        setup_warnings(case, gravity, &start.particles)
    }

    #[test]
    fn settings_that_spoil_a_model_are_reported_with_numbers() {
        let with = |bodies: &str, softening: f64| {
            warnings(&format!(
                "[bodies]\n{bodies}\n[gravity]\nsoftening = {softening:?}\n[time]\nstep = 0.01\nend = 1.0\n"
            ))
        };
        let hernquist = |cutoff: f64| format!("model = \"hernquist\"\nn = 100\ncutoff = {cutoff:?}");
        let expected = "bodies.cutoff = 1 scale radii cuts a sphere that is not in equilibrium: 2 K / |W| is 1.417, so it \
                        expands; expected at least 10";
        assert_eq!(with(&hernquist(1.0), 0.01), [expected]);
        assert_eq!(with(&hernquist(10.0), 0.01), [""; 0]);

        let kepler = "model = \"kepler\"\neccentricity = 0.9";
        let expected = "gravity.softening = 0.3 is longer than the pericentre distance, 0.1: the orbit is not the ellipse \
                        of the case; expected a softening far below it, or 0";
        assert_eq!(with(kepler, 0.3), [expected]);
        assert_eq!(with(kepler, 0.05), [""; 0]);

        let found = with("model = \"plummer\"\nn = 200", 5.0);
        assert!(
            found.len() == 1
                && found[0].starts_with(
                    "gravity.softening = 5 is longer than the half-mass radius of the bodies, 0."
                ),
            "{found:?}"
        );
        assert_eq!(with("model = \"plummer\"\nn = 200", 0.3), [""; 0]);
    }

    /// One body of the solar system has nearly all of the mass.
    #[test]
    fn presets_of_bodies_are_not_reported() {
        for preset in crate::case::presets() {
            let source = CaseSource::Text {
                label: preset.name.into(),
                text: preset.text.into(),
                folder: Default::default(),
            };
            let sets = if preset.text.contains("model = \"encounter\"") {
                vec!["bodies.n=2000".to_owned()]
            } else {
                vec![]
            };
            let Ok(case) = Case::load(&source, &sets) else { panic!("{}", preset.name) };
            if case.gravity().is_some() {
                assert_eq!(warnings_of(&case), [""; 0], "{}", preset.name);
            }
        }
    }

    #[test]
    fn half_of_the_mass_is_within_its_radius() {
        let bodies = Hernquist { n: 4000, ..Hernquist::default() }.generate(1.0).unwrap();
        // Of a cutoff of 1000 a.
        let radius = half_mass_radius(&bodies).unwrap();
        assert!((radius / 2.41 - 1.0).abs() < 0.1, "{radius}");
        let kepler = Kepler { primary_mass: 2.0, secondary_mass: 1.0, ..Kepler::default() };
        assert_eq!(half_mass_radius(&kepler.generate(1.0).unwrap()), None);
    }
}
