//! A ladder as tables of at most 80 columns: the figures, and what each rung asks of the hardware.

use super::{Ladder, Measured};
use crate::show::{count, digits, rate_of, seconds, share};

/// Widest name that the tables have room for.
const NAME: usize = 28;

/// Time, rate, share of peak, gains and error.
pub fn figures(ladder: &Ladder) -> Vec<String> {
    let mut lines = heading(ladder);
    let (unit, scale) = ladder.unit.heading();
    lines.push(String::new());
    lines.push(format!(
        "  {:<NAME$} {:>9} {:>8} {:>7} {:>6} {:>7} {:>7}",
        "rung", "time", unit, "of peak", "gain", "total", "error"
    ));
    lines.extend(ladder.rungs.iter().map(|rung| {
        let error = rung.error.map_or_else(|| "-".to_owned(), |error| format!("{error:.1e}"));
        format!(
            "  {:<NAME$} {:>9} {:>8} {:>7} {:>6} {:>7} {:>7}",
            cut(&rung.name),
            seconds(rung.seconds),
            digits(rung.rate / scale),
            share(rung.share_of_peak),
            times(rung.gain),
            times(rung.total_gain),
            error
        )
    }));
    lines.extend(notes(ladder));
    lines
}

/// Registers, shared memory, occupancy and operations a second; then the gains of the ladder's source.
pub fn hardware(ladder: &Ladder) -> Vec<String> {
    let with_course = ladder.rungs.iter().any(|rung| rung.course.is_some());
    let course = if with_course { format!("{:>6} {:>6} {:>6}", "1.3", "2.0", "3.0") } else { String::new() };
    let mut lines = Vec::new();
    if with_course {
        lines.push(format!("{:>79}", "gain in the course, by"));
        lines.push(format!("{:>79}", "compute capability"));
    }
    lines.push(format!(
        "  {:<NAME$} {:>5} {:>6} {:>6} {:>7} {course}",
        "rung", "regs", "shared", "occup.", "GFLOP/s"
    ));
    lines.extend(ladder.rungs.iter().map(|rung| {
        let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| count(value as usize));
        let course = rung.course.map_or_else(String::new, |gains| {
            let [a, b, c] = gains.map(digits);
            format!("{a:>6} {b:>6} {c:>6}")
        });
        format!(
            "  {:<NAME$} {:>5} {:>6} {:>6} {:>7} {course}",
            cut(&rung.name),
            number(rung.registers),
            number(rung.shared_bytes),
            share(rung.occupancy),
            rung.flops.map_or_else(|| "-".to_owned(), |flops| digits(flops / 1e9)),
        )
    }));
    lines.push("  registers a thread; shared memory in bytes a group".to_owned());
    if with_course {
        lines.push(
            "  the course: slides on N-body simulation in CUDA after M. Burtscher's tutorial".to_owned(),
        );
        lines.push("  1.3: Quadro FX 5800, 2.0: Tesla C2050, 3.0: GeForce GTX 680".to_owned());
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

fn heading(ladder: &Ladder) -> Vec<String> {
    let repeats = ladder.rungs.iter().map(|rung| rung.repeats);
    let median = match (repeats.clone().min(), repeats.max()) {
        (Some(least), Some(most)) if least < most => format!("median of {least} to {most}"),
        (Some(same), _) => format!("median of {same}"),
        _ => "nothing measured".to_owned(),
    };
    let mut lines = vec![
        format!("{}, {} {}", ladder.title, count(ladder.n), ladder.counted),
        ladder.device.clone(),
        match ladder.flops_per_unit {
            Some(flops) => format!("{} flops {}, {median}", digits(flops), per(ladder)),
            None => median,
        },
    ];
    let roofs = &ladder.roofs;
    if let Some(peak) = roofs.theoretical_flops {
        let measured =
            roofs.flops.map_or_else(String::new, |f| format!(" ({} measured)", rate_of(f, "FLOP/s")));
        lines
            .push(format!("of peak: f32 {}{measured}; CPU and f64 rows: of theirs", rate_of(peak, "FLOP/s")));
    } else if let Some(peak) = roofs.flops {
        lines.push(format!(
            "of peak: f32 {} as measured; CPU and f64 rows: of theirs",
            rate_of(peak, "FLOP/s")
        ));
    }
    lines.extend(ladder.remarks.iter().flat_map(|remark| crate::show::wrapped(remark, 80)));
    lines
}

fn per(ladder: &Ladder) -> &'static str {
    match ladder.unit {
        super::Unit::Interactions => "a pair",
        super::Unit::Bodies => "a body",
        super::Unit::Bytes => "a byte",
        super::Unit::Elements => "an element",
    }
}

/// What was measured otherwise than the heading says, and what the rungs' authors had to say.
fn notes(ladder: &Ladder) -> Vec<String> {
    let note = |rung: &Measured| {
        let smaller =
            (rung.n != ladder.n).then(|| format!("measured with {} {}", count(rung.n), ladder.counted));
        let own = (!rung.note.is_empty()).then(|| rung.note.clone());
        let words: Vec<String> = smaller.into_iter().chain(own).collect();
        (!words.is_empty()).then(|| crate::show::wrapped(&format!("{}: {}", rung.name, words.join("; ")), 78))
    };
    let mut lines: Vec<String> =
        ladder.rungs.iter().filter_map(note).flatten().map(|line| format!("  {line}")).collect();
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// At most six characters for anything a ladder meets.
fn times(gain: f64) -> String {
    if gain < 0.0095 {
        format!("{gain:.0e}x")
    } else if gain < 0.095 {
        format!("{gain:.3}x")
    } else {
        format!("{}x", digits(gain))
    }
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME - 1).collect();
    format!("{}…", kept.trim_end())
}
