//! The tuner's file, one a kind of device: `<cache folder>/tuning/<device>.json`.
//!
//! It is only a hint: whatever is wrong with it, a run goes on without it and says so.

use std::fmt;
use std::path::{Path, PathBuf};

use orrery_device::{Device, cache_folder};
use orrery_io::write_file_atomically;
use orrery_particles::settings::Precision;
use orrery_particles::solver::direct::device::DirectDeviceStrategy;
use serde::{Deserialize, Serialize};

use crate::LabError;

const LAYOUT: u32 = 1;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// A size further off than this has no tuning.
const NEAR: f64 = 4.0;
/// A file larger than this is none of ours.
const LARGEST: u64 = 1 << 20;

/// The fastest strategy for a size and precision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of bodies it was measured with.
    pub n: usize,
    /// The arithmetic.
    pub precision: Precision,
    /// The strategy.
    pub strategy: DirectDeviceStrategy,
    /// Time of one force evaluation.
    pub seconds: f64,
}

/// What was found for one device, driver and version of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    layout: u32,
    program: String,
    device: String,
    driver: String,
    entries: Vec<Entry>,
}

/// A file that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ignored, {}; orrery tune writes it anew", self.path.display(), self.why)
    }
}

impl Tuning {
    /// Nothing found yet.
    pub(super) fn new(device: &Device) -> Self {
        let told = device.properties();
        Self {
            layout: LAYOUT,
            program: PROGRAM.to_owned(),
            device: told.name.clone(),
            driver: told.driver.clone(),
            entries: Vec::new(),
        }
    }

    /// What was found.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Keeps an entry in place of an earlier one of that size and precision.
    pub(super) fn put(&mut self, entry: Entry) {
        self.entries.retain(|other| (other.n, other.precision) != (entry.n, entry.precision));
        self.entries.push(entry);
    }

    /// The entry of the nearest size, by ratio, if one is near.
    pub fn choose(&self, n: usize, precision: Precision) -> Option<&Entry> {
        let distance = |entry: &Entry| (n.max(1) as f64 / entry.n as f64).ln().abs();
        let nearest = self
            .entries
            .iter()
            .filter(|entry| entry.precision == precision)
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        // A hair more than NEAR: ln is rounded.
        (distance(nearest) <= NEAR.ln() + 1e-9).then_some(nearest)
    }

    /// Where the file of `device` is; none where there is no cache folder.
    pub fn path(device: &Device) -> Option<PathBuf> {
        let told = device.properties();
        let name = format!("{}-{}", told.backend, told.name);
        let key: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .collect();
        Some(cache_folder()?.join("tuning").join(format!("{key}.json")))
    }

    /// Writes the file, with what an earlier one of the same device and driver holds beside it.
    pub fn save(&self, device: &Device) -> Result<PathBuf, LabError> {
        let path = Self::path(device).ok_or(LabError::NoCache)?;
        self.save_at(&path, device)?;
        Ok(path)
    }

    /// Whether the file could be written: asked before a minute is spent on what it would hold.
    pub fn check_folder(device: &Device) -> Result<(), LabError> {
        let path = Self::path(device).ok_or(LabError::NoCache)?;
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).map_err(|e| orrery_io::IoError::from_system(folder, e))?;
        let probe = folder.join(format!(".probe-{}", std::process::id()));
        std::fs::write(&probe, b"").map_err(|e| orrery_io::IoError::from_system(folder, e))?;
        let _ = std::fs::remove_file(probe);
        Ok(())
    }

    fn save_at(&self, path: &Path, device: &Device) -> Result<(), LabError> {
        let mut whole = Self::load_at(path, device).ok().flatten().unwrap_or_else(|| Self::new(device));
        self.entries.iter().for_each(|entry| whole.put(*entry));
        whole.entries.sort_by_key(|entry| (entry.precision as u8, entry.n));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| orrery_io::IoError::from_system(folder, e))?;
        }
        let text = serde_json::to_string_pretty(&whole).expect("plain data always serialises");
        Ok(write_file_atomically(path, format!("{text}\n").as_bytes())?)
    }

    /// The tuning of `device`, if there is one.
    pub fn load(device: &Device) -> Result<Option<Self>, Ignored> {
        Self::path(device).map_or(Ok(None), |path| Self::load_at(&path, device))
    }

    fn load_at(path: &Path, device: &Device) -> Result<Option<Self>, Ignored> {
        let ignored = |why: String| Ignored { path: path.to_owned(), why };
        let bytes = match std::fs::metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            // A pipe would be waited for.
            Ok(about) if !about.is_file() => return Err(ignored("damaged (no file)".to_owned())),
            Ok(about) if about.len() > LARGEST => return Err(ignored("damaged (too large)".to_owned())),
            Err(e) => return Err(ignored(e.to_string())),
            Ok(_) => std::fs::read(path).map_err(|e| ignored(e.to_string()))?,
        };
        let found: Self = serde_json::from_slice(&bytes).map_err(|e| ignored(format!("damaged ({e})")))?;
        found.check(device).map_err(ignored)?;
        Ok(Some(found))
    }

    /// Whether it was made by this program on this device, and holds only what the tuner could have found.
    fn check(&self, device: &Device) -> Result<(), String> {
        let fresh = Self::new(device);
        let stale = |what: &str, got: &str, expected: &str| {
            (got != expected).then(|| format!("stale ({what} {got}, expected {expected})"))
        };
        let layouts = [self.layout, fresh.layout].map(|layout| layout.to_string());
        let first = stale("layout", &layouts[0], &layouts[1])
            .or_else(|| stale("program", &self.program, &fresh.program))
            .or_else(|| stale("device", &self.device, &fresh.device))
            .or_else(|| stale("driver", &self.driver, &fresh.driver));
        if let Some(why) = first {
            return Err(why);
        }
        for entry in &self.entries {
            let Entry { n, precision, strategy, seconds } = *entry;
            let known = strategy == DirectDeviceStrategy::default_for(device, n, precision)
                || DirectDeviceStrategy::candidates(device, n, precision).contains(&strategy);
            if n == 0 || !known || strategy.precision != precision || seconds.is_nan() || seconds <= 0.0 {
                return Err(format!("stale (its strategy for {n} bodies is none of today's)"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
