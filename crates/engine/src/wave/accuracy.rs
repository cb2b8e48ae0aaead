//! Report of the estimated error of the waves of a run.

use orrery_fields::wave::{SpaceOrder, TimeDispersion, WaveAccuracy, WaveProblem};
use orrery_model::{Units, short_number};

use super::start::{WALL_VELOCITY, fixed_step, time_dispersion};
use crate::case::{Case, WaveCase};
use crate::control::RunEvent;
use crate::system::ReportFn;

/// Error of a trace above which a run warns.
const LIMIT: f64 = 0.05;
/// The limit of runs without receivers, whose images have the error in time. The phase is wrong by
/// 1/25 of a wavelength.
const IMAGE_LIMIT: f64 = 0.25;

/// Reports the estimated error of traces, as a warning if it is above the limit.
pub(super) fn report_accuracy(
    case: &Case,
    wave: &WaveCase,
    problem: &WaveProblem,
    report: &mut ReportFn<'_>,
) {
    // Waves in walls do not count.
    let walls = if wave.has_walls() { WALL_VELOCITY } else { 1.0 };
    let slowest = problem.velocity_range()[0] / walls;
    let limit = if wave.receiver_count() > 0 { LIMIT } else { IMAGE_LIMIT };
    let Some(found) = WaveAccuracy::estimate(problem, fixed_step(case), case.time.end, slowest, limit) else {
        return;
    };
    let text = estimate_text(case, wave, &found);
    // The negation includes NaN.
    if found.error <= limit {
        report(RunEvent::Accuracy(&text));
    } else {
        let percent = significant(100.0 * limit, 2);
        report(RunEvent::InputWarning(&format!(
            "{text}, above {percent}%; {}",
            remedy(case, wave, &found, limit)
        )));
    }
}

/// Describes the estimate, for example "estimated error of traces 0.8%: order 8, 5 points per
/// wavelength at 50 Hz, path 1.25 km".
fn estimate_text(case: &Case, wave: &WaveCase, found: &WaveAccuracy) -> String {
    let what = if wave.receiver_count() > 0 { "traces" } else { "images" };
    let error = significant(100.0 * found.error, 2);
    let points = significant(found.points_per_wavelength, 3);
    let frequency = significant(found.largest_frequency, 3);
    let path = case.units.format_length(found.path);
    let hertz = if case.units == Units::Si { " Hz" } else { "" };
    let raw = match time_dispersion(wave) {
        TimeDispersion::Raw if wave.receiver_count() > 0 => ", not corrected in time",
        _ => "",
    };
    format!(
        "estimated error of {what} {error}%: order {}{raw}, {points} points per wavelength at {frequency}{hertz} with the \
         smallest velocity, path {path}",
        wave.order.number()
    )
}

/// Names the settings that give an error below the limit.
fn remedy(case: &Case, wave: &WaveCase, found: &WaveAccuracy, limit: f64) -> String {
    let mut remedies = vec![format!("spacings of at most {}", case.units.format_length(found.spacing))];
    if wave.order != SpaceOrder::Eighth && found.with_order_8 <= limit {
        remedies.push("wave.order = 8".to_owned());
    }
    if time_dispersion(wave) == TimeDispersion::Raw && found.without_time_dispersion <= limit {
        remedies.push("wave.time_dispersion = \"corrected\"".to_owned());
    }
    format!("expected {}, or lower frequencies", remedies.join(", or "))
}

/// Formats a number with some significant digits.
fn significant(value: f64, digits: usize) -> String {
    let rounded = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    short_number(rounded)
}
