//! Files that identify a run: its case and its provenance.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use orrery_formats::{
    Fault, Format, IoError, copy_file_atomically, hash_file, read_small_text, write_file_atomically,
};

use crate::case::Case;
use crate::clean::clean_line;
use crate::error::EngineError;
use crate::folder::{CASE, MAX_TEXT_BYTES, PROVENANCE, start_file_name};
use crate::provenance::recorded_input_hash;

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

/// Copies the snapshot that the run starts from to the folder of the run, if the case asks for it.
/// `provenance` has the hash of the file that was read.
pub fn keep_start_file(
    folder: &Path,
    case: &Case,
    provenance: &[(String, String)],
) -> Result<(), EngineError> {
    let Some(source) = case.snapshot_file().filter(|_| case.output.keep_start) else { return Ok(()) };
    let format = Format::detect(&source).map_err(EngineError::Output)?;
    let copy = folder.join(start_file_name(format));
    copy_file_atomically(&source, &copy).map_err(EngineError::Output)?;
    let recorded = provenance.iter().find(|(name, _)| name == "inputs");
    let recorded = recorded.and_then(|(_, inputs)| recorded_input_hash(inputs, &source));
    match recorded {
        Some(hash) if hash_file(&copy).map_err(EngineError::Output)? != hash => {
            let fault = Fault::malformed("content", "another hash", "the file that the run started from");
            Err(EngineError::Output(IoError { path: copy, fault }))
        }
        _ => Ok(()),
    }
}

/// Formats the provenance as text, one line per pair. The case is left out because it has a file of
/// its own.
fn provenance_text(provenance: &[(String, String)]) -> String {
    provenance
        .iter()
        .filter(|(name, _)| name != "case")
        .map(|(name, text)| format!("{}: {}\n", clean_line(name), clean_line(text)))
        .collect()
}

/// Checks whether `case.toml` in the folder of a run was edited. `run` is the case in the
/// checkpoint and `case` is the one to resume with.
///
/// The file is a record and is not read by a resumed run. An edit that the run cannot follow is an
/// error. For other edits the difference is returned, for a warning: a kill during a resume with
/// new settings can leave the file older than the checkpoint.
pub fn check_case_file(folder: &Path, run: &Case, case: &Case) -> Result<Option<Difference>, EngineError> {
    // A resumed run writes a missing file again.
    let Some(edited) = read_case_file(folder)? else { return Ok(None) };
    match fixed_difference(run, &edited) {
        Some(Difference { found, given }) => {
            Err(EngineError::EditedCaseFile { path: folder.join(CASE), found, given })
        }
        // An unchanged file differs from the settings that are new in this process.
        None => Ok(first_difference(run, &edited).and_then(|_| first_difference(case, &edited))),
    }
}

/// Reads `case.toml` in the folder of a run. Returns `None` if it is missing.
pub fn read_case_file(folder: &Path) -> Result<Option<Case>, EngineError> {
    let path = folder.join(CASE);
    let text = match read_small_text(&path, MAX_TEXT_BYTES) {
        Ok(text) => text,
        Err(e) if e.system_cause().is_some_and(|cause| cause.kind() == ErrorKind::NotFound) => {
            return Ok(None);
        }
        Err(e) => return Err(EngineError::Input(e)),
    };
    match Case::load_from_checkpoint(&text, &path.display().to_string(), &[]) {
        Ok(case) => Ok(Some(case)),
        Err(error) => Err(EngineError::UnreadableCaseFile { path, error }),
    }
}

/// Returns the case `given` for a comparison with that of a run: with absolute paths, and with what
/// a run adds to its case.
pub fn comparable_case(given: &Case, run: &Case) -> Case {
    let mut case = given.with_absolute_paths();
    // Without `time.start`, the run started at the time of its file.
    case.time.start = case.time.start.or(run.time.start);
    case.keep_time_dispersion_of(run);
    case
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
    first_difference(run, &comparable)
}

/// Returns the first key in which two cases differ, or their physics.
fn first_difference(run: &Case, given: &Case) -> Option<Difference> {
    let names = [run, given].map(|case| case.physics.name().as_str());
    if names[0] != names[1] {
        let [found, given] = names.map(|name| format!("the physics {name}"));
        return Some(Difference { found, given });
    }
    let [found, given] = [run, given].map(case_lines);
    let both = found.iter().zip(&given);
    let same = both.take_while(|(found, given)| found.key == given.key && found.plain == given.plain).count();
    let key = match (found.get(same), given.get(same)) {
        // The key of both, or one that only the second case has.
        (Some(line), Some(other)) if given.iter().any(|given| given.key == line.key) => &other.key,
        (Some(line), _) | (None, Some(line)) => &line.key,
        (None, None) => return None,
    };
    let text = |lines: &[CaseLine]| {
        let line = lines.iter().find(|line| line.key == *key);
        line.map_or_else(|| format!("no {key}"), |line| format!("{key} = {}", line.written))
    };
    Some(Difference { found: text(&found), given: text(&given) })
}

/// Line of a resolved case with a key.
struct CaseLine {
    /// The key with its section, for example `time.step` or `heat.region[2].source`.
    key: String,
    /// The value, with quantities as numbers.
    plain: String,
    /// The value as the user wrote it.
    written: String,
}

/// Returns the keys of a case. Quantities are compared as numbers and reported as the user wrote
/// them.
fn case_lines(case: &Case) -> Vec<CaseLine> {
    let (plain, written) = (case.to_plain_toml(), case.to_toml());
    let (mut section, mut tables) = (String::new(), BTreeMap::<String, usize>::new());
    let mut lines = Vec::new();
    // Both texts have the same keys.
    for (plain, written) in plain.lines().zip(written.lines()) {
        if let Some(name) = plain.strip_prefix("[[").and_then(|name| name.strip_suffix("]]")) {
            let number = tables.entry(name.to_owned()).or_default();
            *number += 1;
            section = format!("{name}[{number}].");
        } else if let Some(name) = plain.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let (Some((key, plain)), Some((_, written))) =
            (plain.split_once(" = "), written.split_once(" = "))
        {
            let (plain, written) = (plain.to_owned(), written.to_owned());
            lines.push(CaseLine { key: format!("{section}{key}"), plain, written });
        }
    }
    lines
}
