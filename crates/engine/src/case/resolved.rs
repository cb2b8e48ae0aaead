//! The resolved case as text. It contains every key, so that it reads back to the identical
//! [`Case`] even if a default changes in a later version. Quantities keep the unit of the user.

use orrery_model::{Dimension, format_count};

use super::declare::{KeySpec, Kind, SectionSpec, Variant, Words, word_for};
use super::quantities::WrittenQuantities;
use super::reader::item_path;
use super::sections::{
    bodies, checkpoint, gravity, grid, heat, image, initial, lennard_jones, limits, output, particles,
    thermostat, time, top, wave,
};
use super::{Case, Every, GravityCase, ImageSize, Physics};

/// Writer of a section, with one `key = value` per line.
///
/// At the end of a section it checks that all declared keys were written, except those that do not
/// apply and those that were left out explicitly.
pub(super) struct SectionWriter<'a> {
    /// Path such as `bodies.first`. Empty for the top level.
    path: String,
    declared: Vec<&'static KeySpec>,
    /// Names of the keys that are done, and their values in TOML.
    done: Vec<(&'static str, String)>,
    lines: String,
    /// Text of the sections below this one, which follows the keys.
    sections: String,
    case: &'a Case,
    written: &'a WrittenQuantities,
}

impl<'a> SectionWriter<'a> {
    fn new(case: &'a Case, written: &'a WrittenQuantities, path: String, spec: &'static SectionSpec) -> Self {
        let declared = spec.keys_of(case.physics.name()).collect();
        let (done, lines, sections) = (Vec::new(), String::new(), String::new());
        Self { path, declared, done, lines, sections, case, written }
    }

    /// Adds the keys of a variant to the declared ones.
    pub fn add_variant(&mut self, variant: &Variant) {
        self.declared.extend(variant.keys.iter().copied().flatten());
    }

    /// Writes a section below this one.
    pub fn section(&mut self, key: &'static str, write: impl FnOnce(&mut SectionWriter<'a>)) {
        let Kind::Section(spec) = self.declaration(key).kind else { self.misdeclared(key) };
        let mut section = SectionWriter::new(self.case, self.written, self.key_path(key), spec);
        write(&mut section);
        let heading = format!("\n[{}]\n", section.path);
        self.sections.push_str(&(heading + &section.finish()));
        self.leave_out(key);
    }

    /// Writes a list of sections below this one.
    pub fn sections<T>(
        &mut self,
        key: &'static str,
        items: &[T],
        write: impl Fn(&mut SectionWriter<'a>, &T),
    ) {
        let Kind::Sections(spec) = self.declaration(key).kind else { self.misdeclared(key) };
        let path = self.key_path(key);
        for (index, item) in items.iter().enumerate() {
            let mut section = SectionWriter::new(self.case, self.written, item_path(&path, index), spec);
            write(&mut section, item);
            self.sections.push_str(&(format!("\n[[{path}]]\n") + &section.finish()));
        }
        self.leave_out(key);
    }

    /// Returns the text of the section.
    fn finish(self) -> String {
        for spec in &self.declared {
            let value_of =
                |key: &str| self.done.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
            let applies = spec
                .only_with
                .is_none_or(|(key, word)| value_of(key).is_some_and(|value| *value == quoted(word)));
            debug_assert!(
                value_of(spec.name).is_some() == applies,
                "[{}] {} is declared but not written, or written although it does not apply",
                self.path,
                spec.name
            );
        }
        self.lines + &self.sections
    }

    /// Leaves out a key that other keys replace.
    pub fn leave_out(&mut self, key: &'static str) {
        self.declaration(key);
        self.done.push((key, String::new()));
    }

    pub fn text(&mut self, key: &'static str, value: &str) {
        let (Kind::Text | Kind::File | Kind::Word(_)) = self.declaration(key).kind else {
            self.misdeclared(key)
        };
        self.write_line(key, quoted(value));
    }

    pub fn word<T: PartialEq>(&mut self, key: &'static str, words: &Words<T>, value: &T) {
        self.text(key, word_for(words, value));
    }

    pub fn boolean(&mut self, key: &'static str, value: bool) {
        let Kind::Boolean = self.declaration(key).kind else { self.misdeclared(key) };
        self.write_line(key, value.to_string());
    }

    pub fn quantities(&mut self, key: &'static str, values: &[f64]) {
        let Kind::Quantities { dimensions, .. } = self.declaration(key).kind else { self.misdeclared(key) };
        let text = |(index, &x): (usize, &f64)| self.quantity_text(&item_path(key, index), x, dimensions);
        let texts: Vec<String> = values.iter().enumerate().map(text).collect();
        self.write_line(key, format!("[{}]", texts.join(", ")));
    }

    pub fn integer(&mut self, key: &'static str, value: u64) {
        let Kind::Integer { .. } = self.declaration(key).kind else { self.misdeclared(key) };
        self.write_line(key, value.to_string());
    }

    pub fn pixel_size(&mut self, key: &'static str, size: ImageSize) {
        let Kind::PixelSize { .. } = self.declaration(key).kind else { self.misdeclared(key) };
        let text = match size {
            ImageSize::Longer(pixels) => pixels.to_string(),
            ImageSize::Exact(width, height) => quoted(&format!("{width}x{height}")),
        };
        self.write_line(key, text);
    }

    /// Writes one of the words.
    pub fn point_word<T: PartialEq>(&mut self, key: &'static str, words: &Words<T>, value: &T) {
        let Kind::Point(_) = self.declaration(key).kind else { self.misdeclared(key) };
        self.write_line(key, quoted(word_for(words, value)));
    }

    pub fn point(&mut self, key: &'static str, point: [f64; 3]) {
        let Kind::Point(_) = self.declaration(key).kind else { self.misdeclared(key) };
        let text = |(index, x)| self.quantity_text(&item_path(key, index), x, &[Dimension::Length]);
        let texts: Vec<String> = point.into_iter().enumerate().map(text).collect();
        self.write_line(key, format!("[{}]", texts.join(", ")));
    }

    pub fn number(&mut self, key: &'static str, value: f64) {
        self.number_or_word(key, Some(value));
    }

    /// Writes a number. `None` is the word that the key accepts instead.
    pub fn number_or_word(&mut self, key: &'static str, value: Option<f64>) {
        let Kind::Number { or, .. } = self.declaration(key).kind else { self.misdeclared(key) };
        let word = or.map_or("", |or| or.word);
        self.write_line(key, value.map_or_else(|| quoted(word), number_text));
    }

    pub fn quantity(&mut self, key: &'static str, value: f64) {
        self.quantity_or_word(key, Some(value));
    }

    /// Writes a quantity. `None` is the word that the key accepts instead.
    pub fn quantity_or_word(&mut self, key: &'static str, value: Option<f64>) {
        let kind = self.declaration(key).kind;
        let Kind::Quantity { or, .. } = kind else { self.misdeclared(key) };
        let word = or.map_or("", |or| or.word);
        let text = value.map(|value| self.quantity_text(key, value, &kind.dimensions()));
        self.write_line(key, text.unwrap_or_else(|| quoted(word)));
    }

    pub fn interval(&mut self, key: &'static str, every: Every) {
        let (Kind::Interval | Kind::CheckpointInterval) = self.declaration(key).kind else {
            self.misdeclared(key)
        };
        self.write_line(
            key,
            match every {
                Every::Never => "0".to_owned(),
                Every::Steps(count) => quoted(&format_count(count, "step", "steps")),
                Every::Time(time) => self.quantity_text(key, time, &[Dimension::Time]),
            },
        );
    }

    pub fn wall_clock_interval(&mut self, key: &'static str, text: &str) {
        let Kind::CheckpointInterval = self.declaration(key).kind else { self.misdeclared(key) };
        self.write_line(key, quoted(text));
    }

    /// Returns a quantity of one of the dimensions as the user wrote it, or else as a number.
    fn quantity_text(&self, key: &str, value: f64, dimensions: &[Dimension]) -> String {
        let (path, units) = (self.key_path(key), &self.case.units);
        let written =
            dimensions.iter().find_map(|&dimension| self.written.text_of(&path, value, units, dimension));
        written.map_or_else(|| number_text(value), quoted)
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn write_line(&mut self, key: &'static str, value: String) {
        self.lines.push_str(&format!("{key} = {value}\n"));
        self.done.push((key, value));
    }

    fn declaration(&self, key: &str) -> &'static KeySpec {
        let found = self.declared.iter().find(|spec| spec.name == key);
        found.unwrap_or_else(|| panic!("[{}] {key} is written but not declared", self.path))
    }

    /// Ends with an error in the code: the writer of a section and its declaration disagree.
    fn misdeclared(&self, key: &str) -> ! {
        panic!("[{}] {key} is declared with another type than it is written", self.path)
    }
}

impl Case {
    /// Returns the case as TOML with all keys, and with quantities as the user wrote them.
    pub fn to_toml(&self) -> String {
        self.write_toml(&self.written)
    }

    /// Returns the case as TOML with all keys, and with quantities as plain numbers. Equal cases
    /// have equal texts.
    pub fn to_plain_toml(&self) -> String {
        self.write_toml(&WrittenQuantities::default())
    }

    fn write_toml(&self, written: &WrittenQuantities) -> String {
        let mut w = SectionWriter::new(self, written, String::new(), top::SPEC);
        w.text("name", &self.name);
        w.text("description", &self.description);
        w.text("units", self.units.name());
        match &self.physics {
            Physics::Gravity(GravityCase { bodies, settings, integrator, .. }) => {
                w.section("bodies", |w| bodies::write_bodies(w, bodies));
                w.section("gravity", |w| gravity::write_gravity(w, settings));
                w.section("time", |w| time::write_time(w, &self.time, *integrator));
            }
            Physics::Heat(heat) => {
                w.section("grid", |w| grid::write_grid(w, &heat.grid));
                w.section("heat", |w| heat::write_heat(w, heat));
                w.section("initial", |w| initial::write_initial(w, &heat.initial));
                w.section("time", |w| time::write_field_time(w, &self.time, self.physics.name()));
            }
            Physics::Wave(wave) => {
                w.section("grid", |w| grid::write_wave_grid(w, &wave.grid));
                w.section("wave", |w| wave::write_wave(w, wave));
                w.section("time", |w| time::write_field_time(w, &self.time, self.physics.name()));
            }
            Physics::LennardJones(fluid) => {
                w.section("particles", |w| particles::write_particles(w, fluid));
                w.section("lennard_jones", |w| lennard_jones::write_lennard_jones(w, fluid));
                w.section("thermostat", |w| thermostat::write_thermostat(w, fluid.thermostat.as_ref()));
                w.section("structure", |w| thermostat::write_structure(w, &fluid.structure));
                w.section("time", |w| time::write_field_time(w, &self.time, self.physics.name()));
            }
        }
        w.section("output", |w| output::write_output(w, &self.output, self.physics.name()));
        w.section("checkpoint", |w| checkpoint::write_checkpoint(w, &self.checkpoint));
        w.section("limits", |w| limits::write_limits(w, &self.limits, self.physics.name()));
        let view = match &self.physics {
            Physics::Gravity(gravity) => image::ImageView::Bodies(&gravity.view),
            Physics::Heat(heat) => image::ImageView::Field(&heat.view, None),
            Physics::Wave(wave) => image::ImageView::Field(&wave.view, Some(&wave.slice)),
            Physics::LennardJones(fluid) => image::ImageView::Fluid(&fluid.view),
        };
        w.section("image", |w| image::write_image(w, &self.image, view));
        w.finish()
    }
}

/// Returns a number in TOML. `{:?}` is the shortest text that reads back to the same bits, and is
/// valid TOML for finite numbers.
fn number_text(value: f64) -> String {
    format!("{value:?}")
}

/// Returns a TOML basic string.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Errors in the code of a section are found by any test that writes a case.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{CaseSource, find_preset};

    fn with_limits(write: impl FnOnce(&mut SectionWriter<'_>)) {
        let preset = find_preset("figure-eight").unwrap();
        let case = Case::load(&CaseSource::Preset(preset), &[]).unwrap();
        let mut w = SectionWriter::new(&case, &case.written, "limits".to_owned(), limits::SPEC);
        write(&mut w);
        w.finish();
    }

    #[test]
    #[should_panic(expected = "[limits] on_energy_error is declared but not written")]
    fn every_declared_key_must_be_written() {
        with_limits(|w| w.number("energy_error", 0.1));
    }

    #[test]
    #[should_panic(expected = "[limits] momentum_error is written but not declared")]
    fn an_undeclared_key_cannot_be_written() {
        with_limits(|w| w.number("momentum_error", 0.1));
    }

    #[test]
    #[should_panic(expected = "[limits] energy_error is declared with another type than it is written")]
    fn a_key_cannot_be_written_with_another_type() {
        with_limits(|w| w.quantity("energy_error", 0.1));
    }
}
