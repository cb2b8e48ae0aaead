//! Tables, plots and JSON of scaling.

use orrery_draw::plot::{Axis, Plot, Series, Style};
use orrery_model::analysis::max_or_nan;
use serde_json::{Value, json};

use super::model::{MessageLink, Messages, Prediction};
use super::{LinkTimes, MeasuredPhysics, PREDICTED_RANKS, RankMeasurement, ScalingStudy};
use crate::format::{
    format_number, format_percent, format_rate, format_seconds, format_thousands, wrap_text,
};

const WIDTH: usize = 80;
/// Deviation of the model that is accepted.
const MAX_DEVIATION: f64 = 0.15;
/// Most ranks for which a crossover is searched.
const MOST_RANKS: usize = 10_000;

impl MeasuredPhysics {
    /// Describes the problem of size `n`.
    fn describe(self, n: usize) -> String {
        match self {
            Self::Wave => format!("wave, {n}³ nodes, f32, order 8, uniform velocity; slabs of planes"),
            Self::Heat => format!("heat, {n}² nodes, f32, uniform conductivity; slabs of rows"),
            Self::Gravity => {
                let n = format_thousands(n);
                format!("gravity, {n} bodies, tree, mixed precision, theta 0.6; every rank builds the tree")
            }
            Self::LennardJones => {
                format!("lj, {} particles, melt; slabs with ghost particles", format_thousands(n))
            }
        }
    }
}

/// Formats the times of messages, all ranks at once.
pub fn link_lines(links: &[LinkTimes]) -> Vec<String> {
    let mut lines = Vec::new();
    if links.is_empty() {
        return lines;
    }
    lines.push("exchanges without computation, all ranks at once".to_owned());
    lines.push(format!("{:>7} {:>11} {:>9} {:>10}", "ranks", "bytes", "time", "rate"));
    for LinkTimes { ranks, paths, times, link, of_steps } in links {
        for (bytes, secs) in times {
            let (size, time) = (format_thousands(*bytes as usize), format_seconds(*secs));
            lines.push(format!("{ranks:>7} {size:>11} {time:>9} {:>10}", format_rate(bytes / secs, "B/s")));
        }
        let of_size = match link.bytes_per_s {
            f64::INFINITY => " for any size".to_owned(),
            bytes_per_s => format!(" + bytes / {}", format_rate(bytes_per_s, "B/s")),
        };
        let latency = format_seconds(link.latency_secs);
        let deviation = format_percent(Some(link.largest_deviation(times)));
        lines.push(format!("{ranks:>7} fit: {latency}{of_size}, deviation at most {deviation}"));
        for path in paths {
            lines.push(format!("{ranks:>7} path: {}", path.as_str()));
        }
        if let Some(line) = of_steps {
            let [fixed, per_mb] = [line.fixed, 1e6 * line.per_unit].map(format_seconds);
            lines.push(format!("{ranks:>7} in steps of other sizes: {fixed} + {per_mb} per MB"));
        }
    }
    lines.push(String::new());
    lines
}

/// Formats the measured times of a physics, their model, and the prediction with a link.
pub fn physics_lines(study: &ScalingStudy, link: &MessageLink) -> Vec<String> {
    let ScalingStudy { physics, n, .. } = study;
    let mut lines = wrap_text(&physics.describe(*n), WIDTH);
    lines.push(String::new());
    lines.extend(link_lines(&study.links));
    lines.extend(one_rank_lines(study));
    if study.steps.iter().any(|step| step.ranks > 1) {
        lines.push(String::new());
        lines.push(format!("strong scaling: {} {} in all", format_thousands(*n), physics.elements()));
        lines.extend(step_lines(study.strong(), |step| {
            study.one_rank_secs() / (step.slots as f64 * step.measured_secs)
        }));
        lines.extend(amdahl_lines(study));
        lines.push(String::new());
        lines.push(format!("weak scaling: {} {} per rank", format_thousands(*n), physics.elements()));
        lines.extend(step_lines(study.weak(), |step| {
            let work = step.ranks as f64 / step.slots as f64;
            work * study.one_rank_secs() / step.measured_secs
        }));
        lines.push(String::new());
        lines.extend(size_lines(study));
        lines.push(String::new());
        lines.push(check_line(study));
    }
    for (ranks, per_rank) in &study.too_large {
        let elements = physics.elements();
        lines.push(format!("not measured, too large for the memory: {ranks} ranks x {per_rank} {elements}"));
    }
    lines.push(String::new());
    lines.extend(prediction_lines(study, link));
    lines
}

fn one_rank_lines(study: &ScalingStudy) -> Vec<String> {
    let model = &study.model;
    let per_element = |slope: f64| {
        let singular = study.physics.elements().trim_end_matches('s').replace("bodie", "body");
        format!("{} per {singular}", format_seconds(slope))
    };
    let fixed = format_seconds(model.divided.fixed + model.replicated.fixed);
    let deviation = format_percent(Some(study.one_rank_deviation));
    let text = if model.is_n_log_n {
        let slope = format_seconds(model.divided.per_unit);
        format!(
            "computation of one rank: walk of {slope} per body and log2 of their number, which ranks divide; {} \
             for build and motion, which every rank repeats; and {fixed} (deviation at most {deviation})",
            per_element(model.replicated.per_unit)
        )
    } else {
        let slope = per_element(model.divided.per_unit);
        format!("computation of one rank: {fixed} + {slope} (deviation at most {deviation})")
    };
    wrap_text(&text, WIDTH)
}

/// Formats a table of measured steps. `efficiency` is relative to one rank.
fn step_lines<'a>(
    steps: impl Iterator<Item = &'a RankMeasurement>,
    efficiency: impl Fn(&RankMeasurement) -> f64,
) -> Vec<String> {
    let heading = format!(
        "{:>7} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6}",
        "ranks", "slots", "per rank", "compute", "communic.", "model", "measured", "dev.", "effic."
    );
    let row = |step: &RankMeasurement| {
        let times = [step.computation_secs, step.communication_secs, step.model_secs, step.measured_secs];
        let [computation, communication, model, measured] = times.map(format_time);
        format!(
            "{:>7} {:>5} {:>9} {computation:>9} {communication:>9} {model:>9} {measured:>9} {:>6} {:>6}",
            step.ranks,
            step.slots,
            format_thousands(step.per_rank),
            format_deviation(step.deviation()),
            format_percent(Some(efficiency(step)))
        )
    };
    std::iter::once(heading).chain(steps.map(row)).collect()
}

fn format_time(secs: f64) -> String {
    if secs == 0.0 { "-".to_owned() } else { format_seconds(secs) }
}

fn format_deviation(deviation: f64) -> String {
    if deviation >= 10.0 { "> 999%".to_owned() } else { format!("{:+.0}%", 100.0 * deviation) }
}

fn amdahl_lines(study: &ScalingStudy) -> Vec<String> {
    let Some(fraction) = study.serial_fraction else {
        return wrap_text("Amdahl's law is not fitted: the ranks do not compute at the same time", WIDTH);
    };
    let limit = if fraction > 0.0 { format_number(1.0 / fraction) } else { "unlimited".to_owned() };
    let fraction = format_percent(Some(fraction));
    let text =
        format!("Amdahl's law fitted to these times: serial fraction {fraction}, speedup at most {limit}");
    wrap_text(&text, WIDTH)
}

/// Formats computation and communication over the size of a part.
fn size_lines(study: &ScalingStudy) -> Vec<String> {
    let ranks = study.by_size().next().map_or(1, |step| step.ranks);
    let title = match study.model.messages {
        Messages::Borders { .. } => "thickness of a slab",
        _ => "size of a part",
    };
    let mut lines = vec![
        format!("computation and communication over the {title}, {ranks} ranks"),
        format!(
            "{:>10} {:>9} {:>9} {:>9} {:>9} {:>6} {:>7} {:>5} {:>5}",
            study.physics.elements(),
            "compute",
            "communic.",
            "model",
            "measured",
            "dev.",
            "compute",
            "comm.",
            "wait"
        ),
    ];
    lines.extend(study.by_size().map(|step| {
        let times = [step.computation_secs, step.communication_secs, step.model_secs, step.measured_secs];
        let [computation, communication, model, measured] = times.map(format_time);
        let [computing, communicating, waiting] = step.shares.map(|share| format_percent(Some(share)));
        format!(
            "{:>10} {computation:>9} {communication:>9} {model:>9} {measured:>9} {:>6} {computing:>7} \
             {communicating:>5} {waiting:>5}",
            format_thousands(step.per_rank),
            format_deviation(step.deviation())
        )
    }));
    if let Some(last) = study.by_size().last() {
        lines.push(format!("imbalance of the last line: {}", format_number(last.imbalance)));
    }
    lines
}

/// Compares the model with all times of several ranks at the sizes of strong and weak scaling.
fn check_line(study: &ScalingStudy) -> String {
    let largest = largest_deviation(study);
    let verdict = if largest <= MAX_DEVIATION { "within" } else { "NOT within" };
    format!(
        "model: largest deviation of strong and weak scaling {}, {verdict} {}",
        format_percent(Some(largest)),
        format_percent(Some(MAX_DEVIATION))
    )
}

/// Returns the largest deviation of the model from the times of several ranks. A time that is NaN
/// makes it NaN.
pub(super) fn largest_deviation(study: &ScalingStudy) -> f64 {
    let steps = study.strong().chain(study.weak()).filter(|step| step.ranks > 1);
    steps.map(|step| step.deviation().abs()).fold(0.0, max_or_nan)
}

/// Returns the predictions of strong and weak scaling for many ranks.
pub(super) fn predictions(study: &ScalingStudy, link: &MessageLink) -> Vec<(usize, [Option<Prediction>; 2])> {
    let (model, n) = (&study.model, study.n as f64);
    let both = |ranks| [model.predict_strong(n, ranks, link), model.predict_weak(n, ranks, link)];
    PREDICTED_RANKS.into_iter().map(|ranks| (ranks, both(ranks))).collect()
}

fn processors(study: &ScalingStudy) -> &'static str {
    if study.is_on_device { "GPUs" } else { "ranks" }
}

fn prediction_lines(study: &ScalingStudy, link: &MessageLink) -> Vec<String> {
    let (elements, n) = (study.physics.elements(), format_thousands(study.n));
    let ranks = processors(study);
    let mut lines = wrap_text(&assumptions(study, link), WIDTH);
    lines.push(format!(
        "{:>7}  {:^34}  {:^34}",
        "",
        format!("strong: {n} {elements} in all"),
        format!("weak: {n} {elements} each")
    ));
    lines.push(format!(
        "{ranks:>7}  {:>9} {:>9} {:>9} {:>5} {:>9} {:>9} {:>9} {:>5}",
        "compute", "communic.", "step", "eff.", "compute", "communic.", "step", "eff."
    ));
    let cells = |prediction: &Option<Prediction>| match prediction {
        None => format!("{:>9} {:>9} {:>9} {:>5}", "-", "-", "-", "-"),
        Some(prediction) => {
            let Prediction { computation_secs, communication_secs, step_secs, efficiency, .. } = prediction;
            let [computation, communication, step] =
                [computation_secs, communication_secs, step_secs].map(|secs| format_seconds(*secs));
            let efficiency = format_percent(Some(*efficiency));
            format!("{computation:>9} {communication:>9} {step:>9} {efficiency:>5}")
        }
    };
    for (ranks, [strong, weak]) in predictions(study, link) {
        lines.push(format!("{:>7}  {} {}", format_thousands(ranks), cells(&strong), cells(&weak)));
    }
    lines.extend(wrap_text(&crossover_text(study, link), WIDTH));
    lines
}

fn assumptions(study: &ScalingStudy, link: &MessageLink) -> String {
    let staging = study.model.staging.map_or(String::new(), |staging| {
        format!(
            ", copies between device and host at {} and {}, as MPI without CUDA support needs them",
            format_rate(staging.bytes_per_s, "B/s"),
            format_seconds(staging.latency_secs)
        )
    });
    let overlap = match (study.model.overlaps, &study.model.messages) {
        (true, _) => "; communication overlaps with computation",
        (false, _) => "; communication and computation one after the other",
    };
    format!(
        "prediction: each rank has its own {} as fast as one rank here, links of {} per direction and {}{staging}\
         {overlap}",
        if study.is_on_device { "GPU" } else { "cores" },
        format_rate(link.bytes_per_s, "B/s"),
        format_seconds(link.latency_secs),
    )
}

fn crossover_text(study: &ScalingStudy, link: &MessageLink) -> String {
    let model = &study.model;
    let ranks = model.crossover_ranks(study.n as f64, MOST_RANKS, link);
    let of_ranks = match ranks {
        Some(ranks) => format!("strong scaling: from {} {} on", format_thousands(ranks), processors(study)),
        None => "strong scaling: for no possible number of ranks".to_owned(),
    };
    let of_slices = match (model.messages, model.crossover_slices(link)) {
        (Messages::Borders { .. }, Some(slices)) => {
            format!("; slabs: at {} {}", format_number(slices), study.physics.elements())
        }
        (Messages::Borders { .. }, None) => "; slabs: at no thickness".to_owned(),
        _ => String::new(),
    };
    format!("communication takes as long as computation, {of_ranks}{of_slices}")
}

/// Draws computation, communication and measured steps over the size of a part: the plot of the
/// course for slabs.
pub fn plot(study: &ScalingStudy, title: &str) -> Plot {
    let ranks = study.by_size().next().map_or(1, |step| step.ranks);
    let points = |value: fn(&RankMeasurement) -> f64| -> Vec<(f64, f64)> {
        study.by_size().map(|step| (step.per_rank as f64, 1e3 * value(step))).collect()
    };
    let marks = Series {
        name: format!("step of {ranks} ranks, measured"),
        points: points(|step| step.measured_secs),
        style: Style::Points,
    };
    let model = Series {
        name: "step, model".to_owned(),
        points: points(|step| step.model_secs),
        style: Style::Dashed,
    };
    Plot {
        title: format!("{}: computation and communication", study.physics.name()),
        subtitle: title.to_owned(),
        x: Axis::log(format!("{} per rank", study.physics.elements())),
        y: Axis::log("time of a step / ms"),
        series: vec![
            Series::line("computation", points(|step| step.computation_secs)),
            Series::line("communication", points(|step| step.communication_secs)),
            model,
            marks,
        ],
    }
}

/// Draws the predicted efficiency of all physics over the number of ranks.
pub fn efficiency_plot(studies: &[ScalingStudy], link: &MessageLink, title: &str) -> Plot {
    let series = |study: &ScalingStudy, kind: usize| {
        let points = predictions(study, link).into_iter().map(|(ranks, both)| {
            let efficiency = both[kind].map_or(f64::NAN, |prediction| prediction.efficiency);
            (ranks as f64, 100.0 * efficiency)
        });
        Series {
            name: format!("{}, {}", study.physics.name(), ["strong", "weak"][kind]),
            points: points.collect(),
            style: [Style::Line, Style::Dashed][kind],
        }
    };
    Plot {
        title: "Predicted parallel efficiency".to_owned(),
        subtitle: title.to_owned(),
        x: Axis::log(studies.first().map_or("ranks", processors)),
        y: Axis::linear("efficiency / %"),
        series: studies.iter().flat_map(|study| [series(study, 0), series(study, 1)]).collect(),
    }
}

/// Returns the results of a physics as a JSON object.
pub fn to_json(study: &ScalingStudy, link: &MessageLink) -> Value {
    let mut value = serde_json::to_value(study).expect("plain data always serialises");
    let predictions = predictions(study, link)
        .into_iter()
        .map(|(ranks, [strong, weak])| json!({ "ranks": ranks, "strong": strong, "weak": weak }));
    value["case"] = json!("scaling");
    value["largest_deviation"] = json!(largest_deviation(study));
    value["prediction"] = json!({
        "link": link,
        "ranks": predictions.collect::<Vec<_>>(),
        "crossover_ranks": study.model.crossover_ranks(study.n as f64, MOST_RANKS, link),
        "crossover_slices": study.model.crossover_slices(link),
    });
    value
}
