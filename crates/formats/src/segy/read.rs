//! Reader of all traces, and of seismograms.

use std::io::{self, Read};
use std::path::Path;

use super::header::{BINARY_BYTES, Layout, TRACE_HEADER_BYTES, TraceHeader, apply_scalar, trace};
use super::text::TEXT_BYTES;
use crate::error::{Fault, IoError};
use crate::field::allocate_values;
use crate::hashed::{HashedFile, read_hashed};
use crate::limits::Limits;
use crate::seismogram::Seismogram;
use crate::text::byte_count;

/// Bytes decoded at a time, a multiple of 4.
const WINDOW_BYTES: usize = 1 << 16;

/// Memory per trace in bytes: the fields of its header, and a seismogram if it is a shot alone.
const TRACE_BYTES: u64 = 256;

/// Headers and samples of a file.
pub struct Traces {
    pub layout: Layout,
    pub heads: Vec<TraceHead>,
    /// Samples of the first trace, then of the second, and so on.
    pub samples: Vec<f64>,
}

/// Fields of a trace header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceHead {
    pub shot: i32,
    /// x, y and depth.
    pub source: [f64; 3],
    /// x, y and depth.
    pub receiver: [f64; 3],
    pub midpoint: [f64; 2],
    pub inline: i32,
    pub crossline: i32,
    /// Time of the first sample in seconds.
    pub start: f64,
    /// Unit in which coordinates are stored.
    pub resolution: f64,
}

/// Reads the seismograms of a SEG-Y file, one per shot. Lengths are in the unit of the file,
/// usually metres, and times in seconds.
///
/// Neighbouring traces with the same original field record number (bytes 9 to 12) are one shot.
/// They must have the same source and the same first time.
pub fn read_seismograms_segy(path: &Path, limits: &Limits) -> Result<Vec<Seismogram>, IoError> {
    read_hashed(path, |file| group_shots(read_traces(file, limits)?)).map(|(shots, _)| shots)
}

/// Reads all traces. At most two values per sample are in memory at a time.
pub fn read_traces(source: &mut HashedFile, limits: &Limits) -> Result<Traces, Fault> {
    let file_bytes = source.length();
    let first = (TEXT_BYTES + BINARY_BYTES) as u64;
    if file_bytes < first {
        let expected = format!("at least {first}, the headers of SEG-Y");
        return Err(Fault::malformed("file", byte_count(file_bytes), expected));
    }
    source.skip(TEXT_BYTES as u64)?;
    let mut binary = [0; BINARY_BYTES];
    source.read_exact(&mut binary)?;
    let layout = Layout::parse(binary, file_bytes)?;
    source.skip(layout.start - first)?;
    let count = layout.traces.saturating_mul(layout.samples as u64);
    let head_bytes = layout.traces.saturating_mul(TRACE_BYTES);
    // The samples are copied once into their final order.
    let mut samples = allocate_values(limits, count, head_bytes.saturating_add(count.saturating_mul(8)))?;
    let mut heads = Vec::new();
    heads
        .try_reserve_exact(layout.traces as usize)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut window = vec![0; WINDOW_BYTES];
    for k in 0..layout.traces {
        let mut bytes = [0; TRACE_HEADER_BYTES];
        source.read_exact(&mut bytes)?;
        heads.push(TraceHead::parse(&TraceHeader { bytes, order: layout.order }, &layout, k + 1)?);
        let mut left = layout.samples * layout.format.width();
        while left > 0 {
            let part = &mut window[..left.min(WINDOW_BYTES)];
            left -= part.len();
            source.read_exact(part)?;
            layout.format.append(part, layout.order, &mut samples);
        }
    }
    Ok(Traces { layout, heads, samples })
}

impl TraceHead {
    /// Checks the header of trace `number`, counted from 1, against the binary header.
    fn parse(header: &TraceHeader, layout: &Layout, number: u64) -> Result<Self, Fault> {
        for (position, expected, name, unit) in [
            (trace::SAMPLES, layout.short_samples, "number of samples", ""),
            (trace::INTERVAL, layout.short_interval, "sample interval", " us"),
        ] {
            let found = header.u16(position);
            // Many programs leave these fields empty.
            if found != 0 && found != expected {
                let expected = format!("{expected}{unit}, that of the binary header");
                let location = format!("trace {number}, {name}");
                return Err(Fault::malformed(location, format!("{found}{unit}"), expected));
            }
        }
        let coordinate = |position| header.scaled(position, trace::COORDINATE_SCALAR);
        let depth = |position| header.scaled(position, trace::ELEVATION_SCALAR);
        let source_depth = depth(trace::SOURCE_DEPTH) - depth(trace::SURFACE_ELEVATION);
        // The field is not assigned in rev 0.
        let time_scalar = if layout.is_rev0 { 1 } else { header.i16(trace::TIME_SCALAR) };
        Ok(Self {
            shot: header.i32(trace::SHOT),
            source: [coordinate(trace::SOURCE_X), coordinate(trace::SOURCE_Y), source_depth],
            receiver: [
                coordinate(trace::RECEIVER_X),
                coordinate(trace::RECEIVER_Y),
                // Avoid -0.
                0.0 - depth(trace::RECEIVER_ELEVATION),
            ],
            midpoint: [coordinate(trace::MIDPOINT_X), coordinate(trace::MIDPOINT_Y)],
            inline: header.i32(trace::INLINE),
            crossline: header.i32(trace::CROSSLINE),
            start: 1e-3 * apply_scalar(header.i16(trace::DELAY).into(), time_scalar),
            resolution: apply_scalar(1.0, header.i16(trace::COORDINATE_SCALAR)),
        })
    }
}

pub fn group_shots(traces: Traces) -> Result<Vec<Seismogram>, Fault> {
    let Traces { layout, heads, samples } = traces;
    let groups = heads.chunk_by(|a, b| a.shot == b.shot);
    let mut shots = Vec::with_capacity(groups.clone().count());
    let mut first_trace = 0;
    for group in groups {
        let TraceHead { shot, source, start, .. } = group[0];
        for (k, head) in group.iter().enumerate() {
            let location = |name: &str| format!("trace {}, {name}", first_trace + k + 1);
            if head.source != source {
                let expected = format!("{source:?}, that of shot {shot}");
                return Err(Fault::malformed(location("source"), format!("{:?}", head.source), expected));
            }
            if head.start != start {
                let expected = format!("{start} s, that of shot {shot}");
                return Err(Fault::malformed(location("first time"), format!("{} s", head.start), expected));
            }
        }
        shots.push(Seismogram {
            shot,
            dt: layout.interval / 1e6,
            start,
            source,
            receivers: group.iter().map(|head| head.receiver).collect(),
            precision: layout.format.precision(),
            samples: samples[first_trace * layout.samples..][..group.len() * layout.samples].to_vec(),
        });
        first_trace += group.len();
    }
    Ok(shots)
}
