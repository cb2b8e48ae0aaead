//! `[gravity]`.

use orrery_gravity::settings::{Acceptance, GravitySettings, MAX_THETA, SolverChoice};
use orrery_model::{Dimension, Precision};

use crate::case::declare::{Kind, Range, SectionSpec, Words, key, number, quantity};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;

const SOLVERS: &Words<SolverChoice> = &[
    ("auto", SolverChoice::Auto, "the faster one for this number of bodies"),
    ("direct", SolverChoice::Direct, "sum over all pairs"),
    ("tree", SolverChoice::Tree, "Barnes-Hut tree"),
];
const ACCEPTANCES: &Words<bool> = &[
    ("geometric", false, "the opening angle `theta` decides"),
    ("relative", true, "the estimated error must be below `accuracy` times the acceleration of the body"),
];
const PRECISIONS: &Words<Precision> = &[
    (Precision::Single.as_str(), Precision::Single, "f32"),
    (Precision::Mixed.as_str(), Precision::Mixed, "f32 products, differences of near pairs and sums in f64"),
    (Precision::Double.as_str(), Precision::Double, "f64"),
];

const LARGEST_ALPHA: f64 = 0.1;

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec::new(
    "gravity",
    "How the forces are computed.",
    &[&[
        key("solver", Kind::Word(&SOLVERS), "auto", "Force solver."),
        key(
            "acceptance",
            Kind::Word(&ACCEPTANCES),
            "geometric",
            "Criterion by which a distant cell of the tree acts as one source.",
        ),
        key(
            "accuracy",
            number(Range::UpTo(LARGEST_ALPHA)),
            "0.0025",
            "Tolerated error of one cell, as a fraction of the acceleration.",
        )
        .only_with("acceptance", "relative"),
        key(
            "theta",
            number(Range::UpTo(MAX_THETA)),
            "0.6",
            "Opening angle of the tree. A smaller angle is more accurate and slower. With \
             `acceptance = \"relative\"` it is used only for the first forces of the run.",
        ),
        key(
            "softening",
            quantity(Dimension::Length, Range::NotNegative),
            "0",
            "Plummer softening length. 0 is none.",
        ),
        key("precision", Kind::Word(&PRECISIONS), "mixed", "Floating-point precision of the forces."),
    ]],
);

pub(in crate::case) fn read_gravity(section: &Section<'_>) -> GravitySettings {
    let theta = section.number("theta");
    let alpha = section.number("accuracy");
    let settings = GravitySettings {
        g: section.units().gravitational_constant(),
        eps: section.quantity("softening"),
        solver: section.word("solver", SOLVERS),
        acceptance: match section.word("acceptance", ACCEPTANCES) {
            true => Acceptance::Relative { alpha, theta },
            false => Acceptance::Geometric { theta },
        },
        precision: section.word("precision", PRECISIONS),
    };
    section.finish();
    settings
}

pub(in crate::case) fn write_gravity(w: &mut SectionWriter<'_>, settings: &GravitySettings) {
    w.word("solver", SOLVERS, &settings.solver);
    match settings.acceptance {
        Acceptance::Geometric { theta } => {
            w.word("acceptance", ACCEPTANCES, &false);
            w.number("theta", theta);
        }
        Acceptance::Relative { alpha, theta } => {
            w.word("acceptance", ACCEPTANCES, &true);
            w.number("accuracy", alpha);
            w.number("theta", theta);
        }
    }
    w.quantity("softening", settings.eps);
    w.word("precision", PRECISIONS, &settings.precision);
}
