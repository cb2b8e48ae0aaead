//! Tables of a ladder, at most 80 columns wide: results, and the hardware resources of each rung.

use super::{Ladder, RungResult};
use crate::format::{
    format_count, format_number, format_percent, format_rate, format_seconds, truncate_text, wrap_text,
};

/// Width of the name column.
const NAME_WIDTH: usize = 30;

/// Formats the time, rate, share of peak, gains and error of each rung.
pub fn results_table(ladder: &Ladder) -> Vec<String> {
    let mut lines = heading_lines(ladder);
    let (unit, scale) = ladder.unit.column_heading();
    lines.push(String::new());
    lines.push(format!(
        "  {:<NAME_WIDTH$} {:>8} {:>7} {:>7} {:>6} {:>7} {:>7}",
        "rung", "time", unit, "of peak", "gain", "total", "error"
    ));
    lines.extend(ladder.rungs.iter().map(|rung| {
        let error = rung.error.map_or_else(|| "-".to_owned(), |error| format!("{error:.1e}"));
        format!(
            "  {:<NAME_WIDTH$} {:>8} {:>7} {:>7} {:>6} {:>7} {:>7}",
            truncate_text(&rung.name, NAME_WIDTH),
            format_seconds(rung.seconds),
            format_number(rung.rate / scale),
            format_percent(rung.share_of_peak),
            format_gain(rung.gain),
            format_gain(rung.total_gain),
            error
        )
    }));
    lines.extend(note_lines(ladder));
    lines
}

/// Formats the registers, shared memory, occupancy and GFLOP/s of each rung, and the gains that the
/// course reports.
pub fn hardware_table(ladder: &Ladder) -> Vec<String> {
    let with_course = ladder.rungs.iter().any(|rung| rung.course.is_some());
    let course = if with_course { format!("{:>6} {:>6} {:>6}", "1.3", "2.0", "3.0") } else { String::new() };
    let mut lines = Vec::new();
    if with_course {
        lines.push(format!("{:>80}", "gain in the course, by"));
        lines.push(format!("{:>80}", "compute capability"));
    }
    lines.push(format!(
        "  {:<NAME_WIDTH$} {:>4} {:>6} {:>6} {:>7} {course}",
        "rung", "regs", "shared", "occup.", "GFLOP/s"
    ));
    lines.extend(ladder.rungs.iter().map(hardware_line));
    lines.push("  regs: registers per thread; shared: bytes of shared memory per block;".to_owned());
    lines.push("  occup.: fraction of an SM's thread slots in use".to_owned());
    if with_course {
        lines.push(
            "  course: slides on N-body simulation in CUDA, based on M. Burtscher's tutorial;".to_owned(),
        );
        lines.push("  1.3: Quadro FX 5800, 2.0: Tesla C2050, 3.0: GeForce GTX 680".to_owned());
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

fn hardware_line(rung: &RungResult) -> String {
    let number =
        |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| format_count(value as usize));
    let course = rung.course.map_or_else(String::new, |gains| {
        let [first, second, third] = gains.map(format_number);
        format!("{first:>6} {second:>6} {third:>6}")
    });
    format!(
        "  {:<NAME_WIDTH$} {:>4} {:>6} {:>6} {:>7} {course}",
        truncate_text(&rung.name, NAME_WIDTH),
        number(rung.registers),
        number(rung.shared_bytes),
        format_percent(rung.occupancy),
        rung.flops.map_or_else(|| "-".to_owned(), |flops| format_number(flops / 1e9)),
    )
}

fn heading_lines(ladder: &Ladder) -> Vec<String> {
    let repeats = ladder.rungs.iter().map(|rung| rung.repeats);
    let median = match (repeats.clone().min(), repeats.max()) {
        (Some(least), Some(most)) if least < most => format!("median of {least} to {most} runs"),
        (Some(repeats), _) => format!("median of {repeats} runs"),
        _ => "nothing measured".to_owned(),
    };
    let mut lines = vec![
        format!("{}, {} {}", ladder.title, format_count(ladder.n), ladder.size_unit),
        ladder.device.clone(),
        match ladder.flops_per_unit {
            Some(flops) => {
                format!("{} flops per {}, {median}", format_number(flops), ladder.unit.item_name())
            }
            None => median,
        },
    ];
    lines.extend(peak_line(ladder));
    lines.extend(ladder.remarks.iter().flat_map(|remark| wrap_text(remark, 80)));
    lines
}

/// Describes the peak that the column `of peak` refers to.
fn peak_line(ladder: &Ladder) -> Option<String> {
    let format_flops = |flops: f64| format_rate(flops, "FLOP/s");
    let peak = match (ladder.roofs.theoretical_flops, ladder.roofs.flops) {
        (Some(peak), Some(measured)) => {
            format!("{} ({} measured)", format_flops(peak), format_flops(measured))
        }
        (Some(peak), None) => format_flops(peak),
        (None, Some(measured)) => format!("{} measured", format_flops(measured)),
        (None, None) => return None,
    };
    Some(format!("f32 peak: {peak}; CPU and f64 peaks differ"))
}

/// Formats the remarks of the rungs, and the size of rungs that were measured with a smaller
/// problem.
fn note_lines(ladder: &Ladder) -> Vec<String> {
    let rung_note = |rung: &RungResult| {
        let size = (rung.n != ladder.n)
            .then(|| format!("measured with {} {}", format_count(rung.n), ladder.size_unit));
        let remark = (!rung.note.is_empty()).then(|| rung.note.clone());
        let parts: Vec<String> = size.into_iter().chain(remark).collect();
        (!parts.is_empty()).then(|| wrap_text(&format!("{}: {}", rung.name, parts.join("; ")), 78))
    };
    let mut lines: Vec<String> =
        ladder.rungs.iter().filter_map(rung_note).flatten().map(|line| format!("  {line}")).collect();
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// Formats a gain in at most six characters, for example `1.25x`.
fn format_gain(gain: f64) -> String {
    if gain < 0.0095 {
        format!("{gain:.0e}x")
    } else if gain < 0.099_95 {
        format!("{gain:.3}x")
    } else {
        format!("{}x", format_number(gain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_have_at_most_six_characters() {
        assert_eq!([1.25, 0.0993, 0.003].map(format_gain), ["1.25x", "0.099x", "3e-3x"]);
        let gains = std::iter::successors(Some(1e-6), |gain| Some(1.001 * gain));
        for gain in gains.take_while(|&gain| gain < 99_999.0) {
            assert!(format_gain(gain).len() <= 6, "{}", format_gain(gain));
        }
    }
}
