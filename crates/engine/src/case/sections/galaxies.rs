//! `model = "galaxy"` and `model = "encounter"`.
//!
//! `n` is the number of all bodies. It sets the numbers of disc, bulge and halo bodies that are not
//! given. In an encounter, the two galaxies share `n`. Keys that are missing in `[bodies.second]`
//! are as in `[bodies.first]`. The seed is an exception: two galaxies with the same seed would be
//! copies of each other.

use orrery_model::ic::{DiscOrientation, Encounter, Galaxy};

use super::image::read_angle;
use super::models::{LARGEST_ANGLE, SEED, angle_key, length_key, mass_key};
use crate::case::declare::{
    KeySpec, KeyTables, MAX_INTEGER, Range, SectionSpec, derived_key, integer_from, key, number, section_key,
};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;

/// Fractions of `n` in the disc and in the bulge. The halo has the rest. Halo bodies are heavier
/// than disc bodies, and with fewer of them they would heat the disc.
const DISC_SHARE: f64 = 0.4;
const BULGE_SHARE: f64 = 0.1;

pub(in crate::case) const GALAXY_KEYS: KeyTables = &[COUNT_KEYS, &[SEED], SHAPE_KEYS];

pub(in crate::case) const ENCOUNTER_KEYS: KeyTables = &[&[
    derived_key(
        "n",
        integer_from(2),
        "the sum of both galaxies",
        "Number of bodies, shared by the two galaxies.",
    ),
    length_key("pericentre", "8", "Smallest distance of the two centres, for point masses."),
    length_key("separation", "60", "Initial distance of the two centres, at least that of the pericentre."),
    section_key(FIRST),
    section_key(SECOND),
]];

const FIRST: &SectionSpec = &SectionSpec::new(
    "first",
    "The first galaxy. Without `n` here, `n` is half of that of `[bodies]`.",
    &[COUNT_KEYS, &[SEED], SHAPE_KEYS, ORIENTATION_KEYS],
);

const SECOND: &SectionSpec = &SectionSpec {
    defaults_from: Some(FIRST.name),
    ..SectionSpec::new(
        "second",
        "The second galaxy. If `n` of `[bodies]` is odd, it has one halo body more than the first.",
        &[SECOND_KEYS, SHAPE_KEYS, ORIENTATION_KEYS],
    )
};

const COUNT_KEYS: &[KeySpec] = &[
    derived_key(
        "n",
        integer_from(1),
        "the sum of `n_disc`, `n_bulge` and `n_halo`",
        "Number of bodies. It sets the numbers of disc, bulge and halo bodies that are not given.",
    ),
    derived_key("n_disc", integer_from(0), "2/5 of `n`, or 10000 without `n`", "Number of disc bodies."),
    derived_key("n_bulge", integer_from(0), "1/10 of `n`, or 2500 without `n`", "Number of bulge bodies."),
    derived_key("n_halo", integer_from(0), "the rest of `n`, or 20000 without `n`", "Number of halo bodies."),
];

const SECOND_KEYS: &[KeySpec] = &[
    derived_key(
        "n",
        integer_from(1),
        "as in `first`",
        "Number of bodies. It sets the numbers of disc, bulge and halo bodies that are not given.",
    ),
    derived_key("n_disc", integer_from(0), "2/5 of `n`, or as in `first`", "Number of disc bodies."),
    derived_key("n_bulge", integer_from(0), "1/10 of `n`, or as in `first`", "Number of bulge bodies."),
    derived_key("n_halo", integer_from(0), "the rest of `n`, or as in `first`", "Number of halo bodies."),
    derived_key("seed", integer_from(0), "the seed of `first` + 1", "Seed of the random numbers."),
];

const SHAPE_KEYS: &[KeySpec] = &[
    mass_key("disc_mass", "4", "Mass of the disc."),
    length_key("disc_scale_length", "3", "Radial scale length of the disc."),
    length_key("disc_scale_height", "0.4", "Vertical scale height of the disc."),
    mass_key("bulge_mass", "1", "Mass of the bulge."),
    length_key("bulge_scale_radius", "0.6", "Scale radius of the bulge."),
    mass_key("halo_mass", "24", "Mass of the halo, all of it within the cutoff."),
    length_key("halo_scale_radius", "10", "Scale radius of the halo."),
    key("halo_cutoff", number(Range::Positive), "6", "Radius where the halo ends, in its scale radii."),
    key(
        "toomre_q",
        number(Range::Positive),
        "1.5",
        "Smallest value of Toomre's Q over the disc. Below 1 the disc fragments, at 1.5 it is stable.",
    ),
];

const ORIENTATION_KEYS: &[KeySpec] = &[
    angle_key(
        "inclination",
        "60 deg",
        "Angle between the spins of the disc and of the orbit, from -360 to 360 degrees.",
    ),
    angle_key("argument", "-30 deg", "Angle from the ascending node of the disc to the pericentre."),
];

/// Returns the number of bodies of a galaxy.
pub(super) fn count_bodies(galaxy: &Galaxy) -> u64 {
    [galaxy.n_disc, galaxy.n_bulge, galaxy.n_halo].into_iter().fold(0, |sum, n| sum.saturating_add(n as u64))
}

pub(super) fn read_galaxy(section: &Section<'_>, eps: f64) -> Galaxy {
    let seed = section.integer("seed");
    galaxy_from_keys(section, Galaxy { eps, seed, ..Galaxy::default() })
}

pub(super) fn read_encounter(section: &Section<'_>, eps: f64) -> Encounter {
    let (first_section, second_section) = (section.section("first"), section.section("second"));
    let n = section.integer_if_given("n");
    let default = Galaxy { eps, seed: first_section.integer("seed"), ..Galaxy::default() };
    let default = match n {
        Some(n) => with_body_count(default, n / 2),
        None => default,
    };
    let (first, first_orientation) = tilted_galaxy(&first_section, default);
    // With an odd number, the second galaxy gets one body more.
    let odd = n.filter(|n| count_bodies(&first) == n / 2).map_or(0, |n| (n % 2) as usize);
    let n_halo = first.n_halo + odd;
    // Two galaxies with the same seed would be copies of each other.
    let seed = second_section.integer_if_given("seed");
    let seed = seed.unwrap_or(first.seed.wrapping_add(1) % MAX_INTEGER);
    let (second, second_orientation) =
        tilted_galaxy(&second_section, Galaxy { seed, n_halo, ..first.clone() });
    let (pericentre, separation) = (section.quantity("pericentre"), section.quantity("separation"));
    if separation < pericentre {
        if section.has_key("separation") {
            section.reject("separation", &format!(" is outside separation >= pericentre = {pericentre}"));
        } else {
            section.reject("pericentre", &format!(" is outside pericentre <= separation = {separation}"));
        }
    }
    Encounter { first, second, first_orientation, second_orientation, pericentre, separation }
}

fn tilted_galaxy(section: &Section<'_>, default: Galaxy) -> (Galaxy, DiscOrientation) {
    let galaxy = galaxy_from_keys(section, default);
    let orientation = DiscOrientation {
        inclination: read_angle(section, "inclination", LARGEST_ANGLE),
        argument: read_angle(section, "argument", LARGEST_ANGLE),
    };
    section.finish();
    (galaxy, orientation)
}

/// Reads a galaxy. `default` has the numbers of bodies that are not given, the seed and the
/// softening.
fn galaxy_from_keys(section: &Section<'_>, default: Galaxy) -> Galaxy {
    let default = match section.integer_if_given("n") {
        Some(n) => with_body_count(default, n),
        None => default,
    };
    let count = |key, default| {
        section.integer_if_given(key).map_or(default, |n| usize::try_from(n).unwrap_or(usize::MAX))
    };
    let galaxy = Galaxy {
        n_disc: count("n_disc", default.n_disc),
        n_bulge: count("n_bulge", default.n_bulge),
        n_halo: count("n_halo", default.n_halo),
        seed: default.seed,
        disc_mass: section.quantity("disc_mass"),
        disc_scale_length: section.quantity("disc_scale_length"),
        disc_scale_height: section.quantity("disc_scale_height"),
        bulge_mass: section.quantity("bulge_mass"),
        bulge_scale_radius: section.quantity("bulge_scale_radius"),
        halo_mass: section.quantity("halo_mass"),
        halo_scale_radius: section.quantity("halo_scale_radius"),
        halo_cutoff: section.number("halo_cutoff"),
        toomre_q: section.number("toomre_q"),
        eps: default.eps,
    };
    if count_bodies(&galaxy) == 0 {
        let message = "the galaxy has no bodies, expected n_disc + n_bulge + n_halo > 0";
        section.add_problem(section.location_of("n_disc"), message.to_owned());
    }
    galaxy
}

fn with_body_count(galaxy: Galaxy, n: u64) -> Galaxy {
    let share = |fraction: f64| (fraction * n as f64) as usize;
    let (n_disc, n_bulge) = (share(DISC_SHARE), share(BULGE_SHARE));
    Galaxy { n_disc, n_bulge, n_halo: (n as usize).saturating_sub(n_disc + n_bulge), ..galaxy }
}

pub(super) fn write_galaxy(w: &mut SectionWriter<'_>, galaxy: &Galaxy) {
    // The numbers of disc, bulge and halo bodies replace it.
    w.leave_out("n");
    w.integer("n_disc", galaxy.n_disc as u64);
    w.integer("n_bulge", galaxy.n_bulge as u64);
    w.integer("n_halo", galaxy.n_halo as u64);
    w.integer("seed", galaxy.seed);
    w.quantity("disc_mass", galaxy.disc_mass);
    w.quantity("disc_scale_length", galaxy.disc_scale_length);
    w.quantity("disc_scale_height", galaxy.disc_scale_height);
    w.quantity("bulge_mass", galaxy.bulge_mass);
    w.quantity("bulge_scale_radius", galaxy.bulge_scale_radius);
    w.quantity("halo_mass", galaxy.halo_mass);
    w.quantity("halo_scale_radius", galaxy.halo_scale_radius);
    w.number("halo_cutoff", galaxy.halo_cutoff);
    w.number("toomre_q", galaxy.toomre_q);
}

pub(super) fn write_encounter(w: &mut SectionWriter<'_>, encounter: &Encounter) {
    w.leave_out("n");
    w.quantity("pericentre", encounter.pericentre);
    w.quantity("separation", encounter.separation);
    let galaxies = [
        ("first", &encounter.first, &encounter.first_orientation),
        ("second", &encounter.second, &encounter.second_orientation),
    ];
    for (key, galaxy, orientation) in galaxies {
        w.section(key, |w| {
            write_galaxy(w, galaxy);
            w.quantity("inclination", orientation.inclination);
            w.quantity("argument", orientation.argument);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::declare::DefaultValue;

    /// The default numbers of bodies are texts in the declarations.
    #[test]
    fn described_counts_are_those_of_the_default_galaxy() {
        let galaxy = Galaxy::default();
        for (key, n) in [("n_disc", galaxy.n_disc), ("n_bulge", galaxy.n_bulge), ("n_halo", galaxy.n_halo)] {
            let spec = COUNT_KEYS.iter().find(|spec| spec.name == key).unwrap();
            let DefaultValue::Derived(text) = spec.default else { panic!("{key}") };
            assert!(text.contains(&format!(" or {n} without `n`")), "{text}");
        }
        let parts = with_body_count(galaxy, 1000);
        assert_eq!((parts.n_disc, parts.n_bulge, parts.n_halo), (400, 100, 500));
    }
}
