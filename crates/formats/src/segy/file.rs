//! Files of either kind of data.

use std::path::Path;

use super::model::build_model;
use super::read::{group_shots, read_traces};
use crate::error::IoError;
use crate::field::{FieldFile, length_of};
use crate::hashed::{HashedFile, read_hashed};
use crate::limits::Limits;
use crate::seismogram::Seismogram;

/// Kind of the data in a SEG-Y file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegyKind {
    /// Values at receivers against time.
    Seismograms,
    /// Values at nodes, such as velocities.
    Model,
}

/// Content of a SEG-Y file.
#[derive(Clone, Debug, PartialEq)]
pub enum SegyFile {
    /// One seismogram per shot, at least one.
    Seismograms(Vec<Seismogram>),
    /// A model, whose last axis is the depth.
    Model(FieldFile),
}

/// Whether a file that starts with these bytes may be SEG-Y: line 1 of the textual header starts
/// with `C 1` or `C01`, in EBCDIC or ASCII.
pub fn looks_like(head: &[u8]) -> bool {
    [&b"\xc3\x40\xf1"[..], b"\xc3\xf0\xf1", b"C 1 ", b"C01 "].iter().any(|start| head.starts_with(start))
}

/// Reads a SEG-Y file as data of a kind. Without one, a file whose samples are all positive is a
/// model, because velocities and densities are positive, and seismograms start at 0 and oscillate.
pub fn read_segy(path: &Path, limits: &Limits, kind: Option<SegyKind>) -> Result<SegyFile, IoError> {
    let file_bytes = length_of(path)?;
    let read = |file: &mut HashedFile| {
        let traces = read_traces(file, limits)?;
        let kind = kind.unwrap_or_else(|| match traces.samples.iter().all(|&sample| sample > 0.0) {
            true => SegyKind::Model,
            false => SegyKind::Seismograms,
        });
        Ok(match kind {
            SegyKind::Seismograms => SegyFile::Seismograms(group_shots(traces)?),
            SegyKind::Model => SegyFile::Model(FieldFile::from_model(build_model(traces)?, file_bytes)),
        })
    };
    read_hashed(path, read).map(|(data, _)| data)
}
