//! Tables of a ladder, at most 80 columns wide: results, rates by parameter, figures from other
//! sources, and the hardware resources of each rung.

use orrery_measure::format::{
    format_number, format_percent, format_rate, format_seconds, format_thousands, wrap_text,
};
use orrery_measure::text_table::{TextTable, WIDTH, format_or_dash};

use super::roofs::COPY_ROOF;
use super::{DataTable, FigureTable, Ladder, Parameter, RungResult, ShownValue, Sweep, Timeline};

/// Formats all tables of a ladder, separated by empty lines.
pub fn all_tables(ladder: &Ladder) -> Vec<String> {
    let mut lines = heading_lines(ladder);
    let tables =
        [results_table(ladder), note_lines(ladder), parameter_table(ladder), reference_table(ladder)];
    let figures = ladder.figures.iter().map(FigureTable::lines);
    let sweeps = ladder.sweeps.iter().map(Sweep::lines);
    let data_tables = ladder.tables.iter().map(DataTable::lines);
    let timelines = ladder.timelines.iter().map(Timeline::lines);
    let all = tables.into_iter().chain(figures).chain([hardware_table(ladder)]);
    let all = all.chain(sweeps).chain(data_tables).chain(timelines);
    for table in all.filter(|table| !table.is_empty()) {
        lines.push(String::new());
        lines.extend(table);
    }
    lines
}

fn heading_lines(ladder: &Ladder) -> Vec<String> {
    let mut lines = vec![
        format!("{}, {} {}", ladder.entry.title, format_thousands(ladder.n), ladder.entry.size_unit),
        ladder.device.clone(),
    ];
    let flops = common_flops_per_item(ladder)
        .filter(|_| ladder.entry.counted.item != "flop")
        .map(|flops| format!("{} flops per {}, ", format_number(flops), ladder.entry.counted.item));
    lines.push(format!("{}{}", flops.unwrap_or_default(), describe_repeats(ladder)));
    lines.extend(ladder.roof.iter().map(|roof| format!("of {}: {}", roof.name, roof.description)));
    lines.extend(describe_host_roof(ladder));
    lines.extend(ladder.parameter.iter().map(describe_shown_value));
    lines.extend(ladder.remarks.iter().flat_map(|remark| wrap_text(remark, WIDTH)));
    lines
}

/// Returns the operations per counted item if they are the same for all rungs.
pub(super) fn common_flops_per_item(ladder: &Ladder) -> Option<f64> {
    let mut counts = ladder.rungs.iter().map(|rung| rung.work.flops);
    let first = counts.next()??;
    counts.all(|flops| flops == Some(first)).then_some(first)
}

fn describe_repeats(ladder: &Ladder) -> String {
    let repeats = ladder.rungs.iter().map(|rung| rung.repeats);
    match (repeats.clone().min(), repeats.max()) {
        (Some(least), Some(most)) if least < most => format!("median of {least} to {most} runs"),
        (Some(repeats), _) => format!("median of {repeats} runs"),
        _ => "nothing measured".to_owned(),
    }
}

/// Describes the roof of the CPU's rungs if it is the memory and the ladder's roof is that of a
/// device.
fn describe_host_roof(ladder: &Ladder) -> Option<String> {
    let has_share = ladder.rungs.iter().any(|rung| rung.name.starts_with("CPU") && rung.roof.is_some());
    let is_other_memory = ladder.roofs.bandwidth.is_some() && ladder.roofs != ladder.host_roofs;
    let is_copy = ladder.roof.as_ref().is_some_and(|roof| roof.name == COPY_ROOF);
    let bandwidth = ladder.host_roofs.bandwidth.filter(|_| has_share && is_other_memory && is_copy)?;
    Some(format!("of copy for CPU rungs: {}", format_rate(bandwidth, "B/s")))
}

fn describe_shown_value(parameter: &Parameter) -> String {
    match parameter.shown {
        ShownValue::Fastest => format!("time and gains: with the fastest {} (* below)", parameter.name),
        ShownValue::First => {
            let first = parameter.values.first().map_or("-", |value| value);
            format!("time and gains: with the {} '{first}'", parameter.name)
        }
    }
}

/// Formats the time, rate, share of the roof, gains and error of each rung.
fn results_table(ladder: &Ladder) -> Vec<String> {
    let counted = &ladder.entry.counted;
    let mut table = RungTable::new(&ladder.rungs);
    table.add_column("time", |rung| format_seconds(rung.seconds));
    table.add_column(counted.heading, |rung| format_number((counted.to_column)(rung.rate)));
    if has_bandwidth(ladder) {
        table.add_column("GB/s", |rung| {
            format_or_dash(rung.bytes_per_s(), |bytes| format_number(bytes / 1e9))
        });
    }
    if let Some(roof) = &ladder.roof {
        table.add_column(&format!("of {}", roof.name), |rung| format_percent(rung.share_of_roof()));
    }
    table.add_column("gain", |rung| format_gain(rung.gain));
    table.add_column("total", |rung| format_gain(rung.total_gain));
    if ladder.rungs.iter().any(|rung| rung.error.is_some()) {
        table.add_column("error", |rung| format_or_dash(rung.error, |error| format!("{error:.1e}")));
    }
    table.lines()
}

/// Returns whether the table has a column of bytes per second: the memory limits the rungs, and
/// their rates count something other than bytes.
fn has_bandwidth(ladder: &Ladder) -> bool {
    ladder.entry.counted.item != "byte"
        && ladder.roof.as_ref().is_none_or(|roof| roof.name == COPY_ROOF)
        && ladder.rungs.iter().any(|rung| rung.work.bytes.is_some())
}

/// Formats the remarks of the rungs, and the size of rungs that were measured with a smaller
/// problem.
fn note_lines(ladder: &Ladder) -> Vec<String> {
    let rung_note = |rung: &RungResult| {
        let size = (rung.value.is_none() && rung.n != ladder.n)
            .then(|| format!("measured with {} {}", format_thousands(rung.n), ladder.entry.size_unit));
        let remark = (!rung.note.is_empty()).then(|| rung.note.clone());
        let parts: Vec<String> = size.into_iter().chain(remark).collect();
        (!parts.is_empty()).then(|| wrap_text(&format!("{}: {}", rung.name, parts.join("; ")), WIDTH - 2))
    };
    ladder.rungs.iter().filter_map(rung_note).flatten().map(|line| format!("  {line}")).collect()
}

/// Formats the rate of each rung for each value of the parameter.
fn parameter_table(ladder: &Ladder) -> Vec<String> {
    let Some(parameter) = &ladder.parameter else { return Vec::new() };
    let counted = &ladder.entry.counted;
    let mut table = RungTable::new(ladder.rungs.iter().filter(|rung| !rung.rates.is_empty()));
    for (index, value) in parameter.values.iter().enumerate() {
        table.add_column(value, |rung| {
            let is_marked = parameter.shown == ShownValue::Fastest && rung.value == Some(index);
            let mark = if is_marked { "*" } else { "" };
            format_or_dash(rung.rates[index], |rate| {
                format!("{mark}{}", format_number((counted.to_column)(rate)))
            })
        });
    }
    table.lines_with_caption(&format!("{} by {}", counted.heading, parameter.name))
}

/// Formats the figures from another source.
fn reference_table(ladder: &Ladder) -> Vec<String> {
    let Some(reference) = &ladder.reference else { return Vec::new() };
    let mut table = RungTable::new(ladder.rungs.iter().filter(|rung| !rung.reference.is_empty()));
    for (index, column) in reference.columns.iter().enumerate() {
        table.add_column(column, |rung| format_number(rung.reference[index]));
    }
    let mut lines = table.lines_with_caption(&reference.caption);
    if !lines.is_empty() {
        lines.extend(reference.legend.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Formats the registers, shared memory, occupancy, GFLOP/s and GB/s of the rungs.
fn hardware_table(ladder: &Ladder) -> Vec<String> {
    let has_figures = |rung: &&RungResult| {
        rung.registers.is_some() || rung.shared_bytes.is_some() || rung.work.flops.is_some()
    };
    let rungs: Vec<&RungResult> = ladder.rungs.iter().filter(has_figures).collect();
    let has_resources = rungs.iter().any(|rung| rung.registers.is_some() || rung.shared_bytes.is_some());
    let mut table = RungTable::new(rungs.iter().copied());
    if has_resources {
        let format_u32 = |value: u32| format_thousands(value as usize);
        table.add_column("regs", |rung| format_or_dash(rung.registers, format_u32));
        table.add_column("shared", |rung| format_or_dash(rung.shared_bytes, format_u32));
        table.add_column("occup.", |rung| format_percent(rung.occupancy));
    }
    // A ladder that counts operations shows them as its rate.
    if ladder.entry.counted.item != "flop" && rungs.iter().any(|rung| rung.work.flops.is_some()) {
        table.add_column("GFLOP/s", |rung| format_or_dash(rung.flops(), |flops| format_number(flops / 1e9)));
    }
    let has_bytes = rungs.iter().any(|rung| rung.work.bytes.is_some());
    if has_bytes && has_resources && ladder.entry.counted.item != "byte" && !has_bandwidth(ladder) {
        table.add_column("GB/s", |rung| {
            format_or_dash(rung.bytes_per_s(), |bytes| format_number(bytes / 1e9))
        });
    }
    let mut lines = table.lines();
    if has_resources {
        lines.push("  regs: registers per thread; shared: bytes of shared memory per block;".to_owned());
        lines.push("  occup.: fraction of an SM's thread slots in use".to_owned());
    }
    lines
}

/// Table with one row per rung.
struct RungTable<'a> {
    rungs: Vec<&'a RungResult>,
    table: TextTable,
}

impl<'a> RungTable<'a> {
    fn new(rungs: impl IntoIterator<Item = &'a RungResult>) -> Self {
        let rungs: Vec<&RungResult> = rungs.into_iter().collect();
        let names = rungs.iter().map(|rung| rung.name.clone()).collect();
        Self { rungs, table: TextTable::new("rung", names) }
    }

    fn add_column(&mut self, heading: &str, format_cell: impl Fn(&RungResult) -> String) {
        self.table.add_column(heading, self.rungs.iter().map(|rung| format_cell(rung)).collect());
    }

    fn lines(&self) -> Vec<String> {
        self.table.lines()
    }

    fn lines_with_caption(&self, caption: &str) -> Vec<String> {
        self.table.lines_with_caption(caption)
    }
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
