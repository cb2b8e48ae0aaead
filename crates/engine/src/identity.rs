//! Files that identify a run: its case and its provenance.

use std::path::Path;

use orrery_io::write_file_atomically;

use crate::case::Case;
use crate::error::EngineError;
use crate::folder::{CASE, PROVENANCE};

/// Writes the provenance and the resolved case to the folder of a run.
pub fn write_run_info(
    folder: &Path,
    case: &Case,
    provenance: &[(String, String)],
) -> Result<(), EngineError> {
    // The provenance comes first: it marks the folder as the folder of a run.
    write_file_atomically(&folder.join(PROVENANCE), provenance_text(provenance).as_bytes())
        .and_then(|()| write_file_atomically(&folder.join(CASE), case.to_toml().as_bytes()))
        .map_err(EngineError::Output)
}

/// Formats the provenance as text. The case is left out because it has a file of its own.
fn provenance_text(provenance: &[(String, String)]) -> String {
    provenance
        .iter()
        .filter(|(name, _)| name != "case")
        .map(|(name, text)| format!("{name}: {text}\n"))
        .collect()
}

/// Checks that the case in hand describes the run in `folder`.
///
/// A resumed run must have the same case. Only checkpoint, limits and on_error settings may differ,
/// because they do not affect results. The description may differ too.
pub fn check_same_case(folder: &Path, found: &Case, expected: &Case) -> Result<(), EngineError> {
    let mut comparable = Case { checkpoint: found.checkpoint, limits: found.limits, ..expected.clone() };
    comparable.output.on_error = found.output.on_error;
    comparable.description.clone_from(&found.description);
    let (found, expected) = (found.to_toml(), comparable.to_toml());
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
    let lines = |text: &str| format!("{} lines", text.lines().count());
    let (found, expected) = (lines(&found), lines(&expected));
    Err(EngineError::CaseDiffers { path: folder.to_owned(), found, expected })
}
