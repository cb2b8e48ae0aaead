//! Loading a checked [`Case`] from a file, a preset or a text.

use std::path::{Path, PathBuf};

use orrery_formats::{Fault, available_memory, format_bytes, read_small_file};

use super::cross_checks::{RunStart, Sections};
use super::document::{self, CaseError, Location, one_line};
use super::physics::{PhysicsAndTime, PhysicsName, PhysicsSections};
use super::presets::{Preset, find_preset, presets};
use super::reader::{Findings, Section};
use super::sections::{checkpoint, image, limits, output, top};
use super::suggest::did_you_mean;
use super::{Case, Origins};
use crate::folder::MAX_TEXT_BYTES;

/// Largest memory per body during a run, in bytes: its state, its part of the tree and of a
/// snapshot that is being written.
pub const BYTES_PER_BODY: u64 = 450;

/// Cases up to this length have resolved forms that are shorter than [`MAX_TEXT_BYTES`].
const MAX_UNMEASURED_BYTES: usize = 1 << 20;
const MAX_NAME_LENGTH: usize = 100;

/// Source of the text of a case.
#[derive(Clone, Debug)]
pub enum CaseSource {
    /// A case file.
    File(PathBuf),
    /// A preset of the program.
    Preset(&'static Preset),
    /// A text in memory.
    Text {
        /// Name for messages.
        label: String,
        /// Text of the case.
        text: String,
        /// Folder to which relative paths in the case refer.
        folder: PathBuf,
    },
}

impl CaseSource {
    /// Returns the source that `orrery run ARGUMENT` uses: the preset of that name, or else the
    /// file.
    pub fn from_argument(argument: &str) -> Result<Self, CaseError> {
        if let Some(preset) = find_preset(argument) {
            return Ok(Self::Preset(preset));
        }
        let path = Path::new(argument);
        if path.exists() {
            return Ok(Self::File(path.to_owned()));
        }
        let stem = path.file_stem().map_or(argument.into(), |stem| stem.to_string_lossy());
        let names = presets().iter().map(|preset| preset.name);
        Err(CaseError {
            label: if argument.is_empty() { "''".to_owned() } else { one_line(argument) },
            location: Location::Whole,
            message: format!("no such case file or preset{}", did_you_mean(&stem, names)),
        })
    }

    /// Returns the physics that the sections of the case and `sets` select.
    pub fn physics(&self, sets: &[String]) -> Result<PhysicsName, CaseError> {
        let entries = document::parse_document(&self.label(), &self.read_bytes()?, sets)?;
        Ok(PhysicsName::selected_by(&entries, &Findings::default()))
    }

    fn label(&self) -> String {
        match self {
            Self::File(path) => one_line(&path.display().to_string()),
            Self::Preset(preset) => format!("preset {}", preset.name),
            Self::Text { label, .. } => label.clone(),
        }
    }

    fn folder(&self) -> PathBuf {
        match self {
            Self::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
            Self::Preset(_) => PathBuf::new(),
            Self::Text { folder, .. } => folder.clone(),
        }
    }

    /// Returns the name of a case without the key `name`: that of its file.
    fn default_name(&self) -> String {
        let stem = match self {
            Self::File(path) => path.file_stem().unwrap_or_default().to_string_lossy(),
            Self::Preset(preset) => preset.name.into(),
            Self::Text { .. } => "case".into(),
        };
        let name: String =
            stem.chars().take(MAX_NAME_LENGTH).map(|c| if allowed_in_name(c) { c } else { '-' }).collect();
        match name.trim_start_matches('.') {
            "" => "case".to_owned(),
            name => name.to_owned(),
        }
    }

    fn read_bytes(&self) -> Result<Vec<u8>, CaseError> {
        let path = match self {
            Self::File(path) => path,
            Self::Preset(preset) => return Ok(preset.text.into()),
            Self::Text { text, .. } => return Ok(text.clone().into()),
        };
        let error = |message| CaseError { label: self.label(), location: Location::Whole, message };
        // The resolved case of a run is a case, too. A larger file is something else, for example a
        // snapshot.
        read_small_file(path, MAX_TEXT_BYTES).map_err(|failure| {
            error(match failure.fault {
                Fault::TooLarge { .. } => "larger than 8 MiB, expected a case file (TOML text)".to_owned(),
                Fault::Malformed { got, .. } => format!("is {got}, expected a case file (TOML text)"),
                fault => format!("cannot read the case file: {fault}"),
            })
        })
    }
}

impl Case {
    /// Reads and checks a case. `sets` are settings `KEY=VALUE` that replace those of the case, for
    /// example `gravity.theta=0.5`.
    pub fn load(source: &CaseSource, sets: &[String]) -> Result<Self, CaseError> {
        Self::load_within(source, sets, available_memory())
    }

    /// Does the same as [`Case::load`] for a machine with this amount of `available` memory in
    /// bytes. `None` skips the check of memory.
    pub fn load_within(
        source: &CaseSource,
        sets: &[String],
        available: Option<u64>,
    ) -> Result<Self, CaseError> {
        Self::read_checked(source, sets, RunStart::New { available })
    }

    /// Reads the resolved case from a checkpoint. `label` is its name in messages. The checkpoint
    /// contains the bodies, so neither the original file of bodies nor the memory is checked.
    pub fn load_from_checkpoint(text: &str, label: &str, sets: &[String]) -> Result<Self, CaseError> {
        let (label, text) = (label.to_owned(), text.to_owned());
        Self::read_checked(&CaseSource::Text { label, text, folder: PathBuf::new() }, sets, RunStart::Resumed)
    }

    fn read_checked(source: &CaseSource, sets: &[String], run_start: RunStart) -> Result<Self, CaseError> {
        let label = source.label();
        let bytes = source.read_bytes()?;
        let entries = document::parse_document(&label, &bytes, sets)?;
        let findings = Findings::default();
        let physics = PhysicsName::selected_by(&entries, &findings);
        let root = Section::root(top::SPEC, physics, &entries, &findings);

        let name = root.text("name");
        if name.as_deref().is_some_and(|name| !is_valid_name(name)) {
            let rule = "is not a valid name, expected up to 100 characters of A-Z a-z 0-9 . _ -, not starting with '.'";
            root.reject("name", &format!(" {rule}"));
        }
        let description = root.text("description").unwrap_or_default();
        if description.contains(char::is_control) {
            root.reject("description", " has a line break or control character, expected one line");
        }
        let units = top::read_units(&root, physics);
        let root = root.with_units(units);

        let sections = Sections {
            physics: PhysicsSections::new(&root, physics),
            time: root.section("time"),
            output: root.section("output"),
            checkpoint: root.section("checkpoint"),
        };
        let image = root.section("image");
        let PhysicsAndTime { physics: settings, time, is_step_auto } =
            sections.physics.read(&sections.time, &image);
        let mut case = Self {
            name: name.unwrap_or_else(|| source.default_name()),
            description,
            units,
            output: output::read_output(&sections.output, physics),
            checkpoint: checkpoint::read_checkpoint(&sections.checkpoint),
            limits: limits::read_limits(&root.section("limits"), physics, settings.is_error_known()),
            image: image::read_image(&image),
            physics: settings,
            time,
            folder: source.folder(),
            written: findings.take_quantities(),
            origins: match run_start {
                RunStart::New { .. } => findings.take_origins().with_label(&label),
                // The lines of a checkpoint are of no use.
                RunStart::Resumed => Origins::default(),
            },
        };
        root.finish();
        findings.check_no_problems(&label)?;
        // The time of a file is known after it is read. A checkpoint without a start is from a
        // version in which every run started at 0.
        if case.snapshot_file().is_none() || matches!(run_start, RunStart::Resumed) {
            case.time.start.get_or_insert(0.0);
        }

        sections.keep_earlier_defaults(&mut case, run_start);
        sections.check_initial_state(&case, run_start);
        findings.check_no_problems(&label)?;
        sections.check_stability(&mut case, is_step_auto, run_start);
        findings.check_no_problems(&label)?;
        case.complete_last_step();
        sections.check_settings(&case, run_start);
        findings.check_no_problems(&label)?;
        if matches!(run_start, RunStart::New { .. }) && bytes.len() > MAX_UNMEASURED_BYTES {
            case.check_resolved_length(label, MAX_TEXT_BYTES)?;
        }
        Ok(case)
    }

    /// Refuses a case whose resolved form is longer than `limit`, so that it could not be read
    /// again to resume the run.
    fn check_resolved_length(&self, label: String, limit: u64) -> Result<(), CaseError> {
        let length = self.with_absolute_paths().to_toml().len() as u64;
        if length <= limit {
            return Ok(());
        }
        let (length, limit) = (format_bytes(length), format_bytes(limit));
        let message = format!(
            "the resolved case has {length}, expected at most {limit}; use fewer sections, for example lines of \
             receivers with count"
        );
        Err(CaseError { label, location: Location::Whole, message })
    }
}

fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_LENGTH
        && !name.starts_with('.')
        && name.chars().all(allowed_in_name)
}

fn allowed_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receivers one by one, in a case of more than 1 MiB. Its resolved form is a case, too.
    #[test]
    fn a_resolved_case_of_many_receivers_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = "grid = { nx = 60, ny = 50, hx = 1 }\ntime = { end = 10 }\n[wave]\nvelocity = 1.0\n\
                        source = [{ x = 5, y = 5, frequency = 0.05 }]\n"
            .to_owned();
        for k in 0..20_000 {
            let (x, y) = (k % 59, k % 49);
            text += &format!("[[wave.receivers]]\nx = {x}.25\ny = {y}.5\n# Receiver number {k:07}\n");
        }
        let read = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Case::load_within(&CaseSource::File(path), &[], None)
        };
        let case = read("case.toml", &text).unwrap();
        let resolved = case.with_absolute_paths().to_toml();
        assert!(text.len() > MAX_UNMEASURED_BYTES && resolved.len() > MAX_UNMEASURED_BYTES);
        assert_eq!(read("resolved.toml", &resolved).unwrap().to_toml(), case.to_toml());
        let error = case.check_resolved_length("case.toml".to_owned(), 1 << 20).unwrap_err().to_string();
        assert!(error.contains(" MiB, expected at most 1.0 MiB; "), "{error}");
    }
}
