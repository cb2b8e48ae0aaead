//! Files that `info` or `convert` cannot read, with a message that says what they are and what can
//! be read.

use std::path::Path;

use orrery_io::Format;

use crate::failure::Failure;

/// Kinds of files that a run writes besides snapshots and fields: extensions, what they are, and
/// what reads them.
const KINDS: [(&[&str], &str, &str); 7] = [
    (&["csv"], "a table", "a spreadsheet, numpy.loadtxt or pandas.read_csv reads it"),
    (&["toml"], "a case", "orrery run --dry-run describes it"),
    (&["txt"], "a text", "any editor shows it"),
    (&["log"], "a log", "any editor shows it"),
    (&["svg"], "a plot", "a browser shows it"),
    (&["gif", "mp4"], "an animation", "a browser shows it, and images/ has its frames as PNG"),
    (
        &["orrery"],
        "a checkpoint",
        "orrery resume continues from it, and snapshots/ has the state at output times",
    ),
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
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let (_, what, reader) = KINDS.iter().find(|(names, ..)| names.contains(&extension.as_str()))?;
    // A snapshot may have any name.
    let is_snapshot = Format::detect(path).is_ok();
    let text = format!("{} is {what} ({reader}), expected {read}", path.display());
    (!is_snapshot).then_some(Failure::Usage(text))
}

/// Returns the failure for particles of a fluid, which `convert` cannot write.
pub fn trajectory_refusal(path: &Path) -> Failure {
    let text = "has particles of a fluid (OVITO, ASE and MDAnalysis convert it)";
    Failure::Usage(format!("{} {text}, expected {READ_BY_CONVERT}", path.display()))
}
