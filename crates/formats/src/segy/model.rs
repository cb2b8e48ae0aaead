//! Velocity models: sections and volumes in depth.

use std::path::Path;

use orrery_model::four_digits;

use super::read::{TraceHead, Traces, read_traces};
use crate::error::{Fault, IoError};
use crate::field::VolumeData;
use crate::hashed::read_hashed;
use crate::limits::Limits;

/// A model from a SEG-Y file.
#[derive(Clone, Debug, PartialEq)]
pub struct SegyModel {
    /// One value per node. The last axis is depth: a section has nodes along x and y = depth, and
    /// one along z.
    pub data: VolumeData,
    /// Distances of nodes along x, y and z in metres, where the file has them.
    pub spacing: [Option<f64>; 3],
}

/// Reads a model from a SEG-Y file. A trace is a column of nodes from the surface downwards.
///
/// If inline and crossline numbers (bytes 189 to 196) have more than one value each, the model has
/// three axes: x along crossline numbers, y along inline numbers, and depth. There must be one
/// trace per pair. Otherwise the traces are the columns of a section, in the order of the file.
///
/// The spacing along x and y follows from the coordinates of the ensemble (bytes 181 to 188) or
/// else of the receivers (81 to 88). Traces that are not equidistant are refused. The spacing along
/// depth is a thousandth of the sample interval, as depth sections have it in millimetres. Files in
/// feet are converted to metres. The first sample is that of depth 0: a delay recording time (bytes
/// 109 and 110) other than 0 is refused.
pub fn read_model_segy(path: &Path, limits: &Limits) -> Result<SegyModel, IoError> {
    read_model_segy_hashed(path, limits).map(|(model, _)| model)
}

/// Does the same as [`read_model_segy`], and hashes the file.
pub fn read_model_segy_hashed(path: &Path, limits: &Limits) -> Result<(SegyModel, String), IoError> {
    read_hashed(path, |file| build_model(read_traces(file, limits)?))
}

pub fn build_model(traces: Traces) -> Result<SegyModel, Fault> {
    let Traces { layout, heads, samples } = traces;
    if let Some(k) = heads.iter().position(|head| head.start != 0.0) {
        let got = format!("{} ms", four_digits(1e3 * heads[k].start));
        let expected = "0: the first node of a model is at depth 0";
        return Err(Fault::malformed(format!("trace {}, first sample", k + 1), got, expected));
    }
    let (order, lines) = arrange(&heads)?;
    let (columns, depths) = (order.len(), layout.samples);
    let mut values = vec![0.0; samples.len()];
    for (column, &k) in order.iter().enumerate() {
        for (depth, &value) in samples[k * depths..][..depths].iter().enumerate() {
            values[depth * columns + column] = value;
        }
    }
    let along_x = columns / lines;
    let metres = |spacing: f64| spacing * layout.length_unit;
    let dz = Some(metres(1e-3 * layout.interval));
    let dx = spacing(&heads, &order[..along_x])?.map(metres);
    let precision = layout.format.precision();
    if lines == 1 {
        let data = VolumeData { nodes: [columns, depths, 1], precision, values };
        return Ok(SegyModel { data, spacing: [dx, dz, None] });
    }
    let first_of_lines: Vec<usize> = order.iter().copied().step_by(along_x).collect();
    let dy = spacing(&heads, &first_of_lines)?.map(metres);
    let data = VolumeData { nodes: [along_x, lines, depths], precision, values };
    Ok(SegyModel { data, spacing: [dx, dy, dz] })
}

/// Returns the indices of the traces in the order of the nodes, x fastest, and the number of lines
/// along y.
fn arrange(heads: &[TraceHead]) -> Result<(Vec<usize>, usize), Fault> {
    let distinct = |number: fn(&TraceHead) -> i32| {
        let mut numbers: Vec<i32> = heads.iter().map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    let (inlines, crosslines) = (distinct(|head| head.inline), distinct(|head| head.crossline));
    let mut order: Vec<usize> = (0..heads.len()).collect();
    if inlines == 1 || crosslines == 1 {
        return Ok((order, 1));
    }
    let key = |k: usize| (heads[k].inline, heads[k].crossline);
    order.sort_by_key(|&k| key(k));
    if let Some(pair) = order.windows(2).find(|pair| key(pair[0]) == key(pair[1])) {
        let (inline, crossline) = key(pair[1]);
        let got = format!("inline {inline}, crossline {crossline} as in trace {}", pair[0] + 1);
        return Err(Fault::malformed(format!("trace {}", pair[1] + 1), got, "one trace per position"));
    }
    if heads.len() != inlines * crosslines {
        let got = format!("{} for {inlines} inlines and {crosslines} crosslines", heads.len());
        return Err(Fault::malformed("traces", got, format!("{}, one each", inlines * crosslines)));
    }
    Ok((order, inlines))
}

/// Returns the distance of neighbouring traces, `None` if all have the same position.
fn spacing(heads: &[TraceHead], line: &[usize]) -> Result<Option<f64>, Fault> {
    let has_midpoints = line.iter().any(|&k| heads[k].midpoint != [0.0; 2]);
    let position = |k: usize| match has_midpoints {
        true => heads[k].midpoint,
        false => [heads[k].receiver[0], heads[k].receiver[1]],
    };
    let distance = |a: usize, b: usize| {
        let ([ax, ay], [bx, by]) = (position(a), position(b));
        (bx - ax).hypot(by - ay)
    };
    let &[first, .., last] = line else { return Ok(None) };
    let mean = distance(first, last) / (line.len() - 1) as f64;
    for pair in line.windows(2) {
        let found = distance(pair[0], pair[1]);
        // Each coordinate is rounded to half a unit.
        if (found - mean).abs() > 2.0 * heads[pair[1]].resolution + 1e-3 * mean {
            let got = format!("a distance of {found} from trace {}", pair[0] + 1);
            let expected = format!("equidistant traces, {mean} on average");
            return Err(Fault::malformed(format!("trace {}", pair[1] + 1), got, expected));
        }
    }
    Ok((mean > 0.0).then_some(mean))
}
