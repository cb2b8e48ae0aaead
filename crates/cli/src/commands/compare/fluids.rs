//! Differences between all frames of two trajectories.
//!
//! Frames are matched by their number and particles by their identifiers. With a - b the difference
//! of two coordinates and L the length of a periodic box, the distance is that of the nearest
//! images, |a - b - L round((a - b) / L)|. The unwrapped coordinates of a particle differ by whole
//! boxes if round((a - b) / L) + (image of a - image of b) is not 0.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use orrery_formats::{FluidFile, FluidFrames, is_fluid_trajectory};
use orrery_model::format_count;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::Rules;
use super::report::{Comparison, FirstDifference};
use super::tolerance::{ColumnTally, Rank, Tolerance};
use crate::failure::Failure;

/// Trajectories in the folder of a run, one per format.
pub const TRAJECTORIES: [&str; 2] = ["trajectory.gsd", "trajectory.xyz"];

/// Names of the columns of a particle.
const COLUMNS: [&str; 6] = ["x", "y", "z", "vx", "vy", "vz"];

/// Returns true for a trajectory or a start of a fluid.
pub fn is_trajectory(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    TRAJECTORIES.iter().any(|known| name == *known) || is_fluid_trajectory(path)
}

/// Compares the particles of all frames.
pub fn compare_trajectories(a_path: &Path, b_path: &Path, rules: &Rules) -> Result<Comparison, Failure> {
    let open = |path: &Path| FluidFrames::open(path, &rules.limits).map_err(Failure::Input);
    let (mut a_frames, mut b_frames) = (open(a_path)?, open(b_path)?);
    let mut found = Differences::new(rules.tolerance, [a_path, b_path]);
    let mut counts = [0; 2];
    loop {
        let next = |frames: &mut FluidFrames| frames.next_frame().map_err(Failure::Input);
        let (a, b) = (next(&mut a_frames)?, next(&mut b_frames)?);
        counts[0] += usize::from(a.is_some());
        counts[1] += usize::from(b.is_some());
        match (a, b) {
            (Some(a), Some(b)) => {
                check_units(&a, &b, [a_path, b_path])?;
                found.add_frame(&a, &b);
            }
            (None, None) => break,
            // The frames of the longer file are read to count them and to find damage.
            _ => {}
        }
    }
    Ok(found.finish(counts))
}

/// Refuses frames with different units.
fn check_units(a: &FluidFile, b: &FluidFile, [a_path, b_path]: [&Path; 2]) -> Result<(), Failure> {
    let (Some(a), Some(b)) = (&a.units, &b.units) else { return Ok(()) };
    let mut names = a.keys().chain(b.keys());
    let unit = |units: &BTreeMap<String, String>, name: &String| units.get(name).cloned().unwrap_or_default();
    let Some(name) = names.find(|name| unit(a, name) != unit(b, name)) else { return Ok(()) };
    let quoted = |units: &BTreeMap<String, String>| match unit(units, name) {
        none if none.is_empty() => "none".to_owned(),
        unit => format!("'{unit}'"),
    };
    let what = if name == "system" { "system of units".to_owned() } else { format!("unit of {name}") };
    Err(Failure::Usage(format!(
        "{}: the {what} is {}, but {} has {}; expected files with the same units",
        b_path.display(),
        quoted(b),
        a_path.display(),
        quoted(a)
    )))
}

/// A difference that is not in a column: its first description and the number of its frames.
struct Note {
    kind: &'static str,
    text: String,
    frame: usize,
    frames: usize,
}

/// Differences of all frames so far.
struct Differences<'a> {
    tolerance: Tolerance,
    paths: [&'a Path; 2],
    /// Number of the current frame, from 1, and its step.
    frame: usize,
    step: Option<u64>,
    /// Smallest and largest number of particles that were compared in a frame.
    particles: Option<(usize, usize)>,
    notes: Vec<Note>,
    columns: [ColumnTally; 6],
    first: Option<FirstDifference>,
}

impl<'a> Differences<'a> {
    fn new(tolerance: Tolerance, paths: [&'a Path; 2]) -> Self {
        Self {
            tolerance,
            paths,
            frame: 0,
            step: None,
            particles: None,
            notes: Vec::new(),
            columns: COLUMNS.map(|_| ColumnTally::new(tolerance, Rank::Absolute)),
            first: None,
        }
    }

    /// Adds a difference that is not in a column.
    fn note(&mut self, kind: &'static str, text: String) {
        self.set_first(None, || text.clone());
        match self.notes.iter_mut().find(|note| note.kind == kind) {
            Some(note) => note.frames += 1,
            None => self.notes.push(Note { kind, text, frame: self.frame, frames: 1 }),
        }
    }

    fn set_first(&mut self, particle: Option<u64>, what: impl FnOnce() -> String) {
        let (frame, step) = (self.frame, self.step);
        self.first.get_or_insert_with(|| FirstDifference { frame, step, particle, what: what() });
    }

    fn add_frame(&mut self, a: &FluidFile, b: &FluidFile) {
        self.frame += 1;
        self.step = a.step;
        self.compare_labels(a, b);
        let matched = self.match_particles(a, b);
        self.particles = Some(match self.particles {
            None => (matched.len(), matched.len()),
            Some((least, most)) => (least.min(matched.len()), most.max(matched.len())),
        });
        self.compare_species(a, b, &matched);
        self.compare_images(a, b, &matched);
        self.compare_columns(a, b, &matched);
    }

    /// Compares what a frame has once.
    fn compare_labels(&mut self, a: &FluidFile, b: &FluidFile) {
        if a.step != b.step {
            self.note("step", format!("step {} and {}", or_none(a.step), or_none(b.step)));
        }
        let is_same_time = match (a.time, b.time) {
            (Some(a), Some(b)) => self.tolerance.accepts_values(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        if !is_same_time {
            self.note("time", format!("time {} and {}", or_none(a.time), or_none(b.time)));
        }
        if !is_same_box(&a.bounds, &b.bounds, self.tolerance) {
            self.note("box", format!("box {} and {}", box_text(&a.bounds), box_text(&b.bounds)));
        }
        let [a_path, b_path] = self.paths;
        let mut has_only = |kind: &'static str, a: bool, b: bool| {
            if a != b {
                let path = if a { a_path } else { b_path };
                self.note(kind, format!("only {} has {kind}", path.display()));
            }
        };
        has_only("velocities", a.velocity.is_some(), b.velocity.is_some());
        has_only("image counts", a.image.is_some(), b.image.is_some());
        has_only("masses", a.mass.is_some(), b.mass.is_some());
    }

    /// Returns the indices of the particles that both frames have, in the order of the first one.
    fn match_particles(&mut self, a: &FluidFile, b: &FluidFile) -> Vec<(usize, usize)> {
        if a.id == b.id {
            return (0..a.id.len()).map(|k| (k, k)).collect();
        }
        let index: HashMap<u64, usize> = b.id.iter().enumerate().map(|(k, &id)| (id, k)).collect();
        let matched: Vec<(usize, usize)> =
            a.id.iter().enumerate().filter_map(|(k, id)| Some((k, *index.get(id)?))).collect();
        let known: HashSet<u64> = a.id.iter().copied().collect();
        let lost = a.id.iter().filter(|id| !index.contains_key(id));
        let added = b.id.iter().filter(|id| !known.contains(id));
        let texts = [
            ("particles of the first", only_text(self.paths[0], lost)),
            ("particles of the second", only_text(self.paths[1], added)),
        ];
        for (kind, text) in texts {
            if let Some(text) = text {
                self.note(kind, text);
            }
        }
        matched
    }

    fn compare_species(&mut self, a: &FluidFile, b: &FluidFile, matched: &[(usize, usize)]) {
        let name = |file: &'_ FluidFile, k: usize| file.species_names[usize::from(file.species[k])].clone();
        let mut others = matched.iter().filter(|&&(i, j)| {
            let [a_name, b_name] =
                [(a, i), (b, j)].map(|(file, k)| &file.species_names[usize::from(file.species[k])]);
            a_name != b_name
        });
        if let Some(&(i, j)) = others.next() {
            let count = format_count(1 + others.count() as u64, "particle has", "particles have");
            let (a_name, b_name) = (name(a, i), name(b, j));
            let text = format!("{count} another species, the first is {}: {a_name} and {b_name}", a.id[i]);
            self.note("species", text);
        }
        let (Some(a_mass), Some(b_mass)) = (&a.mass, &b.mass) else { return };
        for (name, a_mass) in a.species_names.iter().zip(a_mass) {
            let other = b.species_names.iter().position(|other| other == name).map(|k| b_mass[k]);
            if let Some(b_mass) = other
                && !self.tolerance.accepts_values(*a_mass, b_mass)
            {
                self.note("mass", format!("mass of species {name} {a_mass} and {b_mass}"));
            }
        }
    }

    /// Compares the numbers of box lengths that particles have moved. Without a tolerance the
    /// numbers must be equal. With one, unwrapped coordinates must not differ by a box length.
    fn compare_images(&mut self, a: &FluidFile, b: &FluidFile, matched: &[(usize, usize)]) {
        let (Some(a_image), Some(b_image)) = (&a.image, &b.image) else { return };
        let is_strict = self.tolerance == Tolerance::default();
        let boxes_apart = |axis: usize, i: usize, j: usize| {
            let apart = i64::from(a_image[axis][i]) - i64::from(b_image[axis][j]);
            match is_strict {
                true => apart,
                false => {
                    let (a_x, b_x) = (column(a, axis)[i], column(b, axis)[j]);
                    let crossed = wraps(a_x - b_x, &a.bounds, axis);
                    apart + crossed as i64
                }
            }
        };
        let mut differing = matched.iter().filter_map(|&(i, j)| {
            let axis = (0..a.bounds.dimensions).find(|&axis| boxes_apart(axis, i, j) != 0)?;
            Some((i, j, axis))
        });
        if let Some((i, j, axis)) = differing.next() {
            let count = format_count(1 + differing.count() as u64, "particle has", "particles have");
            let (id, name) = (a.id[i], COLUMNS[axis]);
            let (a_count, b_count) = (a_image[axis][i], b_image[axis][j]);
            let text = format!(
                "{count} another image count, the first is {id}: {a_count} and {b_count} along {name}"
            );
            self.note("images", text);
        }
    }

    /// Compares coordinates and velocities.
    fn compare_columns(&mut self, a: &FluidFile, b: &FluidFile, matched: &[(usize, usize)]) {
        let has_velocity = a.velocity.is_some() && b.velocity.is_some();
        let axes = if has_velocity { 6 } else { 3 };
        let frame = self.frame;
        for &(i, j) in matched {
            for axis in 0..axes {
                let (x, y) = (column(a, axis)[i], column(b, axis)[j]);
                if x.to_bits() == y.to_bits() {
                    continue;
                }
                let difference = match axis {
                    0..3 => {
                        let length = a.bounds.lengths[axis];
                        ((x - y) - length * wraps(x - y, &a.bounds, axis)).abs()
                    }
                    _ => (x - y).abs(),
                };
                let id = a.id[i];
                let label = || format!("frame {frame}, particle {id}");
                if !self.columns[axis].add((x, y), difference, label) {
                    self.set_first(Some(id), || format!("{} {x:e} and {y:e}", COLUMNS[axis]));
                }
            }
        }
    }

    /// Returns the result for files with these numbers of frames.
    fn finish(self, [a_frames, b_frames]: [usize; 2]) -> Comparison {
        let frames_text = |count: usize| format_count(count as u64, "frame", "frames");
        let note_text = |note: &Note| {
            let more = match note.frames {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            format!("frame {}{more}: {}", note.frame, note.text)
        };
        let mut notes: Vec<String> = self.notes.iter().map(note_text).collect();
        if a_frames != b_frames {
            notes.insert(0, format!("{a_frames} and {b_frames} frames"));
        }
        let particles = match self.particles {
            None => "no particles".to_owned(),
            Some((least, most)) if least == most => format_count(most as u64, "particle", "particles"),
            Some((least, most)) => format!("{least} to {most} particles"),
        };
        let columns = COLUMNS.into_iter().zip(self.columns).filter_map(|(name, tally)| tally.finish(name));
        Comparison {
            title: format!("{} and {}", self.paths[0].display(), self.paths[1].display()),
            compared: format!("{particles} in {}", frames_text(a_frames.min(b_frames))),
            notes,
            columns: columns.collect(),
            first: self.first,
        }
    }
}

/// Returns the coordinates along an axis, or from 3 on the velocities.
fn column(file: &FluidFile, axis: usize) -> &[f64] {
    let vectors = match (axis, &file.velocity) {
        (3.., Some(velocity)) => velocity,
        _ => &file.coordinates,
    };
    [&vectors.x, &vectors.y, &vectors.z][axis % 3]
}

/// Returns the number of box lengths in a difference of coordinates, 0 in an open box.
fn wraps(difference: f64, bounds: &SimulationBox, axis: usize) -> f64 {
    match bounds.sides {
        BoxSides::Periodic if axis < bounds.dimensions => (difference / bounds.lengths[axis]).round(),
        _ => 0.0,
    }
}

/// Returns true for the same box. The size of an open box has no meaning, so with a tolerance it
/// may differ.
fn is_same_box(a: &SimulationBox, b: &SimulationBox, tolerance: Tolerance) -> bool {
    if (a.sides, a.dimensions) != (b.sides, b.dimensions) {
        return false;
    }
    if a.sides == BoxSides::Open && tolerance != Tolerance::default() {
        return true;
    }
    let is_same = |a: [f64; 3], b: [f64; 3]| (0..3).all(|axis| tolerance.accepts_values(a[axis], b[axis]));
    is_same(a.lengths, b.lengths) && is_same(a.origin, b.origin)
}

fn box_text(bounds: &SimulationBox) -> String {
    let join = |numbers: [f64; 3]| {
        numbers[..bounds.dimensions].iter().map(f64::to_string).collect::<Vec<_>>().join(" x ")
    };
    let sides = match bounds.sides {
        BoxSides::Periodic => "periodic",
        BoxSides::Open => "open",
    };
    format!("{sides} {} from {}", join(bounds.lengths), join(bounds.origin).replace(" x ", ", "))
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or("none".to_owned(), |value| value.to_string())
}

/// Describes the particles that only one file has.
fn only_text<'a>(path: &Path, mut ids: impl Iterator<Item = &'a u64>) -> Option<String> {
    let first = ids.next()?;
    Some(match 1 + ids.count() {
        1 => format!("only {} has particle {first}", path.display()),
        count => format!("only {} has {count} particles, the first is {first}", path.display()),
    })
}
