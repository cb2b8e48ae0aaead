//! Writer of seismograms.

use std::io::Write;
use std::path::Path;

use super::header::{BinaryHeader, ORDER_MARK, TraceHeader, binary, trace};
use super::text::textual_header;
use orrery_model::analysis::max_or_nan;

use crate::error::{Fault, IoError};
use crate::seismogram::Seismogram;
use crate::storage::replace_file;

/// Largest count and interval in a 16-bit field of rev 1.
const MAX_SHORT: u64 = i16::MAX as u64;
/// Scalars of rev 1: a positive one multiplies, and a negative one divides. The order is that of
/// preference, from plain numbers to more digits.
const SCALARS: [i16; 5] = [1, -10, -100, -1000, -10_000];
const COARSE_SCALARS: [i16; 4] = [10, 100, 1000, 10_000];

/// Writes the seismograms of one or several shots as SEG-Y, big-endian, with IEEE f32 samples. The
/// write is atomic.
///
/// Lengths are in metres and times in seconds. Each coordinate, depth and delay is stored as an
/// integer with a scalar. The scalar is the smallest one for which all values are exact, else the
/// one with the most digits. Offsets are stored in whole metres. All shots must have the same `dt`,
/// `start` and number of samples. `lines` are added to the textual header, at most 76 characters
/// each.
pub fn write_seismograms_segy(path: &Path, shots: &[Seismogram], lines: &[String]) -> Result<(), IoError> {
    replace_file(path, |file| {
        let plan = Plan::new(shots)?;
        let lines: Vec<String> = plan.text_lines(shots).into_iter().chain(lines.iter().cloned()).collect();
        file.write_all(&textual_header(&lines, plan.is_rev2))?;
        file.write_all(&plan.binary_header(shots).bytes)?;
        let mut number = 0;
        let mut samples = Vec::with_capacity(4 * plan.samples);
        for shot in shots {
            for receiver in 0..shot.receivers.len() {
                number += 1;
                file.write_all(&plan.trace_header(shot, receiver, number).bytes)?;
                samples.clear();
                samples.extend(shot.trace(receiver).iter().flat_map(|&value| (value as f32).to_be_bytes()));
                file.write_all(&samples)?;
            }
        }
        Ok(())
    })
}

/// Properties that all traces of a file have in common.
struct Plan {
    samples: usize,
    /// Interval in microseconds.
    interval: f64,
    is_rev2: bool,
    coordinate_scalar: i16,
    depth_scalar: i16,
    time_scalar: i16,
}

impl Plan {
    fn new(shots: &[Seismogram]) -> Result<Self, Fault> {
        let Some(first) = shots.first() else {
            return Err(Fault::malformed("seismograms", "no shot", "at least one"));
        };
        for shot in shots {
            shot.check()?;
            let key = |shot: &Seismogram| (shot.dt, shot.start, shot.sample_count());
            if key(shot) != key(first) {
                let describe =
                    |(dt, start, samples)| format!("{samples} samples from {start} s every {dt} s");
                let location = format!("shot {}", shot.shot);
                return Err(Fault::malformed(location, describe(key(shot)), describe(key(first))));
            }
        }
        let samples = first.sample_count();
        let most_receivers = shots.iter().map(|shot| shot.receivers.len()).max().unwrap_or(0);
        let trace_count: usize = shots.iter().map(|shot| shot.receivers.len()).sum();
        for (name, count) in [("samples", samples), ("traces", trace_count)] {
            if count > i32::MAX as usize {
                return Err(Fault::malformed(name, count.to_string(), format!("at most {}", i32::MAX)));
            }
        }
        let exact = first.dt * 1e6;
        // Decimal intervals such as 0.0007 s have a rounding error of a few 1e-16 in f64.
        let is_whole = (exact - exact.round()).abs() <= 1e-12 * exact;
        let interval = if is_whole { exact.round() } else { exact };
        let fits = |count: usize| count as u64 <= MAX_SHORT;
        let is_rev1 = is_whole && interval <= MAX_SHORT as f64 && fits(samples) && fits(most_receivers);
        let positions = || shots.iter().flat_map(|shot| shot.receivers.iter().chain([&shot.source]));
        let coordinates = positions().flat_map(|&[x, y, _]| [x, y]);
        Ok(Self {
            samples,
            interval,
            is_rev2: !is_rev1,
            coordinate_scalar: choose_scalar("coordinates in m", coordinates, i32::MAX)?,
            depth_scalar: choose_scalar("depths in m", positions().map(|position| position[2]), i32::MAX)?,
            time_scalar: choose_scalar("first time in ms", [1e3 * first.start].into_iter(), i16::MAX.into())?,
        })
    }

    /// Returns the interval for a 16-bit field, 0 if it does not fit.
    fn short_interval(&self) -> [u8; 2] {
        let rounded = self.interval.round();
        let short = if rounded <= f64::from(u16::MAX) { rounded as u16 } else { 0 };
        short.to_be_bytes()
    }

    fn text_lines(&self, shots: &[Seismogram]) -> Vec<String> {
        let traces: usize = shots.iter().map(|shot| shot.receivers.len()).sum();
        vec![
            format!("SEISMOGRAMS OF A SIMULATION, WRITTEN BY ORRERY {}", env!("CARGO_PKG_VERSION")),
            format!("SHOTS {}   TRACES {traces}   SAMPLES PER TRACE {}", shots.len(), self.samples),
            format!("SAMPLE INTERVAL {} US   FIRST SAMPLE AT {} S", self.interval, shots[0].start),
            "SAMPLE FORMAT 4-BYTE IEEE FLOATING POINT, BIG-ENDIAN".to_owned(),
            "LENGTHS IN METRES".to_owned(),
            "SHOT                      BYTES 9-12 AND 17-20".to_owned(),
            "NUMBER OF THE RECEIVER    BYTES 13-16".to_owned(),
            "OFFSET IN WHOLE METRES    BYTES 37-40, NEGATIVE IF THE RECEIVER HAS THE".to_owned(),
            "                          SMALLER X".to_owned(),
            "RECEIVER ELEVATION        BYTES 41-44, MINUS ITS DEPTH, SCALAR IN 69-70".to_owned(),
            "SOURCE DEPTH              BYTES 49-52, SCALAR IN 69-70".to_owned(),
            "SOURCE X AND Y            BYTES 73-80, SCALAR IN 71-72".to_owned(),
            "RECEIVER X AND Y          BYTES 81-88, SCALAR IN 71-72".to_owned(),
            "TIME OF THE FIRST SAMPLE  BYTES 109-110 IN MS, SCALAR IN 215-216".to_owned(),
        ]
    }

    fn binary_header(&self, shots: &[Seismogram]) -> BinaryHeader {
        let mut header = BinaryHeader::new();
        for position in [binary::JOB, binary::LINE, binary::REEL] {
            header.set(position, 1i32.to_be_bytes());
        }
        let receivers = shots[0].receivers.len();
        for position in [binary::INTERVAL, binary::ORIGINAL_INTERVAL] {
            header.set(position, self.short_interval());
        }
        for position in [binary::SAMPLES, binary::ORIGINAL_SAMPLES] {
            header.set(position, short_count(self.samples, u16::MAX));
        }
        // Readers take this field as signed.
        header.set(binary::TRACES_PER_SHOT, short_count(receivers, i16::MAX as u16));
        header.set(binary::FORMAT, 5i16.to_be_bytes());
        header.set(binary::FOLD, 1i16.to_be_bytes());
        // As recorded, no sorting.
        header.set(binary::SORTING, 1i16.to_be_bytes());
        // Metres.
        header.set(binary::LENGTH_UNIT, 1i16.to_be_bytes());
        header.set(binary::REVISION, [if self.is_rev2 { 2 } else { 1 }, 0]);
        header.set(binary::FIXED_LENGTH, 1i16.to_be_bytes());
        if self.is_rev2 {
            for position in [binary::LONG_INTERVAL, binary::LONG_ORIGINAL_INTERVAL] {
                header.set(position, self.interval.to_be_bytes());
            }
            for position in [binary::LONG_SAMPLES, binary::LONG_ORIGINAL_SAMPLES] {
                header.set(position, (self.samples as i32).to_be_bytes());
            }
            header.set(binary::LONG_TRACES_PER_SHOT, (receivers as i32).to_be_bytes());
            header.set(binary::ORDER, ORDER_MARK.to_be_bytes());
            let traces: usize = shots.iter().map(|shot| shot.receivers.len()).sum();
            header.set(binary::TRACE_COUNT, (traces as u64).to_be_bytes());
            header.set(binary::FIRST_TRACE, 3600u64.to_be_bytes());
        }
        header
    }

    /// Returns the header of a trace. `number` counts the traces of the file from 1.
    fn trace_header(&self, shot: &Seismogram, receiver: usize, number: i32) -> TraceHeader {
        let mut header = TraceHeader::new();
        let receiver_number = receiver as i32 + 1;
        let ([source_x, source_y, source_depth], [x, y, depth]) = (shot.source, shot.receivers[receiver]);
        let coordinate = |value: f64| stored(value, self.coordinate_scalar);
        let length = |value: f64| stored(value, self.depth_scalar);
        for (position, value) in [
            (trace::NUMBER_IN_LINE, number),
            (trace::NUMBER_IN_FILE, number),
            (trace::SHOT, shot.shot),
            (trace::NUMBER_IN_SHOT, receiver_number),
            (trace::SOURCE_POINT, shot.shot),
            (trace::OFFSET, shot.offset(receiver).round() as i32),
            (trace::RECEIVER_ELEVATION, length(-depth)),
            (trace::SURFACE_ELEVATION, 0),
            (trace::SOURCE_DEPTH, length(source_depth)),
            (trace::SOURCE_X, coordinate(source_x)),
            (trace::SOURCE_Y, coordinate(source_y)),
            (trace::RECEIVER_X, coordinate(x)),
            (trace::RECEIVER_Y, coordinate(y)),
            (trace::MIDPOINT_X, coordinate(0.5 * (source_x + x))),
            (trace::MIDPOINT_Y, coordinate(0.5 * (source_y + y))),
        ] {
            header.set(position, value.to_be_bytes());
        }
        for (position, value) in [
            // Seismic data, and coordinates that are lengths.
            (trace::KIND, 1),
            (trace::COORDINATE_UNIT, 1),
            (trace::ELEVATION_SCALAR, self.depth_scalar),
            (trace::COORDINATE_SCALAR, self.coordinate_scalar),
            (trace::DELAY, stored(1e3 * shot.start, self.time_scalar) as i16),
            (trace::TIME_SCALAR, self.time_scalar),
        ] {
            header.set(position, value.to_be_bytes());
        }
        header.set(trace::SAMPLES, short_count(self.samples, u16::MAX));
        header.set(trace::INTERVAL, self.short_interval());
        header
    }
}

/// Returns a count for a 16-bit field, 0 if it exceeds `max`.
fn short_count(count: usize, max: u16) -> [u8; 2] {
    let short = u16::try_from(count).ok().filter(|&short| short <= max).unwrap_or(0);
    short.to_be_bytes()
}

/// Returns the integer that is stored for a value with this scalar.
fn stored(value: f64, scalar: i16) -> i32 {
    if scalar < 0 {
        (value * -f64::from(scalar)).round() as i32
    } else {
        (value / f64::from(scalar)).round() as i32
    }
}

/// Returns the first scalar with which all values are whole numbers up to `max`. Otherwise returns
/// the one with the most digits whose numbers do not exceed `max`.
fn choose_scalar(name: &str, values: impl Iterator<Item = f64> + Clone, max: i32) -> Result<i16, Fault> {
    let largest = values.clone().map(f64::abs).fold(0.0, max_or_nan);
    let fits = |factor: f64| (largest * factor).round() <= f64::from(max);
    let mut best = None;
    for scalar in SCALARS {
        let factor = f64::from(scalar.abs());
        if !fits(factor) {
            break;
        }
        best = Some(scalar);
        // A millionth of the stored unit covers the rounding of decimal numbers in f64.
        let is_whole = |value: f64| (value * factor - (value * factor).round()).abs() <= 1e-6;
        if values.clone().all(is_whole) {
            break;
        }
    }
    let best = best.or_else(|| COARSE_SCALARS.into_iter().find(|&scalar| fits(1.0 / f64::from(scalar))));
    best.ok_or_else(|| {
        let most = f64::from(max) * 1e4;
        Fault::malformed(name, format!("{largest:e}"), format!("at most {most:e} in a SEG-Y file"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_keeps_all_digits_that_fit() {
        let choose = |values: &[f64]| choose_scalar("x", values.iter().copied(), i32::MAX);
        for (values, expected) in [
            (&[][..], 1),
            (&[0.0, -25.0, 1e6], 1),
            (&[12.5, 100.0], -10),
            (&[0.1, 6.25], -100),
            (&[1.0 / 3.0], -10_000),
            // 300 km in units of 0.1 mm do not fit into 31 bits.
            (&[1.0 / 3.0, 3e5], -1000),
            (&[3e9], 10),
            (&[2e13], 10_000),
        ] {
            assert_eq!(choose(values).unwrap(), expected, "{values:?}");
        }
        assert_eq!(
            choose(&[3e13]).unwrap_err().to_string(),
            "x: got 3e13, expected at most 2.147483647e13 in a SEG-Y file"
        );
    }

    #[test]
    fn stored_numbers_are_rounded() {
        assert_eq!((stored(12.5, -10), stored(-1.0 / 3.0, -1000), stored(3e9, 10)), (125, -333, 300_000_000));
    }
}
