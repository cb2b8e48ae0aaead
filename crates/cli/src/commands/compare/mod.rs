//! `compare`: differences between two snapshots, two trajectories, two fields, two seismograms or
//! two runs.
//!
//! Bodies are matched by their ids, so their order and the file format do not matter. Frames of
//! trajectories are matched by their number, and the distance of two positions in a periodic box is
//! that of the nearest images. Snapshots of two runs are matched by their names without extension,
//! trajectories by being the trajectory, the rows of tables by their position, and arrays and SEG-Y
//! files in the folder of a run by their names.
//!
//! The relative difference of two values a and b is |a - b| / max(|a|, |b|). For fields and
//! seismograms it is relative to the range of their values. Values are equal within a tolerance if
//! |a - b| <= ABS + REL max(|a|, |b|), or REL times the range.

mod fields;
mod fluids;
mod report;
mod runs;
mod seismograms;
mod snapshots;
mod tables;
mod tolerance;

use std::path::Path;

use orrery_formats::{FieldFile, FieldFormat, Limits, SegyFile, Seismogram, read_field, read_segy};
use serde_json::{Value, json};

use self::report::{ColumnDifference, Comparison, FieldDetails, NodePlace};
pub use self::tolerance::Tolerance;
use super::Ending;
use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Rules of a comparison.
struct Rules {
    limits: Limits,
    tolerance: Tolerance,
}

/// Compares two snapshots, two fields, two seismograms or two runs.
pub fn compare(arguments: &CompareArgs) -> Result<Ending, Failure> {
    let (a, b) = (arguments.first.as_path(), arguments.second.as_path());
    let rules =
        Rules { limits: arguments.memory.limits(), tolerance: arguments.tolerance.unwrap_or_default() };
    let json = arguments.json.prepare()?;
    let parts = match (a.is_dir(), b.is_dir()) {
        (false, false) => vec![compare_files(a, b, &rules)?],
        (true, true) => runs::compare_folders(a, b, &rules)?,
        (is_run, _) => {
            let kind = |is_dir: bool| if is_dir { "the directory of a run" } else { "a file" };
            return Err(Failure::Usage(format!(
                "{} is {} but {} is {}, expected two files or two runs",
                a.display(),
                kind(is_run),
                b.display(),
                kind(!is_run)
            )));
        }
    };
    parts.iter().for_each(Comparison::print);
    let is_equal = parts.iter().all(Comparison::is_equal);
    if parts.len() > 1 {
        let different = parts.iter().filter(|part| !part.is_equal()).count();
        match is_equal {
            true if parts.iter().all(Comparison::is_identical) => {
                print_line!("the runs are equal to the bit");
            }
            true => print_line!("the runs are equal within the tolerance"),
            false => print_line!("the runs differ in {different} of {} files", parts.len()),
        }
    }
    json.write(|| {
        let parts: Vec<Value> = parts.iter().map(Comparison::to_json).collect();
        let tolerance = arguments.tolerance.map(|t| [t.absolute, t.relative]);
        json!({ "equal": is_equal, "tolerance": tolerance, "files": parts })
    })?;
    Ok(if is_equal { Ending::Done } else { Ending::Different })
}

/// Content of a file to compare.
enum Content {
    Bodies,
    Trajectory,
    Field(FieldFile),
    Seismograms(Vec<Seismogram>),
}

impl Content {
    fn read(path: &Path, limits: &Limits) -> Result<Self, Failure> {
        Ok(match FieldFormat::detect(path) {
            None if fluids::is_trajectory(path) => Self::Trajectory,
            None => Self::Bodies,
            Some(FieldFormat::Segy) => match read_segy(path, limits, None).map_err(Failure::Input)? {
                SegyFile::Seismograms(shots) => Self::Seismograms(shots),
                SegyFile::Model(field) => Self::Field(field),
            },
            Some(_) => Self::Field(read_field(path, limits).map_err(Failure::Input)?),
        })
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Bodies => "is a snapshot of bodies",
            Self::Trajectory => "is a trajectory",
            Self::Field(_) => "is a field",
            Self::Seismograms(_) => "has seismograms",
        }
    }
}

/// Compares two files of the same kind.
fn compare_files(a_path: &Path, b_path: &Path, rules: &Rules) -> Result<Comparison, Failure> {
    let limits = &rules.limits;
    match (Content::read(a_path, limits)?, Content::read(b_path, limits)?) {
        (Content::Bodies, Content::Bodies) => snapshots::compare_snapshots(a_path, b_path, rules),
        (Content::Trajectory, Content::Trajectory) => fluids::compare_trajectories(a_path, b_path, rules),
        // An extended XYZ file with one frame can be both.
        (Content::Trajectory, Content::Bodies) if is_xyz(b_path) => {
            fluids::compare_trajectories(a_path, b_path, rules)
        }
        (Content::Bodies, Content::Trajectory) if is_xyz(a_path) => {
            fluids::compare_trajectories(a_path, b_path, rules)
        }
        (Content::Field(a), Content::Field(b)) => fields::compare_fields((a_path, &a), (b_path, &b), rules),
        (Content::Seismograms(a), Content::Seismograms(b)) => {
            Ok(seismograms::compare_seismograms((a_path, &a), (b_path, &b), rules))
        }
        (a, b) => Err(Failure::Usage(format!(
            "{} {} but {} {}, expected two files of the same kind",
            a_path.display(),
            a.kind(),
            b_path.display(),
            b.kind()
        ))),
    }
}

/// Returns true for the extension of extended XYZ files.
fn is_xyz(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "xyz" || extension == "extxyz")
}
