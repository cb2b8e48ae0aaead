//! Checks of the names of chunks. GSD has no checksums, and a reader uses defaults for chunks that
//! are missing, for example velocities of 0. So a damaged name would give wrong particles.
//!
//! - Names are those of the schema, or below `log/` or `state/`, which are free.
//! - Each frame has a name at most once.
//! - Files of Orrery have the names of [`CHUNK_NAMES`] in this order, all of them in frame 0.

use super::{APPLICATION, CHUNK_NAMES, Entry, Header};
use crate::error::Fault;
use crate::fluid::quoted;

/// Last version of the schema whose names are known: 2.0. Later ones can have others.
const KNOWN_SCHEMA: u32 = 2 << 16;

/// Categories of the schema `hoomd` 1.4 and their names, which are those of 2.0 too.
const SCHEMA_NAMES: [(&str, &[&str]); 8] = [
    ("configuration", &["step", "dimensions", "box"]),
    (
        "particles",
        &[
            "N",
            "types",
            "typeid",
            "mass",
            "charge",
            "diameter",
            "body",
            "moment_inertia",
            "position",
            "orientation",
            "velocity",
            "angmom",
            "image",
            "type_shapes",
        ],
    ),
    ("bonds", GROUPS),
    ("angles", GROUPS),
    ("dihedrals", GROUPS),
    ("impropers", GROUPS),
    ("constraints", &["N", "value", "group"]),
    ("pairs", GROUPS),
];
const GROUPS: &[&str] = &["N", "types", "typeid", "group"];
/// Categories with names of the user.
const FREE: [&str; 2] = ["log", "state"];

/// Chunks of Orrery with three columns. The names of species have one per letter, others have one.
const VECTORS: [&str; 3] = ["particles/position", "particles/velocity", "particles/image"];
const SPECIES_NAMES: &str = "particles/types";

/// Returns true if Orrery has written the file.
pub(super) fn is_own(header: &Header) -> bool {
    header.application == APPLICATION
}

/// Checks the list of names of a file.
pub(super) fn check_names(header: &Header, names: &[String]) -> Result<(), Fault> {
    let location = |number: usize| format!("name {number} of the chunks");
    for (number, name) in names.iter().enumerate() {
        if names[..number].contains(name) {
            return Err(Fault::malformed(
                location(number),
                format!("{} again", quoted(name)),
                "different names",
            ));
        }
    }
    if is_own(header) {
        for (number, expected) in CHUNK_NAMES.into_iter().enumerate() {
            let found = names.get(number).map_or("nothing".to_owned(), |name| quoted(name));
            if names.get(number).is_none_or(|name| name != expected) {
                return Err(Fault::malformed(location(number), found, quoted(expected)));
            }
        }
    }
    if header.schema_version > KNOWN_SCHEMA {
        return Ok(());
    }
    match names.iter().position(|name| !is_known(name)) {
        Some(number) => {
            let expected = "a name of the schema hoomd, or one below log/ or state/";
            Err(Fault::malformed(location(number), quoted(&names[number]), expected))
        }
        None => Ok(()),
    }
}

/// Describes the unknown names of a file without velocities, which may be velocities under another
/// or a damaged name. Only later versions of the schema have unknown names, see [`check_names`].
pub(super) fn possible_velocities(names: &[String]) -> Option<String> {
    let unknown: Vec<String> = names.iter().filter(|name| !is_known(name)).map(|name| quoted(name)).collect();
    let has_velocities = names.iter().any(|name| name == "particles/velocity");
    (!has_velocities && !unknown.is_empty())
        .then(|| format!("no velocities but chunks of another name ({})", unknown.join(", ")))
}

fn is_known(name: &str) -> bool {
    let Some((category, rest)) = name.split_once('/') else { return false };
    let of_schema = SCHEMA_NAMES.iter().any(|(known, names)| *known == category && names.contains(&rest));
    of_schema || FREE.contains(&category)
}

/// Chunks of the frame that is being read, from the entries of the index.
pub(super) struct FrameNames {
    is_own: bool,
    frame: u64,
    /// One flag per name of the file.
    seen: Vec<bool>,
    /// Name of the entry before.
    last: Option<u16>,
}

impl FrameNames {
    /// Starts before the first entry of a file with this number of names.
    pub fn new(header: &Header, names: usize) -> Self {
        Self { is_own: is_own(header), frame: 0, seen: vec![false; names], last: None }
    }

    /// Checks the next entry, whose name is one of the file. The error has what was found and what
    /// was expected.
    pub fn check(&mut self, entry: &Entry) -> Result<(), (String, String)> {
        if entry.frame != self.frame {
            self.end_frame()?;
            self.seen.fill(false);
            (self.frame, self.last) = (entry.frame, None);
        }
        let name = usize::from(entry.name);
        if std::mem::replace(&mut self.seen[name], true) {
            return Err((format!("name {name} twice in frame {}", entry.frame), "each name once".to_owned()));
        }
        let Some(own) = CHUNK_NAMES.get(name).filter(|_| self.is_own) else { return Ok(()) };
        if self.last.is_some_and(|last| last > entry.name) {
            let got = format!("{} after name {}", quoted(own), self.last.unwrap_or_default());
            return Err((got, "names in their order".to_owned()));
        }
        self.last = Some(entry.name);
        let columns = if VECTORS.contains(own) { 3 } else { 1 };
        if *own != SPECIES_NAMES && entry.columns != columns {
            return Err((format!("{} with {} columns", quoted(own), entry.columns), columns.to_string()));
        }
        Ok(())
    }

    /// Checks that a frame is complete. Frame 0 of Orrery has all chunks.
    pub fn end_frame(&self) -> Result<(), (String, String)> {
        let missing = CHUNK_NAMES.iter().zip(&self.seen).find(|(_, is_seen)| !**is_seen);
        match missing.filter(|_| self.is_own && self.frame == 0) {
            Some((name, _)) => {
                Err((format!("no chunk {} in frame 0", quoted(name)), "all chunks".to_owned()))
            }
            None => Ok(()),
        }
    }
}
