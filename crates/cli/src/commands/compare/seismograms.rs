//! Differences between the seismograms of two files.

use std::path::Path;

use orrery_formats::Seismogram;
use orrery_model::analysis::FieldDifference;
use orrery_model::format_count;

use super::super::sample_time;
use super::fields::outside_count;
use super::{ColumnDifference, Comparison, FieldDetails, Rules};

/// Largest number of differences in headers that are printed.
const MAX_HEADER_NOTES: usize = 10;

/// Compares headers and samples. Shots are matched by their numbers.
///
/// Samples are compared for shots that have the same numbers of traces and of samples in both
/// files.
pub fn compare_seismograms(
    (a_path, a): (&Path, &[Seismogram]),
    (b_path, b): (&Path, &[Seismogram]),
    rules: &Rules,
) -> Comparison {
    let mut notes: Vec<String> =
        [only_in(a_path, a, b), only_in(b_path, b, a)].into_iter().flatten().collect();
    let mut header_notes = Vec::new();
    let mut compared = Vec::new();
    for shot in a {
        let Some(other) = find(b, shot.shot) else { continue };
        header_notes.extend(header_differences(shot, other));
        if shape(shot) == shape(other) {
            compared.push((shot, other));
        }
    }
    let hidden = header_notes.len().saturating_sub(MAX_HEADER_NOTES);
    notes.extend(header_notes.into_iter().take(MAX_HEADER_NOTES));
    if hidden > 0 {
        notes.push(format!("{hidden} more differences of headers"));
    }
    let samples = |side: fn(&(&Seismogram, &Seismogram)) -> Vec<f64>| {
        compared.iter().flat_map(side).collect::<Vec<f64>>()
    };
    let (a_samples, b_samples) =
        (samples(|pair| pair.0.samples.clone()), samples(|pair| pair.1.samples.clone()));
    let difference = FieldDifference::measure(&a_samples, &b_samples);
    let columns = difference.map(|difference| {
        let FieldDifference { count, largest, index, rms, range } = difference;
        ColumnDifference {
            name: "samples".to_owned(),
            count,
            outside: outside_count(&a_samples, &b_samples, range, rules.tolerance),
            relative: difference.relative(),
            absolute: largest,
            worst: (place_text(&compared, index), a_samples[index], b_samples[index]),
            field: Some(FieldDetails { rms, range, node: None }),
        }
    });
    let traces: usize = compared.iter().map(|(shot, _)| shot.receivers.len()).sum();
    Comparison {
        title: format!("{} and {}", a_path.display(), b_path.display()),
        compared: format!(
            "{} of {}",
            format_count(traces as u64, "trace", "traces"),
            format_count(compared.len() as u64, "shot", "shots")
        ),
        notes,
        columns: columns.into_iter().collect(),
        first: None,
    }
}

fn find(shots: &[Seismogram], number: i32) -> Option<&Seismogram> {
    shots.iter().find(|shot| shot.shot == number)
}

/// Returns the numbers of traces and of samples.
fn shape(shot: &Seismogram) -> (usize, usize) {
    (shot.receivers.len(), shot.sample_count())
}

/// Describes the shots that only the first file has.
fn only_in(path: &Path, shots: &[Seismogram], others: &[Seismogram]) -> Option<String> {
    let mut missing = shots.iter().map(|shot| shot.shot).filter(|&number| find(others, number).is_none());
    let first = missing.next()?;
    Some(match 1 + missing.count() {
        1 => format!("only {} has shot {first}", path.display()),
        count => format!("only {} has {count} shots, the first with number {first}", path.display()),
    })
}

/// Describes the differences between the headers of two shots.
fn header_differences(a: &Seismogram, b: &Seismogram) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |is_same: bool, name: &str, a: String, b: String| {
        if !is_same {
            notes.push(format!("{name} {a} and {b}"));
        }
    };
    let name = |quantity: &str| format!("shot {}: {quantity}", a.shot);
    let position = |position: [f64; 3]| format!("({})", position.map(|x| x.to_string()).join(", "));
    let ((a_traces, a_samples), (b_traces, b_samples)) = (shape(a), shape(b));
    note(a_traces == b_traces, &name("traces"), a_traces.to_string(), b_traces.to_string());
    note(a_samples == b_samples, &name("samples"), a_samples.to_string(), b_samples.to_string());
    note(a.dt == b.dt, &name("interval"), a.dt.to_string(), b.dt.to_string());
    note(a.start == b.start, &name("first time"), a.start.to_string(), b.start.to_string());
    note(a.source == b.source, &name("source"), position(a.source), position(b.source));
    let mut pairs = a.receivers.iter().zip(&b.receivers).enumerate();
    if let Some((k, (first, second))) = pairs.find(|(_, (first, second))| first != second) {
        let more = pairs.filter(|(_, (first, second))| first != second).count();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let receiver = name(&format!("receiver {}{more}", k + 1));
        note(false, &receiver, position(*first), position(*second));
    }
    notes
}

/// Returns the shot, the receiver and the time of a sample of all compared shots.
fn place_text(compared: &[(&Seismogram, &Seismogram)], mut index: usize) -> String {
    for (shot, _) in compared {
        if index < shot.samples.len() {
            let (receiver, sample) = (index / shot.sample_count(), index % shot.sample_count());
            let time = sample_time(shot.time(sample));
            return format!("shot {}, receiver {}, t = {time}", shot.shot, receiver + 1);
        }
        index -= shot.samples.len();
    }
    unreachable!("the index is that of a compared sample")
}
