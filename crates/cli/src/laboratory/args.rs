//! Flags of `ladder`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use orrery_lab::ladder::{DefaultSizes, LADDERS, LadderEntry, find_ladder};

use crate::args::{DeviceArgs, JsonArgs, parse_count};

/// Flags of `ladder`.
#[derive(Debug, Args)]
#[command(after_help = ladder_sizes())]
pub struct LadderArgs {
    /// Computation to time
    #[arg(value_name = "NAME", value_parser = ladder_parser())]
    pub entry: &'static LadderEntry,
    /// Problem size [default: see below]
    #[arg(short, value_name = "N", allow_hyphen_values = true, value_parser = parse_count::<usize>)]
    pub n: Option<usize>,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Do not use the strategies found by orrery tune
    #[arg(long)]
    pub no_tuned: bool,
    #[command(flatten)]
    pub json: JsonArgs,
    /// Draw a roofline plot of the rungs, or their rates if operations or bytes are not counted.
    /// Measurements over a parameter go to FILE-1.svg and so on
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Returns a parser that accepts the names of all ladders.
fn ladder_parser() -> impl TypedValueParser<Value = &'static LadderEntry> {
    let values = LADDERS.map(|entry| PossibleValue::new(entry.name).help(entry.description));
    PossibleValuesParser::new(values)
        .map(|name| find_ladder(&name).expect("the possible values are the names of the ladders"))
}

/// Returns a table of the default sizes of all ladders.
fn ladder_sizes() -> String {
    let format_size = |n: usize| match n {
        _ if n.is_power_of_two() && n > 1 << 20 => format!("2^{}", n.ilog2()),
        _ => n.to_string(),
    };
    let mut lines = vec!["Default sizes (-n):".to_owned()];
    lines.push(format!("  {:<10} {:>8} {:>8} {:>14}", "ladder", "CPU", "GPU", "other devices"));
    lines.extend(LADDERS.iter().map(|entry| {
        let DefaultSizes { gpu, opencl_cpu, host } = entry.sizes;
        let [host, gpu, opencl_cpu] = [host, gpu, opencl_cpu].map(format_size);
        format!("  {:<10} {host:>8} {gpu:>8} {opencl_cpu:>14} {}", entry.name, entry.size_unit)
    }));
    lines.join("\n")
}
