//! Comparison of the files of a run with its manifest and its newest checkpoint.
//!
//! The checkpoint has the state of the manifest, of the tables that grow and of the animation. The
//! manifest has length and hash of all other files. A resumed run writes all files after the
//! checkpoint again, so only `orrery check` of a finished run compares them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use orrery_formats::{
    Fault, FileProblem, FileRecord, IoError, Limits, MANIFEST_FILE, ManifestContent, Mark, read_checkpoint,
    read_manifest,
};
use orrery_model::format_count;
use rayon::prelude::*;

use crate::checkpoint::{self, LoadedCheckpoint};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::folder::{CASE, CHECKPOINTS, IMAGES, PROVENANCE, SNAPSHOTS};
use crate::observers;
use crate::system::{PLOTS, RESULTS, TRAJECTORIES};

/// Bytes that a resumed run reads to compare hashes. It compares the lengths of all files. Reading
/// them takes 1 to 4 s on a local disk.
const RESUME_BYTES: u64 = 4 << 30;
/// Differences that a resumed run lists.
const RESUME_LINES: usize = 20;

/// Result of a check of the folder of a run.
#[derive(Debug)]
pub struct FolderCheck {
    /// Step of the newest intact checkpoint.
    pub step: u64,
    /// True if the run is complete.
    pub is_finished: bool,
    /// Number of files that were compared, without checkpoints.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Number of checkpoints.
    pub checkpoints: usize,
    /// Files that differ, in the order of their names.
    pub differences: Vec<FileDifference>,
    /// Number of snapshots and images that cannot be compared, because the manifest has no line of
    /// them.
    pub unlisted: usize,
    /// Remarks that are not differences, one line each.
    pub notes: Vec<String>,
}

/// A file that differs from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDifference {
    /// Path of the file.
    pub path: PathBuf,
    /// The difference in words.
    pub problem: String,
}

/// Differences of the files of a manifest.
#[derive(Debug, Default)]
struct Comparison {
    files: usize,
    bytes: u64,
    /// Names of the files that differ.
    different: Vec<(String, FileProblem)>,
    /// Number and bytes of the files of which only the length was compared.
    unread: (usize, u64),
}

/// Returns true for a file that an unfinished run writes again as a whole.
fn is_replaced_later(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let is_plot = PLOTS.contains(&stem) && (name.ends_with(".svg") || name.ends_with(".png"));
    is_plot || (RESULTS.contains(&name) && !TRAJECTORIES.contains(&name))
}

/// Compares the files of a manifest that are `wanted`. At most `most_bytes` are read, those of the
/// last names first: the newest snapshots. Files that are only listed after the checkpoint are not
/// compared.
///
/// As soon as `is_stopped` returns true, only lengths are compared.
fn compare_files(
    folder: &Path,
    content: &ManifestContent,
    is_finished: bool,
    most_bytes: u64,
    is_stopped: &(dyn Fn() -> bool + Sync),
    wanted: impl Fn(&str) -> bool,
) -> Comparison {
    let mut records: BTreeMap<&str, Vec<&FileRecord>> =
        content.covered.iter().map(|(name, record)| (name.as_str(), vec![record])).collect();
    for (name, record) in &content.later {
        if let Some(known) = records.get_mut(name.as_str()) {
            known.push(record);
        }
    }
    records.retain(|name, _| wanted(name));
    let mut left = most_bytes;
    let mut comparison = Comparison { files: records.len(), ..Comparison::default() };
    let mut tasks = Vec::with_capacity(records.len());
    for (name, records) in records.into_iter().rev() {
        let bytes = records[0].bytes();
        let is_read = bytes <= left;
        left = left.saturating_sub(bytes);
        comparison.bytes += bytes;
        if !is_read {
            comparison.unread.0 += 1;
            comparison.unread.1 += bytes;
        }
        tasks.push((name, records, is_read));
    }
    let compare = |(name, records, is_read): &(&str, Vec<&FileRecord>, bool)| {
        let path = folder.join(name);
        let differs = |record: &&FileRecord| {
            let length = record.compare_length(&path, !is_finished);
            length.and_then(|()| match *is_read && !is_stopped() {
                true => record.compare_content(&path, is_stopped).map(drop),
                false => Ok(()),
            })
        };
        let problem = differs(&records[0]).err()?;
        // A run that was killed may have written the file again after the checkpoint.
        let is_newer = records[1..].iter().any(|record| differs(record).is_ok());
        (!is_newer).then(|| ((*name).to_owned(), problem))
    };
    comparison.different = tasks.par_iter().filter_map(compare).collect();
    comparison.different.reverse();
    comparison
}

/// Describes a file that grows, if it does not start with the bytes of `mark`. That of a finished
/// run ends with them and a trailer.
fn growing_file_problem(path: &Path, mark: &Mark, trailer: u64, is_finished: bool) -> Option<String> {
    let length = path.metadata().map_or(0, |found| found.len());
    let expected = mark.length + trailer;
    match mark.check_file(path) {
        Err(IoError { fault: Fault::Changed("removed"), .. }) => Some(FileProblem::Missing.to_string()),
        Err(_) if length == 0 => Some(FileProblem::Empty { expected }.to_string()),
        Err(_) if length < mark.length => Some(FileProblem::Truncated { length, expected }.to_string()),
        Err(IoError { fault: Fault::Changed(_), .. }) => {
            Some(FileProblem::Changed { frame: None }.to_string())
        }
        Err(error) => Some(FileProblem::Unreadable(error.fault).to_string()),
        Ok(()) if is_finished && length > expected => {
            Some(FileProblem::Longer { length, expected }.to_string())
        }
        Ok(()) if is_finished && length < expected => {
            Some(FileProblem::Truncated { length, expected }.to_string())
        }
        Ok(()) => None,
    }
}

/// Describes why a manifest cannot be used.
fn manifest_problem(error: &IoError) -> String {
    match &error.fault {
        Fault::Changed("removed") => "missing; the files before the checkpoint are not checked".to_owned(),
        Fault::Changed(what) => format!("{what} since the checkpoint; the files before it are not checked"),
        fault => format!("{fault}; the files before the checkpoint are not checked"),
    }
}

/// Compares the folder of a run with its manifest and its checkpoints. Reads all files and writes
/// nothing. Returns an error if there is no intact checkpoint.
pub fn check_folder(folder: &Path, limits: &Limits) -> Result<FolderCheck, EngineError> {
    if !folder.is_dir() {
        return Err(EngineError::NotAFolder { path: folder.to_owned() });
    }
    let mut differences = Vec::new();
    let mut add = |path: PathBuf, problem: String| differences.push(FileDifference { path, problem });
    let loaded = checkpoint::load_newest(folder, limits, |error| {
        if let EngineError::Input(error) = error {
            add(error.path.clone(), format!("damaged: {}", error.fault));
        }
    })?;
    let mut checkpoints = CHECKPOINTS.list_files(folder);
    // One that an earlier resume has found damaged was renamed.
    checkpoints.retain(|path| path.extension().is_some_and(|extension| extension == "orrery"));
    for path in checkpoints.iter().filter(|path| **path < loaded.path) {
        if let Err(error) = read_checkpoint(path, limits) {
            add(path.clone(), format!("damaged: {}", error.fault));
        }
    }
    let LoadedCheckpoint { case, simulation, observers, .. } = loaded;
    let (moment, is_finished) = (simulation.moment(), simulation.is_finished());
    let mut notes = Vec::new();
    let schema = moment.system.schema(&case.units);
    let growing = observers.growing_files(&schema);
    let mut bytes = 0;
    for (name, mark, trailer) in &growing {
        let path = folder.join(name);
        let Some(problem) = growing_file_problem(&path, mark, *trailer, is_finished) else {
            bytes += mark.length + trailer;
            continue;
        };
        match is_finished || !is_replaced_later(name) {
            true => add(path, problem),
            false => notes.push(format!("{}: {problem}; a resumed run replaces it", path.display())),
        }
    }
    let mut files = growing.len();
    let mut unlisted: Vec<PathBuf> =
        [SNAPSHOTS, IMAGES].iter().flat_map(|series| series.list_files(folder)).collect();
    let manifest = observers.manifest().map(|mark| read_manifest(folder, mark, limits));
    match manifest {
        None => notes.push(format!(
            "{}: the run was written without a manifest, so its snapshots and images cannot be checked",
            folder.display()
        )),
        Some(Err(error)) => add(folder.join(MANIFEST_FILE), manifest_problem(&error)),
        Some(Ok(mut content)) => {
            let later = content.later.iter().map(|(name, _)| name);
            let listed: BTreeSet<&String> = content.covered.keys().chain(later).collect();
            unlisted.retain(|path| !name_in(folder, path).is_some_and(|name| listed.contains(&name)));
            if !unlisted.is_empty() {
                notes.push(format!(
                    "{}: {} in snapshots and images without a line in the manifest, not checked",
                    folder.display(),
                    format_count(unlisted.len() as u64, "file", "files")
                ));
            }
            if is_finished {
                content.cover_later_files();
            }
            let found = compare_files(folder, &content, is_finished, u64::MAX, &|| false, |_| true);
            files += found.files;
            bytes += found.bytes;
            for (name, problem) in found.different {
                let path = folder.join(&name);
                match is_finished || !is_replaced_later(&name) {
                    true => add(path, problem.to_string()),
                    false => notes.push(format!("{}: {problem}; a resumed run replaces it", path.display())),
                }
            }
        }
    }
    differences.sort_by(|a, b| a.path.cmp(&b.path));
    let (step, checkpoints, unlisted) = (moment.step, checkpoints.len(), unlisted.len());
    Ok(FolderCheck { step, is_finished, files, bytes, checkpoints, differences, unlisted, notes })
}

/// Returns the name of a file in the manifest of `folder`.
fn name_in(folder: &Path, path: &Path) -> Option<String> {
    let parts = path.strip_prefix(folder).ok()?.iter().map(|part| part.to_str());
    Some(parts.collect::<Option<Vec<_>>>()?.join("/"))
}

/// Returns the error of a run that would append to a changed file.
fn changed_file(path: PathBuf, problem: FileProblem) -> EngineError {
    let what = match problem {
        FileProblem::Missing => "removed",
        FileProblem::NotAFile => "replaced by something that is not a file",
        FileProblem::Empty { .. } | FileProblem::Truncated { .. } => "shortened",
        FileProblem::Unreadable(fault @ Fault::System(_)) => {
            return EngineError::Output(IoError { path, fault });
        }
        _ => "changed",
    };
    EngineError::Output(IoError { path, fault: Fault::Changed(what) })
}

/// Reports the files before a checkpoint that differ from the manifest. `state` is that of the
/// checkpoint from which the run resumes.
///
/// A changed trajectory of an unfinished run is an error, because a frame after lost ones would
/// hide the gap. With `restart_outputs` it is set aside.
pub(crate) fn report_differences(
    folder: &Path,
    state: &observers::State,
    (is_finished, restart_outputs): (bool, bool),
    control: &Control,
    report: &mut dyn FnMut(RunEvent<'_>),
) -> Result<(), EngineError> {
    let Some(mark) = state.manifest() else {
        report(RunEvent::NoManifest { folder });
        return Ok(());
    };
    let content = match read_manifest(folder, mark, &control.limits) {
        Ok(content) => content,
        Err(error) => {
            let problem = manifest_problem(&error);
            report(RunEvent::FileDiffers { path: &error.path, problem: &problem });
            return Ok(());
        }
    };
    // A resumed run writes its case again and compares it first.
    let wanted =
        |name: &str| ![CASE, PROVENANCE].contains(&name) && (is_finished || !is_replaced_later(name));
    let is_stopped = || control.stop.load(Ordering::Relaxed);
    let found = compare_files(folder, &content, is_finished, RESUME_BYTES, &is_stopped, wanted);
    let is_continued = |name: &str| !is_finished && TRAJECTORIES.contains(&name);
    let (continued, others): (Vec<_>, Vec<_>) =
        found.different.into_iter().partition(|(name, _)| is_continued(name));
    for (name, problem) in others.iter().take(RESUME_LINES) {
        let problem = format!("{problem}; it is not written again");
        report(RunEvent::FileDiffers { path: &folder.join(name), problem: &problem });
    }
    if let Some(count) = others.len().checked_sub(RESUME_LINES).filter(|&count| count > 0) {
        report(RunEvent::MoreFilesDiffer { folder, count });
    }
    let (count, bytes) = found.unread;
    if count > 0 {
        report(RunEvent::FilesNotRead { folder, count, bytes });
    }
    for (name, problem) in continued {
        let path = folder.join(name);
        match restart_outputs {
            true => observers::set_aside_changed(&path, report)?,
            false => return Err(changed_file(path, problem)),
        }
    }
    Ok(())
}
