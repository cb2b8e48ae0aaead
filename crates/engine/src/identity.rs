//! What a run is, for people and for those who go on with it: its case, and where it comes from.

use std::path::Path;

use orrery_io::write_file_atomically;

use crate::case::Case;
use crate::error::EngineError;
use crate::folder::{CASE, PROVENANCE};

/// Writes what a run is: its case, and where it comes from.
pub fn write_about(folder: &Path, case: &Case, provenance: &[(String, String)]) -> Result<(), EngineError> {
    // First what makes the folder a run's.
    write_file_atomically(&folder.join(PROVENANCE), provenance_text(provenance).as_bytes())
        .and_then(|()| write_file_atomically(&folder.join(CASE), case.to_toml().as_bytes()))
        .map_err(EngineError::Output)
}

/// The provenance for people; the case has its own file.
fn provenance_text(provenance: &[(String, String)]) -> String {
    provenance
        .iter()
        .filter(|(name, _)| name != "case")
        .map(|(name, text)| format!("{name}: {text}\n"))
        .collect()
}

/// A run is gone on with only as what it is: when it is saved, how far numbers may go wrong and what a full disk
/// means may change, since they change nothing that is computed.
pub fn check_same_run(folder: &Path, found: &Case, expected: &Case) -> Result<(), EngineError> {
    let mut alike = Case { checkpoint: found.checkpoint, limits: found.limits, ..expected.clone() };
    alike.output.on_error = found.output.on_error;
    alike.description.clone_from(&found.description);
    let (found, expected) = (found.to_toml(), alike.to_toml());
    if found == expected {
        return Ok(());
    }
    let mut section = String::new();
    for (found, expected) in found.lines().zip(expected.lines()) {
        if found != expected {
            let (found, expected) = (format!("{section}{found}"), format!("{section}{expected}"));
            return Err(EngineError::CaseDiffers { path: folder.to_owned(), found, expected });
        }
        if let Some(name) = found.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = format!("{name}.");
        }
    }
    let (found, expected) = ("another case".to_owned(), "more or less".to_owned());
    Err(EngineError::CaseDiffers { path: folder.to_owned(), found, expected })
}
