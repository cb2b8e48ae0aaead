//! `[time]`.

use orrery_gravity::settings::{IntegratorChoice, StepChoice};
use orrery_model::Dimension;

use crate::case::TimeSettings;
use crate::case::declare::{
    Kind, Range, SectionSpec, Words, derived_key, key, number, quantity, required_key,
};
use crate::case::physics::{BODIES, FIELDS, FLUIDS, PhysicsName};
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;

const INTEGRATORS: &Words<IntegratorChoice> = &[
    ("leapfrog", IntegratorChoice::Leapfrog, "kick-drift-kick, order 2, one force evaluation per step"),
    ("yoshida4", IntegratorChoice::Yoshida4, "Yoshida's composition, order 4, three force evaluations"),
    ("yoshida6", IntegratorChoice::Yoshida6, "Yoshida's composition, order 6, seven force evaluations"),
    ("blanes-moan4", IntegratorChoice::BlanesMoan4, "Blanes and Moan, order 4, six force evaluations"),
    ("hermite4", IntegratorChoice::Hermite4, "Hermite predictor-corrector, order 4, direct forces only"),
];

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec {
    required: Some("one with step = ... and end = ..."),
    ..SectionSpec::new(
        "time",
        "Integrator, time step, start and end.",
        &[&[
            key("integrator", Kind::Word(&INTEGRATORS), "leapfrog", "Integration method.").only_for(BODIES),
            required_key(
                "step",
                quantity(Dimension::Time, Range::Positive)
                    .or("adaptive", "computed from the state before each step, with `eta`. Such steps are not symplectic: the energy drifts steadily, by an amount that falls with a smaller `eta`"),
                "Time step.",
            )
            .only_for(BODIES),
            key(
                "step",
                quantity(Dimension::Time, Range::Positive)
                    .or("auto", "0.9 times the longest stable step, rounded down to three digits. A shorter run has one step"),
                "auto",
                "Time step. A step beyond the stability limit is an error.",
            )
            .only_for(FIELDS),
            required_key("step", quantity(Dimension::Time, Range::Positive), "Time step.").only_for(FLUIDS),
            key(
                "eta",
                number(Range::UpTo(1.0)),
                "0.02",
                "Accuracy of adaptive steps. A smaller number gives shorter steps.",
            )
            .only_with("step", "adaptive")
            .only_for(BODIES),
            derived_key(
                "start",
                quantity(Dimension::Time, Range::NotNegative),
                "the time of the file of bodies, or else 0",
                "Simulated time at which the run starts.",
            )
            .only_for(&[PhysicsName::Gravity, PhysicsName::Heat]),
            required_key(
                "end",
                quantity(Dimension::Time, Range::Positive),
                "Simulated time at which the run ends. The last step is shortened to end there. Waves take full steps: \
                 they end at the first multiple of the step that is not before it.",
            ),
        ]],
    )
};

/// Reads `[time]`. The integrator belongs to the settings of gravity.
pub(in crate::case) fn read_time(section: &Section<'_>) -> (TimeSettings, IntegratorChoice) {
    let eta = section.number("eta");
    let dt = section.quantity_or_word("step");
    let step = if section.is_word("step", "adaptive") {
        StepChoice::Adaptive { eta }
    } else {
        StepChoice::Fixed(dt.unwrap_or_default())
    };
    let settings =
        TimeSettings { step, start: section.quantity_if_given("start"), end: section.quantity("end") };
    let integrator = section.word("integrator", INTEGRATORS);
    section.finish();
    (settings, integrator)
}

pub(in crate::case) fn write_time(
    w: &mut SectionWriter<'_>,
    settings: &TimeSettings,
    integrator: IntegratorChoice,
) {
    w.word("integrator", INTEGRATORS, &integrator);
    match settings.step {
        StepChoice::Fixed(dt) => w.quantity("step", dt),
        StepChoice::Adaptive { eta } => {
            w.quantity_or_word("step", None);
            w.number("eta", eta);
        }
    }
    match settings.start {
        Some(start) => w.quantity("start", start),
        // The time of the file is known after it is read.
        None => w.leave_out("start"),
    }
    w.quantity("end", settings.end);
}

/// Reads `[time]` of a field or a fluid. `None` for the step "auto" of a field. Waves and fluids
/// start at time 0.
pub(in crate::case) fn read_field_time(
    section: &Section<'_>,
    physics: PhysicsName,
) -> (TimeSettings, Option<f64>) {
    let dt = section.quantity_or_word("step");
    let step = StepChoice::Fixed(dt.unwrap_or_default());
    let start = match physics {
        PhysicsName::Wave | PhysicsName::LennardJones => Some(0.0),
        PhysicsName::Gravity | PhysicsName::Heat => section.quantity_if_given("start"),
    };
    let settings = TimeSettings { step, start, end: section.quantity("end") };
    section.finish();
    (settings, dt)
}

pub(in crate::case) fn write_field_time(
    w: &mut SectionWriter<'_>,
    settings: &TimeSettings,
    physics: PhysicsName,
) {
    let dt = match settings.step {
        StepChoice::Fixed(dt) => Some(dt),
        StepChoice::Adaptive { .. } => None,
    };
    w.quantity_or_word("step", dt);
    if !matches!(physics, PhysicsName::Wave | PhysicsName::LennardJones) {
        w.quantity("start", settings.known_start());
    }
    w.quantity("end", settings.end);
}
