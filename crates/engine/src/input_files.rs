//! Input files of fields, and the hashes of what was read from them.
//!
//! Every rank reads the files of velocities, conductivities, sources, edges and wavelets. On
//! node-local disks, or after a stale cache, these can be other files. So all ranks compare the
//! hashes of what they read (`find_difference`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use orrery_cluster::{ClusterError, Team};
use orrery_formats::{
    FieldData, IoError, Limits, SegyModel, VolumeData, read_field_npy_hashed, read_model_segy_hashed,
    read_profile_npy_hashed, read_volume_npy_hashed,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::EngineError;

/// Digits of a hash in messages.
const SHOWN_DIGITS: usize = 16;

/// BLAKE3 hashes of files, in hexadecimal, by absolute path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputHashes(BTreeMap<String, String>);

impl InputHashes {
    /// Returns the hash of the file at `path`, if it was read.
    pub fn of(&self, path: &Path) -> Option<&str> {
        self.0.get(&absolute_name(path)).map(String::as_str)
    }
}

/// Reader of the input files of a field. It keeps their hashes.
#[derive(Debug, Default)]
pub struct InputFiles {
    /// Limits for reading the files.
    pub limits: Limits,
    hashes: RefCell<InputHashes>,
}

impl InputFiles {
    /// Returns a reader that has read no file yet.
    pub fn new(limits: &Limits) -> Self {
        Self { limits: *limits, hashes: RefCell::default() }
    }

    /// Returns the hashes of the files that were read.
    pub fn into_hashes(self) -> InputHashes {
        self.hashes.into_inner()
    }

    /// Reads an NPY file with the values of a plane.
    pub fn plane_npy(&self, path: &Path) -> Result<FieldData, EngineError> {
        self.keep(path, read_field_npy_hashed(path, &self.limits))
    }

    /// Reads an NPY file with values along an edge or over time.
    pub fn profile_npy(&self, path: &Path) -> Result<Vec<f64>, EngineError> {
        self.keep(path, read_profile_npy_hashed(path, &self.limits))
    }

    /// Reads an NPY file with the values of a plane or a volume.
    pub fn volume_npy(&self, path: &Path) -> Result<VolumeData, EngineError> {
        self.keep(path, read_volume_npy_hashed(path, &self.limits))
    }

    /// Reads a model in a SEG-Y file.
    pub fn model_segy(&self, path: &Path) -> Result<SegyModel, EngineError> {
        self.keep(path, read_model_segy_hashed(path, &self.limits))
    }

    fn keep<T>(&self, path: &Path, read: Result<(T, String), IoError>) -> Result<T, EngineError> {
        let (data, hash) = read.map_err(EngineError::Input)?;
        self.hashes.borrow_mut().0.insert(absolute_name(path), hash);
        Ok(data)
    }
}

fn absolute_name(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// A rank has read another file than rank 0.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "{path}: rank {rank} of {ranks} has read another file than rank 0: blake3:{}, expected {}; all nodes need \
     the same file, for example on a shared file system",
    shown(found),
    expected.as_ref().map_or("none".to_owned(), |hash| format!("blake3:{}", shown(hash)))
)]
pub struct InputDifference {
    path: String,
    rank: usize,
    ranks: usize,
    found: String,
    /// Hash on rank 0, if it has read the file.
    expected: Option<String>,
}

/// Returns the first digits of a hash.
fn shown(hash: &str) -> &str {
    hash.get(..SHOWN_DIGITS).unwrap_or(hash)
}

/// Compares the hashes of all ranks, each of which must call it. Returns the first difference, on
/// all ranks the same. Files that only rank 0 has read are not compared.
pub(crate) fn find_difference(
    team: &Team,
    own: &InputHashes,
) -> Result<Option<InputDifference>, ClusterError> {
    let unreadable = |error: serde_json::Error| ClusterError::Command { message: error.to_string() };
    let message = serde_json::to_vec(own).map_err(unreadable)?;
    let messages = team.transport().all_gather(&message)?;
    let all = messages.iter().map(|message| serde_json::from_slice(message));
    let all: Vec<InputHashes> = all.collect::<Result<_, _>>().map_err(unreadable)?;
    Ok(first_difference(&all))
}

/// Returns the first file of the lowest rank that differs from that of rank 0.
fn first_difference(all: &[InputHashes]) -> Option<InputDifference> {
    let (of_leader, ranks) = (&all.first()?.0, all.len());
    let files =
        all.iter().enumerate().flat_map(|(rank, hashes)| hashes.0.iter().map(move |file| (rank, file)));
    files.into_iter().find_map(|(rank, (path, found))| {
        let expected = of_leader.get(path);
        let (path, found, known) = (path.clone(), found.clone(), expected.cloned());
        (expected != Some(&found)).then_some(InputDifference { path, rank, ranks, found, expected: known })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(files: &[(&str, &str)]) -> InputHashes {
        InputHashes(files.iter().map(|&(path, hash)| (path.to_owned(), hash.to_owned())).collect())
    }

    #[test]
    fn the_first_other_file_is_found() {
        let leader = hashes(&[("/a", "11"), ("/b", "22"), ("/start", "33")]);
        let same = hashes(&[("/a", "11"), ("/b", "22")]);
        assert_eq!(first_difference(&[leader.clone(), same.clone(), same.clone()]), None);
        assert_eq!(first_difference(std::slice::from_ref(&leader)), None);
        let other = hashes(&[("/a", "11"), ("/b", "0123456789abcdef0123")]);
        let text = first_difference(&[leader.clone(), same.clone(), other]).unwrap().to_string();
        let expected = "/b: rank 2 of 3 has read another file than rank 0: blake3:0123456789abcdef, expected blake3:22; ";
        assert!(text.starts_with(expected), "{text}");
        let further = hashes(&[("/c", "44")]);
        let text = first_difference(&[leader, further, same]).unwrap().to_string();
        assert!(text.starts_with("/c: rank 1 of 3 ") && text.contains("expected none; "), "{text}");
    }
}
