//! Data files of LAMMPS (<https://docs.lammps.org/read_data.html>), for reading.
//!
//! ```text
//! a title, which may contain `timestep = 100`
//!
//! 2 atoms
//! 1 atom types
//! 0 4 xlo xhi
//! 0 5 ylo yhi
//! 0 6 zlo zhi
//!
//! Masses
//!
//! 1 39.948   # comment
//!
//! Atoms # atomic
//!
//! 1 1 0.5 0.5 0.5 0 0 0
//! 2 1 2.5 2.5 2.5
//!
//! Velocities
//!
//! 1 0.25 0 0
//! 2 -0.25 0 0
//! ```
//!
//! - The styles `atomic`, `charge`, `bond`, `angle`, `molecular`, `full` and `sphere` are read.
//!   Without a style, lines of 5 or 8 columns are `atomic`. Molecules and diameters are
//!   ignored, and charges are counted and ignored. Three more columns are the image of the box.
//! - `Atom Type Labels` name the species. Otherwise their names are `1`, `2` and so on.
//! - Coefficients of potentials are skipped. Bonds, angles and dihedrals are refused, and so are
//!   boxes without right angles.
//! - The file does not say whether the box is periodic, so it is. A system in two dimensions is
//!   read with its thin z axis. The caller may change both.

mod header;

use std::io::BufReader;
use std::path::Path;

use orrery_model::format_count;

use self::header::{Header, Source, Text, finite, numbers, starts_with_letter};
use super::builder::Builder;
use super::{FluidFile, quoted};
use crate::error::Fault;
use crate::limits::{Limits, reserve_column};
use crate::regular::open_input;
use crate::xyz::{Lines, columns_text};

/// Sections whose lines are skipped: they describe potentials.
const SKIPPED_SECTIONS: [&str; 12] = [
    "Pair Coeffs",
    "PairIJ Coeffs",
    "Bond Coeffs",
    "Angle Coeffs",
    "Dihedral Coeffs",
    "Improper Coeffs",
    "Bond Type Labels",
    "Angle Type Labels",
    "Dihedral Type Labels",
    "Improper Type Labels",
    "BondBond Coeffs",
    "BondAngle Coeffs",
];
/// Sections that a simple fluid does not have.
const REFUSED_SECTIONS: [&str; 8] =
    ["Bonds", "Angles", "Dihedrals", "Impropers", "Ellipsoids", "Lines", "Triangles", "Bodies"];
/// Styles that are read, for messages.
const ATOM_STYLES: &str = "atomic, charge, bond, angle, molecular, full and sphere";
/// Returns true if `head` looks like the start of a data file: a line such as `100 atoms`.
pub(super) fn looks_like(head: &[u8]) -> bool {
    let is_count = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.next().is_some_and(|word| word.iter().all(u8::is_ascii_digit)) && words.next() == Some(b"atoms")
    };
    head.split(|&byte| byte == b'\n').skip(1).any(is_count)
}

/// Reads a data file.
pub(super) fn read(path: &Path, limits: &Limits) -> Result<FluidFile, Fault> {
    let (file, file_bytes) = open_input(path)?;
    let mut lines = Lines::after_line(0, BufReader::with_capacity(1 << 20, file));
    let step = step_of_title(lines.next_line("a title")?);
    let mut source = Source { lines, file_bytes };
    let (header, mut section) = Header::read(&mut source)?;
    let names = (1..=header.types).map(|number| number.to_string()).collect();
    let mut data = DataFile { header: &header, names, masses: None, builder: None, charges: 0 };
    while let Some(title) = section {
        section = data.read_section(&title, &mut source, limits)?;
    }
    data.finish(step)
}

/// Returns the step in the title of a file that `write_data` wrote.
fn step_of_title(title: &str) -> Option<u64> {
    let (_, after) = title.split_once("timestep = ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Columns of an atom's line before the image: number of columns, and positions of the type, of x
/// and of the charge.
#[derive(Clone, Copy)]
struct AtomStyle {
    columns: usize,
    kind: usize,
    x: usize,
    /// Column of the charge.
    charge: Option<usize>,
}

impl AtomStyle {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "atomic" => Some(Self { columns: 5, kind: 1, x: 2, charge: None }),
            "charge" => Some(Self { columns: 6, kind: 1, x: 3, charge: Some(2) }),
            "bond" | "angle" | "molecular" => Some(Self { columns: 6, kind: 2, x: 3, charge: None }),
            "full" => Some(Self { columns: 7, kind: 2, x: 4, charge: Some(3) }),
            "sphere" => Some(Self { columns: 7, kind: 1, x: 4, charge: None }),
            _ => None,
        }
    }
}

/// Content of the sections so far.
struct DataFile<'a> {
    header: &'a Header,
    /// Names of the species: labels, or numbers from 1.
    names: Vec<String>,
    masses: Option<Vec<f64>>,
    builder: Option<Builder>,
    /// Number of particles with a charge, which is ignored.
    charges: u64,
}

impl DataFile<'_> {
    /// Reads a section. Returns the title of the next one.
    fn read_section(
        &mut self,
        title: &Text,
        source: &mut Source,
        limits: &Limits,
    ) -> Result<Option<Text>, Fault> {
        match title.text.as_str() {
            "Masses" if self.masses.is_none() => self.read_masses(source)?,
            "Atoms" if self.builder.is_none() => self.read_atoms(title, source, limits)?,
            "Velocities" => self.read_velocities(title, source)?,
            // Names must be known before they are used.
            "Atom Type Labels" if self.masses.is_none() && self.builder.is_none() => {
                self.read_labels(source)?;
            }
            "Masses" | "Atoms" => return Err(title.unexpected("each section once")),
            "Atom Type Labels" => return Err(title.unexpected("labels before Masses and Atoms")),
            name if SKIPPED_SECTIONS.contains(&name) => {
                while let Some(text) = source.next_text()? {
                    if self.is_title(&text) {
                        return Ok(Some(text));
                    }
                }
            }
            name if REFUSED_SECTIONS.contains(&name) => {
                return Err(title.unexpected("particles without bonds or shapes"));
            }
            _ => return Err(title.unexpected("Masses, Atoms, Velocities, Atom Type Labels or Coeffs")),
        }
        source.next_text()
    }

    /// Returns true for the title of a section: it starts with a letter and not with a species.
    fn is_title(&self, text: &Text) -> bool {
        let first = text.text.split_whitespace().next().unwrap_or_default();
        starts_with_letter(&text.text) && self.names.iter().all(|name| name != first)
    }

    /// Returns line `index` of `n` lines of a section.
    fn next_row(&self, source: &mut Source, section: &str, index: u64, n: u64) -> Result<Text, Fault> {
        let expected = || format!("{} in {section}, found {index}", format_count(n, "line", "lines"));
        match source.next_text()? {
            None => Err(source.lines.fault("end of file", &expected())),
            Some(text) if self.is_title(&text) => Err(text.unexpected(expected())),
            Some(text) => Ok(text),
        }
    }

    fn read_labels(&mut self, source: &mut Source) -> Result<(), Fault> {
        let n = self.header.types;
        let mut labels: Vec<Option<String>> = vec![None; n];
        for index in 0..n {
            let text = self.next_row(source, "Atom Type Labels", index as u64, n as u64)?;
            let expected =
                || text.unexpected(format!("a type from 1 to {n} and a label that starts with a letter"));
            let (number, label) = text.text.split_once(char::is_whitespace).ok_or_else(expected)?;
            let number =
                number.parse().ok().filter(|number| (1..=n).contains(number)).ok_or_else(expected)?;
            let label = label.trim();
            if !starts_with_letter(label) || label.contains(char::is_whitespace) {
                return Err(expected());
            }
            if labels[number - 1].is_some() || labels.iter().flatten().any(|known| known == label) {
                return Err(text.unexpected("each type and each label once"));
            }
            labels[number - 1] = Some(label.to_owned());
        }
        self.names = labels.into_iter().flatten().collect();
        Ok(())
    }

    /// Returns the index of a species, given by its number or its label.
    fn species_index(&self, word: &str, text: &Text) -> Result<usize, Fault> {
        let types = self.header.types;
        let number = word.parse::<usize>().ok().filter(|number| (1..=types).contains(number));
        let label = || self.names.iter().position(|name| name == word);
        number.map(|number| number - 1).or_else(label).ok_or_else(|| {
            text.fault(format!("the type {}", quoted(word)), format!("a type from 1 to {types} or a label"))
        })
    }

    fn read_masses(&mut self, source: &mut Source) -> Result<(), Fault> {
        let n = self.header.types;
        let mut masses = vec![None; n];
        for index in 0..n {
            let text = self.next_row(source, "Masses", index as u64, n as u64)?;
            let words: Vec<&str> = text.text.split_whitespace().collect();
            let [kind, mass] = words[..] else { return Err(text.unexpected("a type and its mass")) };
            let species = self.species_index(kind, &text)?;
            let mass = finite(mass).filter(|&mass| mass > 0.0);
            let mass = mass.ok_or_else(|| text.unexpected("a type and its mass > 0"))?;
            if masses[species].replace(mass).is_some() {
                return Err(text.unexpected("each type once"));
            }
        }
        self.masses = masses.into_iter().collect();
        Ok(())
    }

    fn read_atoms(&mut self, title: &Text, source: &mut Source, limits: &Limits) -> Result<(), Fault> {
        let n = self.header.atoms;
        let mut style = match title.comment.as_str() {
            "" => None,
            name => Some(AtomStyle::from_name(name).ok_or_else(|| {
                title.fault(format!("the style {}", quoted(name)), format!("one of {ATOM_STYLES}"))
            })?),
        };
        let mut builder = Builder::new(limits, n, self.names.clone())?;
        let mut has_image = false;
        for index in 0..n {
            let text = self.next_row(source, "Atoms", index, n)?;
            let words: Vec<&str> = text.text.split_whitespace().collect();
            if index == 0 {
                let found = style
                    .or_else(|| AtomStyle::from_name("atomic"))
                    .filter(|style| words.len() == style.columns || words.len() == style.columns + 3);
                style = Some(found.ok_or_else(|| match style {
                    Some(style) => column_fault(&text, style.columns, words.len()),
                    None => {
                        text.fault(columns_text(words.len()), "the style after the title: 'Atoms # charge'")
                    }
                })?);
                has_image = style.is_some_and(|style| words.len() > style.columns);
                builder.reserve(false, has_image)?;
            }
            let style = style.expect("the first line has set it");
            if words.len() != style.columns + if has_image { 3 } else { 0 } {
                return Err(column_fault(&text, style.columns, words.len()));
            }
            let id = words[0].parse().map_err(|_| text.fault(quoted(words[0]), "an id >= 0"))?;
            let species = self.species_index(words[style.kind], &text)?;
            let position = numbers(&words[style.x..style.x + 3], &text)?;
            let mut image = [0; 3];
            for (value, word) in image.iter_mut().zip(&words[style.columns..]) {
                *value = word.parse().map_err(|_| text.fault(quoted(word), "the number of an image"))?;
            }
            let charge = style.charge.map_or("0", |column| words[column]);
            self.charges += u64::from(charge.parse() != Ok(0.0));
            builder.push(position, [0.0; 3], image, species as u8, id);
        }
        self.builder = Some(builder);
        Ok(())
    }

    /// Reads the velocities, which may have another order than the atoms.
    fn read_velocities(&mut self, title: &Text, source: &mut Source) -> Result<(), Fault> {
        let n = self.header.atoms;
        let Some(mut builder) = self.builder.take() else {
            return Err(title.unexpected("Atoms before Velocities"));
        };
        if builder.has_velocity() {
            return Err(title.unexpected("each section once"));
        }
        let mut sorted: Vec<(u64, usize)> = reserve_column(n as usize)?;
        sorted.extend(builder.ids().iter().enumerate().map(|(index, &id)| (id, index)));
        sorted.sort_unstable();
        let mut is_set: Vec<bool> = reserve_column(n as usize)?;
        is_set.resize(n as usize, false);
        builder.fill_velocity()?;
        for index in 0..n {
            let text = self.next_row(source, "Velocities", index, n)?;
            let words: Vec<&str> = text.text.split_whitespace().collect();
            let [id, components @ ..] = &words[..] else {
                return Err(text.unexpected("an id and a velocity"));
            };
            let found = id.parse().ok().and_then(|id: u64| {
                sorted.binary_search_by_key(&id, |&(id, _)| id).ok().map(|place| sorted[place].1)
            });
            let particle =
                found.ok_or_else(|| text.fault(format!("the id {}", quoted(id)), "an id of Atoms"))?;
            if is_set[particle] {
                return Err(text.fault(format!("the id {} twice", quoted(id)), "each id once"));
            }
            is_set[particle] = true;
            builder.set_velocity(particle, numbers(components, &text)?);
        }
        self.builder = Some(builder);
        Ok(())
    }

    fn finish(self, step: Option<u64>) -> Result<FluidFile, Fault> {
        let bounds = self.header.bounds();
        let Some(builder) = self.builder else {
            return Err(Fault::malformed("content", "no section Atoms", "positions"));
        };
        let ignored = match self.charges {
            0 => Vec::new(),
            count => vec![format_count(count, "charge", "charges")],
        };
        Ok(FluidFile { ignored, ..builder.finish(bounds, self.masses, step, None) })
    }
}

fn column_fault(text: &Text, columns: usize, found: usize) -> Fault {
    text.fault(columns_text(found), format!("{columns}, or {} with an image", columns + 3))
}
