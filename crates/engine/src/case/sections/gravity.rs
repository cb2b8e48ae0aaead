//! `[gravity]`.

use orrery_model::{Dimension, Precision};
use orrery_particles::settings::{Acceptance, GravitySettings, MAX_THETA, SolverChoice};

use super::Words;
use crate::case::reader::{Range, Section};

pub(in crate::case) const SOLVERS: &Words<SolverChoice> =
    &[("auto", SolverChoice::Auto), ("direct", SolverChoice::Direct), ("tree", SolverChoice::Tree)];
pub(in crate::case) const PRECISIONS: &Words<Precision> = &[
    (Precision::Single.as_str(), Precision::Single),
    (Precision::Mixed.as_str(), Precision::Mixed),
    (Precision::Double.as_str(), Precision::Double),
];

const LARGEST_ALPHA: f64 = 0.1;

pub(in crate::case) fn read_gravity(section: &Section<'_>) -> GravitySettings {
    let solver = section.choice("solver", SOLVERS).unwrap_or_default();
    let theta = section.number("theta", Range::UpTo(MAX_THETA)).unwrap_or(0.6);
    let relative = section.choice("acceptance", &[("geometric", false), ("relative", true)]).unwrap_or(false);
    let alpha = section.number("accuracy", Range::UpTo(LARGEST_ALPHA)).unwrap_or(0.0025);
    let eps = section.quantity("softening", Dimension::Length, Range::NotNegative).unwrap_or(0.0);
    let precision = section.choice("precision", PRECISIONS).unwrap_or_default();
    if !relative {
        section.reject_unless_applicable("accuracy", "acceptance", "acceptance = \"relative\"");
    }
    section.report_unknown_keys();
    GravitySettings {
        g: section.units().gravitational_constant(),
        eps,
        solver,
        acceptance: if relative {
            Acceptance::Relative { alpha, theta }
        } else {
            Acceptance::Geometric { theta }
        },
        precision,
    }
}
