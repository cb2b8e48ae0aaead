//! `model = "galaxy"` and `model = "encounter"`.
//!
//! `n` stands for all bodies together and sets the counts of disc, bulge and halo that are not given
//! themselves. In an encounter it is shared by the two galaxies, and what `[bodies.second]` leaves out is as
//! in `[bodies.first]`, except for the seed: two galaxies of one seed would be copies of each other.

use orrery_model::ic::{Encounter, Galaxy, Orientation};

use super::models::{angle, count, length, mass, seed};
use crate::case::reader::{MOST, Range, Section};
use crate::case::resolved::Writer;

/// Shares of the disc and of the bulge in `n`; the halo has the rest. The halo's bodies are heavier than the
/// disc's, and fewer of them would heat it.
const DISC_SHARE: f64 = 0.4;
const BULGE_SHARE: f64 = 0.1;

/// All bodies of a galaxy.
pub(super) fn count_bodies(galaxy: &Galaxy) -> u64 {
    [galaxy.n_disc, galaxy.n_bulge, galaxy.n_halo].into_iter().fold(0, |sum, n| sum.saturating_add(n as u64))
}

pub(super) fn read_galaxy(section: &Section<'_>, eps: f64) -> Galaxy {
    galaxy(section, Galaxy { eps, ..Galaxy::default() })
}

pub(super) fn read_encounter(section: &Section<'_>, eps: f64) -> Encounter {
    let default = Encounter::default();
    let first = Galaxy { eps, ..default.first };
    let n = section.integer("n", 2, MOST);
    let first = match n {
        Some(n) => with_bodies(first, n / 2),
        None => first,
    };
    let (first, first_orientation) =
        tilted_galaxy(&section.section("first"), first, default.first_orientation);
    // Of an odd number the second galaxy takes the larger half.
    let odd = n.filter(|n| count_bodies(&first) == n / 2).map_or(0, |n| (n % 2) as usize);
    let n_halo = first.n_halo + odd;
    let second = Galaxy { seed: first.seed.wrapping_add(1) % MOST, n_halo, ..first.clone() };
    let (second, second_orientation) = tilted_galaxy(&section.section("second"), second, first_orientation);
    let pericentre = length(section, "pericentre", default.pericentre);
    let separation = length(section, "separation", default.separation);
    if separation < pericentre {
        if section.has("separation") {
            section.refuse("separation", &format!(" is outside separation >= pericentre = {pericentre}"));
        } else {
            section.refuse("pericentre", &format!(" is outside pericentre <= separation = {separation}"));
        }
    }
    Encounter { first, second, first_orientation, second_orientation, pericentre, separation }
}

fn tilted_galaxy(section: &Section<'_>, default: Galaxy, tilt: Orientation) -> (Galaxy, Orientation) {
    let galaxy = galaxy(section, default);
    let orientation = Orientation {
        inclination: angle(section, "inclination", tilt.inclination),
        argument: angle(section, "argument", tilt.argument),
    };
    section.finish();
    (galaxy, orientation)
}

fn galaxy(section: &Section<'_>, default: Galaxy) -> Galaxy {
    let default = match section.integer("n", 1, MOST) {
        Some(n) => with_bodies(default, n),
        None => default,
    };
    let galaxy = Galaxy {
        n_disc: count(section, "n_disc", 0, default.n_disc),
        n_bulge: count(section, "n_bulge", 0, default.n_bulge),
        n_halo: count(section, "n_halo", 0, default.n_halo),
        seed: seed(section, default.seed),
        disc_mass: mass(section, "disc_mass", default.disc_mass),
        disc_scale_length: length(section, "disc_scale_length", default.disc_scale_length),
        disc_scale_height: length(section, "disc_scale_height", default.disc_scale_height),
        bulge_mass: mass(section, "bulge_mass", default.bulge_mass),
        bulge_scale_radius: length(section, "bulge_scale_radius", default.bulge_scale_radius),
        halo_mass: mass(section, "halo_mass", default.halo_mass),
        halo_scale_radius: length(section, "halo_scale_radius", default.halo_scale_radius),
        halo_cutoff: section.number("halo_cutoff", Range::Positive).unwrap_or(default.halo_cutoff),
        toomre_q: section.number("toomre_q", Range::Positive).unwrap_or(default.toomre_q),
        eps: default.eps,
    };
    if count_bodies(&galaxy) == 0 {
        let message = "a galaxy without bodies, expected n_disc + n_bulge + n_halo > 0";
        section.problem(section.location_of("n_disc"), message.to_owned());
    }
    galaxy
}

fn with_bodies(galaxy: Galaxy, n: u64) -> Galaxy {
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
