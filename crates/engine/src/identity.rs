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

/// First key in which two cases of a run differ, each with its value, such as `time.step = 0.1`.
pub struct Difference {
    /// In the case of the run.
    pub found: String,
    /// In the other case.
    pub given: String,
}

/// Returns the first key of `given` that a resumed run cannot change and that differs from the case
/// of the run.
///
/// The end can change because a run can be extended. Checkpoint, limits and on_error settings can
/// change because they do not affect results. The description can change too.
pub fn fixed_difference(run: &Case, given: &Case) -> Option<Difference> {
    let mut comparable = Case { checkpoint: run.checkpoint, limits: run.limits, ..given.clone() };
    comparable.time.end = run.time.end;
    comparable.output.on_error = run.output.on_error;
    comparable.description.clone_from(&run.description);
    let (found, given) = (run.to_toml(), comparable.to_toml());
    let mut section = String::new();
    for (found, given) in found.lines().zip(given.lines()) {
        if found != given {
            return Some(Difference {
                found: format!("{section}{found}"),
                given: format!("{section}{given}"),
            });
        }
        if let Some(name) = found.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = format!("{name}.");
        }
    }
    None
}
