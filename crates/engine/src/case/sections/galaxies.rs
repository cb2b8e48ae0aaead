//! `model = "galaxy"` and `model = "encounter"`.
//!
//! `n` is the number of all bodies. It sets the numbers of disc, bulge and halo bodies that are not
//! given. In an encounter, the two galaxies share `n`. Keys that are missing in `[bodies.second]`
//! are as in `[bodies.first]`. The seed is an exception: two galaxies with the same seed would be
//! copies of each other.

use orrery_model::ic::{Encounter, Galaxy, Orientation};

use super::models::{read_angle, read_count, read_length, read_mass, read_seed};
use crate::case::reader::{MAX_INTEGER, Range, Section};
use crate::case::resolved::Writer;

/// Fractions of `n` in the disc and in the bulge. The halo has the rest. Halo bodies are heavier
/// than disc bodies, and with fewer of them they would heat the disc.
const DISC_SHARE: f64 = 0.4;
const BULGE_SHARE: f64 = 0.1;

/// Returns the number of bodies of a galaxy.
pub(super) fn count_bodies(galaxy: &Galaxy) -> u64 {
    [galaxy.n_disc, galaxy.n_bulge, galaxy.n_halo].into_iter().fold(0, |sum, n| sum.saturating_add(n as u64))
}

pub(super) fn read_galaxy(section: &Section<'_>, eps: f64) -> Galaxy {
    galaxy_from_keys(section, Galaxy { eps, ..Galaxy::default() })
}

pub(super) fn read_encounter(section: &Section<'_>, eps: f64) -> Encounter {
    let default = Encounter::default();
    let first = Galaxy { eps, ..default.first };
    let n = section.integer("n", 2, MAX_INTEGER);
    let first = match n {
        Some(n) => with_body_count(first, n / 2),
        None => first,
    };
    let (first, first_orientation) =
        tilted_galaxy(&section.section("first"), first, default.first_orientation);
    // With an odd number, the second galaxy gets one body more.
    let odd = n.filter(|n| count_bodies(&first) == n / 2).map_or(0, |n| (n % 2) as usize);
    let n_halo = first.n_halo + odd;
    let second = Galaxy { seed: first.seed.wrapping_add(1) % MAX_INTEGER, n_halo, ..first.clone() };
    let (second, second_orientation) = tilted_galaxy(&section.section("second"), second, first_orientation);
    let pericentre = read_length(section, "pericentre", default.pericentre);
    let separation = read_length(section, "separation", default.separation);
    if separation < pericentre {
        if section.has_key("separation") {
            section.reject("separation", &format!(" is outside separation >= pericentre = {pericentre}"));
        } else {
            section.reject("pericentre", &format!(" is outside pericentre <= separation = {separation}"));
        }
    }
    Encounter { first, second, first_orientation, second_orientation, pericentre, separation }
}

fn tilted_galaxy(section: &Section<'_>, default: Galaxy, tilt: Orientation) -> (Galaxy, Orientation) {
    let galaxy = galaxy_from_keys(section, default);
    let orientation = Orientation {
        inclination: read_angle(section, "inclination", tilt.inclination),
        argument: read_angle(section, "argument", tilt.argument),
    };
    section.report_unknown_keys();
    (galaxy, orientation)
}

fn galaxy_from_keys(section: &Section<'_>, default: Galaxy) -> Galaxy {
    let default = match section.integer("n", 1, MAX_INTEGER) {
        Some(n) => with_body_count(default, n),
        None => default,
    };
    let galaxy = Galaxy {
        n_disc: read_count(section, "n_disc", 0, default.n_disc),
        n_bulge: read_count(section, "n_bulge", 0, default.n_bulge),
        n_halo: read_count(section, "n_halo", 0, default.n_halo),
        seed: read_seed(section, default.seed),
        disc_mass: read_mass(section, "disc_mass", default.disc_mass),
        disc_scale_length: read_length(section, "disc_scale_length", default.disc_scale_length),
        disc_scale_height: read_length(section, "disc_scale_height", default.disc_scale_height),
        bulge_mass: read_mass(section, "bulge_mass", default.bulge_mass),
        bulge_scale_radius: read_length(section, "bulge_scale_radius", default.bulge_scale_radius),
        halo_mass: read_mass(section, "halo_mass", default.halo_mass),
        halo_scale_radius: read_length(section, "halo_scale_radius", default.halo_scale_radius),
        halo_cutoff: section.number("halo_cutoff", Range::Positive).unwrap_or(default.halo_cutoff),
        toomre_q: section.number("toomre_q", Range::Positive).unwrap_or(default.toomre_q),
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

pub(super) fn write_galaxy(w: &mut Writer, galaxy: &Galaxy) {
    w.integer("n_disc", galaxy.n_disc as u64);
    w.integer("n_bulge", galaxy.n_bulge as u64);
    w.integer("n_halo", galaxy.n_halo as u64);
    w.integer("seed", galaxy.seed);
    w.number("disc_mass", galaxy.disc_mass);
    w.number("disc_scale_length", galaxy.disc_scale_length);
    w.number("disc_scale_height", galaxy.disc_scale_height);
    w.number("bulge_mass", galaxy.bulge_mass);
    w.number("bulge_scale_radius", galaxy.bulge_scale_radius);
    w.number("halo_mass", galaxy.halo_mass);
    w.number("halo_scale_radius", galaxy.halo_scale_radius);
    w.number("halo_cutoff", galaxy.halo_cutoff);
    w.number("toomre_q", galaxy.toomre_q);
}

pub(super) fn write_encounter(w: &mut Writer, encounter: &Encounter) {
    w.number("pericentre", encounter.pericentre);
    w.number("separation", encounter.separation);
    let galaxies = [
        ("bodies.first", &encounter.first, &encounter.first_orientation),
        ("bodies.second", &encounter.second, &encounter.second_orientation),
    ];
    for (path, galaxy, orientation) in galaxies {
        w.section(path);
        write_galaxy(w, galaxy);
        w.number("inclination", orientation.inclination);
        w.number("argument", orientation.argument);
    }
}
