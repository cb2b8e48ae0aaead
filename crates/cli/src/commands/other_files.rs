//! Files that `info` or `convert` cannot read, with a message that says what they are and what can
//! be read.

use std::path::Path;

use orrery_formats::Format;

use crate::failure::Failure;

/// Kinds of files that a run writes besides snapshots and fields: extensions, what they are, and
/// what reads them.
const KINDS: [(&[&str], &str, &str); 6] = [
    (&["csv"], "a table", "a spreadsheet, numpy.loadtxt or pandas.read_csv reads it"),
    (&["toml"], "a case", "orrery run --dry-run describes it"),
    (&["txt"], "a text", "any editor shows it"),
    (&["log"], "a log", "any editor shows it"),
    (&["svg"], "a plot", "a browser shows it"),
    (&["gif", "mp4"], "an animation", "a browser shows it, and images/ has its frames as PNG"),
];

/// Name of a checkpoint for a message, and the command that reads it.
const CHECKPOINT: (&str, &str) = (
    "a checkpoint",
    "orrery resume continues from it, and snapshots/ or the trajectory has the state at output times",
);

/// Files of a run that are known by their whole name or by the end of it.
const NAMED: [(&str, &str, &str); 3] = [
    (".lock", "a mark of a run", "it shows that a process writes to the directory"),
    (".running", "a mark of a run", "it shows that a process writes to the directory"),
    (".orrery.damaged", "a damaged checkpoint", "orrery resume uses an earlier one"),
];

/// Files that `info` reads.
pub const READ_BY_INFO: &str = "a snapshot (.hdf5, .xyz, .npz, GADGET binary), a field (.npy, .vti, .png), a \
                                trajectory (.gsd, .xyz), LAMMPS data, SEG-Y or a checkpoint";
/// Files that `convert` reads.
pub const READ_BY_CONVERT: &str =
    "a snapshot (.hdf5, .xyz, .npz, GADGET binary), a field (.npy, .vti, .png) or SEG-Y";

/// Returns the failure for a file that a command cannot read and that is no snapshot. `None` if its
/// extension is unknown or if it may be a damaged snapshot.
pub fn refusal(path: &Path, read: &str) -> Option<Failure> {
    let (what, reader) = kind_of(path)?;
    // A snapshot may have any name.
    let is_snapshot = Format::detect(path).is_ok();
    let text = format!("{} is {what} ({reader}), expected {read}", path.display());
    (!is_snapshot).then_some(Failure::Usage(text))
}

/// Returns what a file of a run is by its name, and what reads it.
fn kind_of(path: &Path) -> Option<(&'static str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    // Damaged checkpoints have a number before the end. Files such as `data.lock` are of others.
    let is_named = |end: &str| name == end || (end.ends_with(".damaged") && name.ends_with(end));
    if let Some((_, what, reader)) = NAMED.iter().find(|(end, ..)| is_named(end)) {
        return Some((what, reader));
    }
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    if extension == "orrery" {
        return Some(CHECKPOINT);
    }
    let (_, what, reader) = KINDS.iter().find(|(names, ..)| names.contains(&extension.as_str()))?;
    Some((what, reader))
}

/// Returns the failure for particles of a fluid, which `convert` cannot write.
pub fn trajectory_refusal(path: &Path) -> Failure {
    let text = "has particles of a fluid (OVITO, ASE and MDAnalysis convert it)";
    Failure::Usage(format!("{} {text}, expected {READ_BY_CONVERT}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_are_named() {
        for (path, expected) in [
            ("out/.lock", Some("a mark of a run")),
            ("out/.running", Some("a mark of a run")),
            ("out/checkpoints/checkpoint_000004.orrery.damaged", Some("a damaged checkpoint")),
            ("out/checkpoints/checkpoint_000004.orrery", Some("a checkpoint")),
            ("out/table.CSV", Some("a table")),
            ("data.lock", None),
            ("plain", None),
        ] {
            assert_eq!(kind_of(Path::new(path)).map(|(what, _)| what), expected, "{path}");
        }
    }
}
