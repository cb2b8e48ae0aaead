//! `info` and `convert` for SEG-Y files.

use std::path::Path;

use orrery_draw::plot::SeismogramPlot;
use orrery_formats::{
    IoError, Limits, SegyFile, SegyKind, Seismogram, read_segy, write_seismogram_csv, write_seismogram_npy,
};
use orrery_model::analysis::FieldStatistics;
use orrery_model::{Precision, format_count, short_number};
use serde_json::{Value, json};

use super::fields;
use super::files::refuse_flags;
use super::{sample_time, table_number};
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Width and height of a grey-scale plot in pixels.
const GREY_PIXELS: [u32; 2] = [960, 720];

/// Prints the contents of a SEG-Y file and returns them as JSON.
pub fn print_info(path: &Path, limits: &Limits) -> Result<Value, Failure> {
    match read_segy(path, limits, None).map_err(Failure::Input)? {
        SegyFile::Model(field) => Ok(fields::print_field(path, &field)),
        SegyFile::Seismograms(shots) => {
            let survey = Survey::new(&shots);
            print_line!("{}", path.display());
            survey.print();
            let metadata = path.metadata().map_err(|e| Failure::Input(IoError::from_system(path, e)))?;
            Ok(survey.to_json(path, metadata.len()))
        }
    }
}

/// Smallest and largest numbers of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent([f64; 2]);

impl Extent {
    fn of(numbers: impl Iterator<Item = f64>) -> Self {
        Self(numbers.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| [low.min(x), high.max(x)]))
    }

    /// Returns a number, or a range such as `0 to 2.5`.
    fn text(self) -> String {
        let [low, high] = self.0.map(|x| short_number(x + 0.0));
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// Returns the extents along x, y and depth.
fn extents<'a>(positions: impl Iterator<Item = &'a [f64; 3]> + Clone) -> [Extent; 3] {
    [0, 1, 2].map(|axis| Extent::of(positions.clone().map(|position| position[axis])))
}

fn position_text([x, y, depth]: [Extent; 3]) -> String {
    format!("x {}, y {}, depth {}", x.text(), y.text(), depth.text())
}

fn position_json([x, y, depth]: [Extent; 3]) -> Value {
    json!({ "x": x.0, "y": y.0, "depth": depth.0 })
}

/// Returns the smallest and the largest number of the shots.
fn shot_numbers(shots: &[Seismogram]) -> [i32; 2] {
    let numbers = shots.iter().map(|shot| shot.shot);
    [numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0)]
}

/// Summary of the shots of a file.
struct Survey {
    precision: &'static str,
    shots: usize,
    /// Smallest and largest number.
    shot_numbers: [i32; 2],
    traces: usize,
    traces_per_shot: Extent,
    samples: usize,
    interval: f64,
    first_times: Extent,
    last_time: f64,
    sources: [Extent; 3],
    receivers: [Extent; 3],
    offsets: Extent,
    minimum: f64,
    maximum: f64,
    non_finite: usize,
}

impl Survey {
    /// Summarises at least one shot.
    fn new(shots: &[Seismogram]) -> Self {
        let first = &shots[0];
        let samples = first.sample_count();
        let offsets = |shot: &Seismogram| -> Vec<f64> {
            (0..shot.receivers.len()).map(|receiver| shot.offset(receiver)).collect()
        };
        let ranges: Vec<FieldStatistics> =
            shots.iter().map(|shot| FieldStatistics::measure(&shot.samples)).collect();
        Self {
            precision: if first.precision == Precision::Single { "f32" } else { "f64" },
            shots: shots.len(),
            shot_numbers: shot_numbers(shots),
            traces: shots.iter().map(|shot| shot.receivers.len()).sum(),
            traces_per_shot: Extent::of(shots.iter().map(|shot| shot.receivers.len() as f64)),
            samples,
            interval: first.dt,
            first_times: Extent::of(shots.iter().map(|shot| shot.start)),
            last_time: shots.iter().map(|shot| shot.time(samples - 1)).fold(f64::NAN, f64::max),
            sources: extents(shots.iter().map(|shot| &shot.source)),
            receivers: extents(shots.iter().flat_map(|shot| &shot.receivers)),
            offsets: Extent::of(shots.iter().flat_map(offsets)),
            minimum: ranges.iter().map(|range| range.min).fold(f64::NAN, f64::min),
            maximum: ranges.iter().map(|range| range.max).fold(f64::NAN, f64::max),
            non_finite: ranges.iter().map(|range| range.non_finite).sum(),
        }
    }

    fn print(&self) {
        print_line!("  format     SEG-Y seismograms, {}", self.precision);
        let [first, last] = self.shot_numbers;
        match self.shots {
            1 => print_line!("  shots      1, number {first}"),
            count => print_line!("  shots      {count}, numbers {first} to {last}"),
        }
        print_line!("  traces     {}, {} per shot", self.traces, self.traces_per_shot.text());
        print_line!("  samples    {} per trace", self.samples);
        print_line!("  interval   {} s", short_number(self.interval));
        print_line!("  first time {} s", self.first_times.text());
        print_line!("  last time  {} s", sample_time(self.last_time));
        print_line!("  sources    {}", position_text(self.sources));
        print_line!("  receivers  {}", position_text(self.receivers));
        print_line!("  offsets    {}", self.offsets.text());
        print_line!("  minimum    {}", table_number(self.minimum));
        print_line!("  maximum    {}", table_number(self.maximum));
        for problem in fields::problems(self.non_finite, None) {
            print_line!("  problem    {problem}");
        }
    }

    fn to_json(&self, path: &Path, bytes: u64) -> Value {
        json!({
            "file": path.display().to_string(),
            "format": "SEG-Y seismograms",
            "bytes": bytes,
            "precision": self.precision,
            "shots": self.shots,
            "shot_numbers": self.shot_numbers,
            "traces": self.traces,
            "samples": self.samples,
            "interval": self.interval,
            "first_time": self.first_times.0[0],
            "sources": position_json(self.sources),
            "receivers": position_json(self.receivers),
            "offsets": self.offsets.0,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "non_finite": self.non_finite,
            "problems": fields::problems(self.non_finite, None),
        })
    }
}

/// Formats to which seismograms are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeismogramFormat {
    Npy,
    Csv,
    Svg,
    Png,
}

impl SeismogramFormat {
    fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "npy" => Some(Self::Npy),
            "csv" => Some(Self::Csv),
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }
}

/// Reads a SEG-Y file and writes a shot of it, or its model, in another format.
pub fn convert(arguments: &ConvertArgs) -> Result<(), Failure> {
    let ConvertArgs { input, kind, memory, .. } = arguments;
    refuse_flags(arguments, "is SEG-Y", &["--window", "--stride", "--shot", "--as"])?;
    let kind = kind.map(SegyKind::from);
    match read_segy(input, &memory.limits(), kind).map_err(Failure::Input)? {
        SegyFile::Model(field) => {
            refuse_flags(arguments, "is a model", &["--window", "--stride", "--as"])?;
            let format = fields::output_format(arguments, "a model")?;
            fields::write_converted(arguments, field, format)
        }
        SegyFile::Seismograms(shots) => {
            refuse_flags(arguments, "has seismograms", &["--shot", "--as"])?;
            convert_shot(arguments, &shots)
        }
    }
}

fn convert_shot(arguments: &ConvertArgs, shots: &[Seismogram]) -> Result<(), Failure> {
    let ConvertArgs { input, output, .. } = arguments;
    let Some(format) = SeismogramFormat::from_path(output) else {
        return Err(Failure::Usage(format!(
            "{}: {} has seismograms, expected a file to write with the extension .npy, .csv, .svg or .png",
            output.display(),
            input.display()
        )));
    };
    let shot = select_shot(input, shots, arguments.shot)?;
    let title = input.file_name().unwrap_or_default().to_string_lossy();
    let mut plot = SeismogramPlot::new(shot);
    plot.title = format!("{title}, shot {}", shot.shot);
    match format {
        SeismogramFormat::Npy => write_seismogram_npy(output, shot).map_err(Failure::Output)?,
        SeismogramFormat::Csv => write_seismogram_csv(output, shot).map_err(Failure::Output)?,
        SeismogramFormat::Svg => plot.write_svg(output)?,
        SeismogramFormat::Png => plot.write_grey_png(output, GREY_PIXELS[0], GREY_PIXELS[1])?,
    }
    let traces = format_count(shot.receivers.len() as u64, "trace", "traces");
    let samples = format_count(shot.sample_count() as u64, "sample", "samples");
    print_line!("wrote {traces} of {samples} to {}", output.display());
    Ok(())
}

/// Returns the shot with this number. Without a number, the file must have one shot.
fn select_shot<'a>(
    input: &Path,
    shots: &'a [Seismogram],
    number: Option<i32>,
) -> Result<&'a Seismogram, Failure> {
    let [first, last] = shot_numbers(shots);
    let found = if first == last { first.to_string() } else { format!("{first} to {last}") };
    let refuse = |text: String| Err(Failure::Usage(text));
    let input = input.display();
    let Some(number) = number else {
        return match shots {
            [shot] => Ok(shot),
            _ => refuse(format!(
                "{input}: {} shots with the numbers {found}, expected one; --shot NUMBER selects it",
                shots.len()
            )),
        };
    };
    let mut selected = shots.iter().filter(|shot| shot.shot == number);
    match (selected.next(), selected.next()) {
        (Some(shot), None) => Ok(shot),
        (Some(_), Some(_)) => refuse(format!(
            "--shot {number}: {input} has several groups of traces with this number, expected one"
        )),
        (None, _) => {
            refuse(format!("--shot {number}: {input} has the numbers {found}, expected one of them"))
        }
    }
}
