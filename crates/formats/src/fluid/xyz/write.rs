//! Appending of frames to extended XYZ files.

use std::io::{BufWriter, Read, Write};
use std::path::Path;

use orrery_model::simulation_box::BoxSides;

use super::PROPERTIES;
use crate::error::{Fault, IoError};
use crate::fluid::elements::atomic_numbers;
use crate::fluid::trajectory::{HashedSink, TrajectoryFile};
use crate::fluid::{FluidFrame, FluidSpecies};
use crate::limits::check_provenance;
use crate::manifest;
use crate::storage::replace_unlisted_file;
use crate::xyz::{Lines, Number, PREFIX, parse_pairs, quote_if_needed};

/// Start of line 2 of written frames, by which they are found.
const COMMENT_START: &[u8] = b"Properties=";

/// Appends a frame.
pub(in crate::fluid) fn append(path: &Path, frame: &FluidFrame<'_>) -> Result<(), IoError> {
    let mut hasher = blake3::Hasher::new();
    let in_file = |fault: Fault| fault.in_file(path);
    let mut file = TrajectoryFile::open(path).map_err(in_file)?;
    let start = file.as_mut().map_or(Ok(0), |file| end_before_time(file, frame.time)).map_err(in_file)?;
    match file.filter(|_| start > 0) {
        None => replace_unlisted_file(path, |sink| {
            let mut buffered = BufWriter::with_capacity(1 << 16, HashedSink { sink, hasher: &mut hasher });
            write_frame(&mut buffered, frame, true)?;
            Ok(buffered.flush()?)
        })?,
        Some(mut file) => {
            let mut append = || {
                if file.length() != start {
                    file.truncate(start)?;
                }
                file.append(&mut hasher, |sink| write_frame(sink, frame, false))?;
                file.sync()
            };
            append().map_err(in_file)?;
        }
    }
    manifest::add_frame(path, start, hasher.count(), &hasher)
}

fn write_frame(sink: &mut dyn Write, frame: &FluidFrame<'_>, is_first: bool) -> Result<(), Fault> {
    let particles = frame.particles;
    writeln!(sink, "{}", particles.len())?;
    write_comment(sink, frame, is_first)?;
    let bounds = &particles.bounds;
    let numbers = atomic_numbers(frame.species);
    for k in 0..particles.len() {
        let coordinate = |axis: usize| {
            let is_used = axis < bounds.dimensions;
            Number(if is_used { bounds.coordinate(axis, particles.position[axis][k]) } else { 0.0 })
        };
        let [x, y, z] = [0, 1, 2].map(coordinate);
        let [vx, vy, vz] = particles.velocity.get(k).map(Number);
        let [ix, iy, iz] = [0, 1, 2].map(|axis: usize| particles.image[axis][k]);
        let index = usize::from(particles.species[k]);
        let FluidSpecies { name, mass, .. } = &frame.species[index];
        let (mass, id, number) = (Number(*mass), particles.id[k], numbers[index]);
        writeln!(sink, "{name} {x} {y} {z} {vx} {vy} {vz} {mass} {id} {ix} {iy} {iz} {number}")?;
    }
    Ok(())
}

fn write_comment(sink: &mut dyn Write, frame: &FluidFrame<'_>, is_first: bool) -> Result<(), Fault> {
    let bounds = &frame.particles.bounds;
    let [a, b, c] = bounds.lengths.map(Number);
    let [x, y, z] = bounds.origin.map(Number);
    let pbc = match (bounds.sides, bounds.dimensions) {
        (BoxSides::Open, _) => "F F F",
        (BoxSides::Periodic, 2) => "T T F",
        (BoxSides::Periodic, _) => "T T T",
    };
    let list = |value: fn(&FluidSpecies) -> String| {
        quote_if_needed(&frame.species.iter().map(value).collect::<Vec<_>>().join(" "))
    };
    let mut pairs = format!(
        " Lattice=\"{a} 0 0 0 {b} 0 0 0 {c}\" Origin=\"{x} {y} {z}\" pbc=\"{pbc}\" dimensions={} Time={} Step={}",
        bounds.dimensions,
        Number(frame.time),
        frame.step
    );
    let mut add = |key: &str, value: String| pairs.push_str(&format!(" {key}={value}"));
    add("units", quote_if_needed(frame.units));
    for (quantity, unit) in frame.unit_names {
        add(&format!("unit_{quantity}"), quote_if_needed(unit));
    }
    add("species_names", list(|species| species.name.clone()));
    add("species_masses", list(|species| Number(species.mass).to_string()));
    add("species_diameters", list(|species| Number(species.sigma).to_string()));
    if is_first {
        for (key, value) in frame.provenance {
            add(&quote_if_needed(&format!("{PREFIX}{key}")), quote_if_needed(value));
        }
    }
    check_provenance(pairs.len() as u64, frame.provenance.len())?;
    Ok(writeln!(sink, "Properties={PROPERTIES}{pairs}")?)
}

/// Removes all frames at `time` or later. Returns false if no frame is left. The file is then
/// unchanged.
pub(in crate::fluid) fn remove_frames_from(mut file: TrajectoryFile, time: f64) -> Result<bool, Fault> {
    let end = end_before_time(&mut file, time)?;
    if end > 0 && end < file.length() {
        file.truncate(end)?;
        file.sync()?;
    }
    Ok(end > 0)
}

/// Returns the end of the last complete frame before `time`, or 0 if there is none.
fn end_before_time(file: &mut TrajectoryFile, time: f64) -> Result<u64, Fault> {
    let mut end = file.length();
    while end > 0 {
        let (start, count) = find_last_header(file, end)?;
        let comment_start = start + count.len() as u64 + 1;
        match read_frame_end(file, comment_start, end, &count)? {
            Some((frame_time, frame_end)) if frame_time < time => return Ok(frame_end),
            _ => end = start,
        }
    }
    Ok(0)
}

/// Finds the last header of a frame that starts before `end`: a line with a number, and the start
/// of a comment line. Returns the position and the number.
fn find_last_header(file: &mut TrajectoryFile, end: u64) -> Result<(u64, String), Fault> {
    const BLOCK: u64 = 1 << 16;
    const MAX_DIGITS: u64 = 20;
    let pattern = [b"\n", COMMENT_START].concat();
    let not_found =
        || Fault::malformed("content", "no frame of Orrery", "a trajectory that orrery has written");
    let mut block_end = end;
    while block_end > 0 {
        let block_start = block_end.saturating_sub(BLOCK);
        // The blocks overlap by the length of the pattern.
        let length = (end - block_start).min(BLOCK + pattern.len() as u64);
        let mut block = vec![0; length as usize];
        file.read_at(block_start, &mut block)?;
        if let Some(offset) = block.windows(pattern.len()).rposition(|window| window == pattern) {
            let newline = block_start + offset as u64;
            let mut before = vec![0; newline.min(MAX_DIGITS) as usize];
            file.read_at(newline - before.len() as u64, &mut before)?;
            let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            let count = String::from_utf8_lossy(&before[before.len() - digits..]).into_owned();
            let is_whole_line = match before.len() - digits {
                0 => newline == digits as u64,
                others => before[others - 1] == b'\n',
            };
            return if digits > 0 && is_whole_line {
                Ok((newline - digits as u64, count))
            } else {
                Err(not_found())
            };
        }
        block_end = block_start;
    }
    Err(not_found())
}

/// Reads the frame whose comment line starts at `comment_start`. Returns its time and its end, or
/// `None` if it is not complete before `end`.
fn read_frame_end(
    file: &mut TrajectoryFile,
    comment_start: u64,
    end: u64,
    count: &str,
) -> Result<Option<(f64, u64)>, Fault> {
    let Ok(n) = count.parse::<u64>() else { return Ok(None) };
    let source = file.reader_at(comment_start)?.take(end - comment_start);
    let mut lines = Lines::after_line(0, source);
    let (mut time, mut frame_end) = (None, comment_start);
    for line in 0..=n {
        // A loss of power can leave zeros at the end of a file.
        if !lines.read_line()? || !lines.bytes().ends_with(b"\n") || lines.bytes().contains(&0) {
            return Ok(None);
        }
        frame_end += lines.bytes().len() as u64;
        if line == 0 {
            let pairs = parse_pairs(lines.text("UTF-8")?, 2)?;
            time = pairs.iter().find(|(key, _)| key == "Time").and_then(|(_, value)| value.parse().ok());
        }
    }
    let time = time.ok_or_else(|| {
        let location = format!("frame at byte {comment_start}");
        Fault::malformed(location, "no Time", "a trajectory that orrery has written")
    })?;
    Ok(Some((time, frame_end)))
}
