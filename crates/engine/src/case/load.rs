//! From a file, a preset or a text to a checked [`Case`].

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use orrery_model::Units;

use super::document::{self, CaseError, Location, one_line};
use super::presets::{Preset, preset, presets};
use super::reader::{Problems, Section};
use super::sections::{bodies, checkpoint, gravity, limits, output, time};
use super::suggest::did_you_mean;
use super::together::{Beginning, Sections};
use super::{BodiesSource, Case};

/// What a body takes at most while it is simulated: its state, the tree's share and a snapshot being written.
pub const BYTES_PER_BODY: u64 = 450;

/// A case is written by hand; what is larger is some other file.
const LARGEST_FILE: u64 = 1 << 20;
const LONGEST_NAME: usize = 100;

pub(super) const SYSTEMS: &[(&str, Units)] =
    &[("nbody", Units::NBody), ("galactic", Units::Galactic), ("solar", Units::Solar)];

/// Where a case's text comes from.
#[derive(Clone, Debug)]
pub enum CaseSource {
    /// A file.
    File(PathBuf),
    /// A case inside the program.
    Preset(&'static Preset),
    /// A text in hand.
    Text {
        /// What messages call it.
        label: String,
        /// The case.
        text: String,
        /// Where a relative `bodies.file` starts from.
        folder: PathBuf,
    },
}

impl CaseSource {
    /// What `orrery run ARGUMENT` means: the preset of that name, or else the file.
    pub fn find(argument: &str) -> Result<Self, CaseError> {
        if let Some(preset) = preset(argument) {
            return Ok(Self::Preset(preset));
        }
        let path = Path::new(argument);
        if path.exists() {
            return Ok(Self::File(path.to_owned()));
        }
        let stem = path.file_stem().map_or(argument.into(), |stem| stem.to_string_lossy());
        let names = presets().iter().map(|preset| preset.name);
        Err(CaseError {
            label: one_line(argument),
            location: Location::Whole,
            message: format!("no such case file or preset{}", did_you_mean(&stem, names)),
        })
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

    /// A case that gives no name takes its file's.
    fn default_name(&self) -> String {
        let stem = match self {
            Self::File(path) => path.file_stem().unwrap_or_default().to_string_lossy(),
            Self::Preset(preset) => preset.name.into(),
            Self::Text { .. } => "case".into(),
        };
        let name: String =
            stem.chars().take(LONGEST_NAME).map(|c| if allowed_in_name(c) { c } else { '-' }).collect();
        match name.trim_start_matches('.') {
            "" => "case".to_owned(),
            name => name.to_owned(),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, CaseError> {
        let path = match self {
            Self::File(path) => path,
            Self::Preset(preset) => return Ok(preset.text.into()),
            Self::Text { text, .. } => return Ok(text.clone().into()),
        };
        let error = |message| CaseError { label: self.label(), location: Location::Whole, message };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes))
            .map_err(|e| error(format!("cannot read the case file: {e}")))?;
        if bytes.len() as u64 > LARGEST_FILE {
            return Err(error("larger than 1 MiB, expected a case file (TOML text)".to_owned()));
        }
        Ok(bytes)
    }
}

impl Case {
    /// Reads and checks a case, with `sets` (each `KEY=VALUE`) in place of what it says.
    pub fn load(source: &CaseSource, sets: &[String]) -> Result<Self, CaseError> {
        Self::load_within(source, sets, available_memory())
    }

    /// The same, for a machine with so many bytes of memory available; `None` skips that check.
    pub fn load_within(
        source: &CaseSource,
        sets: &[String],
        available: Option<u64>,
    ) -> Result<Self, CaseError> {
        Self::read(source, sets, Beginning::Fresh { available })
    }

    /// Reads the resolved text that a checkpoint holds; messages call it `label`. The bodies are in the
    /// checkpoint too, so neither the file nor the memory that they began from is asked for.
    pub fn load_resumed(text: &str, label: &str, sets: &[String]) -> Result<Self, CaseError> {
        let (label, text) = (label.to_owned(), text.to_owned());
        Self::read(&CaseSource::Text { label, text, folder: PathBuf::new() }, sets, Beginning::Resumed)
    }

    fn read(source: &CaseSource, sets: &[String], beginning: Beginning) -> Result<Self, CaseError> {
        let label = source.label();
        let entries = document::parse(&label, &source.bytes()?, sets)?;
        let problems = Problems::default();
        let root = Section::root(&entries, &problems);

        let name = root.string("name");
        if name.as_deref().is_some_and(|name| !is_name(name)) {
            let rule = "is not a name, expected up to 100 of A-Z a-z 0-9 . _ -, not starting with '.'";
            root.refuse("name", &format!(" {rule}"));
        }
        let description = root.string("description").unwrap_or_default();
        if description.contains(char::is_control) {
            root.refuse("description", " has a line break or control character, expected one line");
        }
        let units = root.choice("units", SYSTEMS).unwrap_or(Units::NBody);
        let root = root.with_units(units);

        root.require_section("bodies", "one with model = \"...\" or file = \"...\"");
        root.require_section("time", "one with step = ... and end = ...");
        let sections = Sections {
            bodies: root.section("bodies"),
            gravity: root.section("gravity"),
            time: root.section("time"),
            output: root.section("output"),
            checkpoint: root.section("checkpoint"),
        };
        let gravity = gravity::read(&sections.gravity);
        let case = Self {
            name: name.unwrap_or_else(|| source.default_name()),
            description,
            units,
            bodies: bodies::read(&sections.bodies, gravity.eps),
            gravity,
            time: time::read(&sections.time),
            output: output::read_output(&sections.output),
            checkpoint: checkpoint::read(&sections.checkpoint),
            limits: limits::read(&root.section("limits")),
            image: output::read_image(&root.section("image")),
            folder: source.folder(),
        };
        root.finish();
        problems.check(&label)?;

        sections.check(&case, beginning);
        problems.check(&label)?;
        Ok(case)
    }

    /// How many bodies the case makes; `None` where a file holds them.
    pub fn body_count(&self) -> Option<u64> {
        match &self.bodies {
            BodiesSource::Model(model) => Some(model.count()),
            BodiesSource::File(_) => None,
        }
    }

    /// Where the bodies' file is, if they come from one.
    pub fn bodies_file(&self) -> Option<PathBuf> {
        match &self.bodies {
            BodiesSource::File(path) => Some(self.folder.join(path)),
            BodiesSource::Model(_) => None,
        }
    }
}

/// Bytes of memory that may be taken without swapping, where the system tells (Linux).
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    // A container may be allowed less than the machine has; "max" means it is not.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some((1024 * kibibytes).min(limit))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.chars().all(allowed_in_name)
}

fn allowed_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}
