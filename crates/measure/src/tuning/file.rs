//! Tuning file, one per kind of device: `<cache folder>/tuning/<device>.json`.
//!
//! The file is optional. If it is missing or unusable, a run continues with the default strategy.
//! It warns about an unusable file.

use std::fmt;
use std::path::{Path, PathBuf};

use orrery_device::{CacheError, CacheFolder, Device, cache_folder};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::entry::{TunedEntry, TunedList, TunedProblem};
use super::{DirectProblem, FluidProblem, HeatPlateProblem, PrimitiveProblem, TreeProblem, WaveGridProblem};
use crate::MeasureError;
use crate::bench::primitives::PrimitiveCase;

const LAYOUT: u32 = 1;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Largest accepted file size in bytes. The tuner writes much smaller files.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Advice about a file that the tuner can replace.
const TUNE_AGAIN: &str = "run orrery tune to replace it";
/// Advice about a folder or file that others could have changed.
const USE_ANOTHER_CACHE: &str = "remove it, or set ORRERY_CACHE_DIR to another folder";

/// Tuning results for one device, driver and program version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    layout: u32,
    program: String,
    device: String,
    driver: String,
    /// Results for the direct sum.
    pub entries: TunedList<DirectProblem>,
    /// Results for the tree. Files of earlier versions have none.
    #[serde(default)]
    pub tree: TunedList<TreeProblem>,
    /// Results for the heat solver. Files of earlier versions have none.
    #[serde(default)]
    pub heat: TunedList<HeatPlateProblem>,
    /// Results for the wave solver. Files of earlier versions have none.
    #[serde(default)]
    pub wave: TunedList<WaveGridProblem>,
    /// Results for fluids. Files of earlier versions have none.
    #[serde(default)]
    pub fluid: TunedList<FluidProblem>,
    /// Results for primitives. Files of earlier versions have none.
    #[serde(default)]
    pub primitives: TunedList<PrimitiveProblem>,
}

/// Tuning file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason, for example `stale (driver 1, expected 2)`.
    pub reason: String,
    /// Remedy for the user.
    pub advice: &'static str,
}

impl fmt::Display for IgnoredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason) = (self.path.display(), &self.reason);
        write!(f, "{path}: ignored, {reason}; {}", self.advice)
    }
}

impl Tuning {
    /// Creates a tuning without entries.
    pub fn new(device: &Device) -> Self {
        let properties = device.properties();
        Self {
            layout: LAYOUT,
            program: PROGRAM.to_owned(),
            device: properties.name.clone(),
            driver: properties.driver.clone(),
            entries: TunedList::default(),
            tree: TunedList::default(),
            heat: TunedList::default(),
            wave: TunedList::default(),
            fluid: TunedList::default(),
            primitives: TunedList::default(),
        }
    }

    /// Returns whether there are no entries of any kind.
    pub fn is_empty(&self) -> bool {
        let Self { entries, tree, heat, wave, fluid, primitives, .. } = self;
        let counts = [
            entries.entries().len(),
            tree.entries().len(),
            heat.entries().len(),
            wave.entries().len(),
            fluid.entries().len(),
            primitives.entries().len(),
        ];
        counts.iter().all(|count| *count == 0)
    }

    /// Adds an entry. It replaces an entry of the same kind and extent.
    pub fn insert<P: TunedProblem>(&mut self, entry: TunedEntry<P>) {
        P::list_mut(self).insert(entry);
    }

    /// Returns the entry of the direct sum whose size is nearest to `n` by ratio, within a factor
    /// of four. For example, a run of 4,000 bodies uses an entry for 1,024 bodies if there is no
    /// nearer one.
    pub fn nearest_entry(&self, n: usize, precision: Precision) -> Option<&TunedEntry<DirectProblem>> {
        self.entries.nearest(&(precision as u8), n)
    }

    /// Returns the entry of the tree whose number of bodies is nearest to `n`, as
    /// [`Self::nearest_entry`].
    pub fn nearest_tree_entry(&self, n: usize, precision: Precision) -> Option<&TunedEntry<TreeProblem>> {
        self.tree.nearest(&(precision as u8), n)
    }

    /// Returns the entry of the heat solver whose number of nodes is nearest to `nodes`, as
    /// [`Self::nearest_entry`].
    pub fn nearest_heat_entry(
        &self,
        nodes: usize,
        precision: Precision,
        is_variable: bool,
    ) -> Option<&TunedEntry<HeatPlateProblem>> {
        self.heat.nearest(&(precision as u8, is_variable), nodes)
    }

    /// Returns the entry of fluids whose number of particles is nearest to `n`, as
    /// [`Self::nearest_entry`].
    pub fn nearest_fluid_entry(&self, n: usize) -> Option<&TunedEntry<FluidProblem>> {
        self.fluid.nearest(&(), n)
    }

    /// Returns the path of the device's tuning file, or `None` if there is no cache folder.
    pub fn file_path(device: &Device) -> Option<PathBuf> {
        let properties = device.properties();
        let name = format!("{}-{}", properties.backend, properties.name);
        let key: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .collect();
        Some(cache_folder()?.join("tuning").join(format!("{key}.json")))
    }

    /// Writes the file. Keeps entries of an existing usable file for other sizes and precisions.
    /// `cases` are the primitives whose entries are checked, as in [`Self::load`].
    pub fn save(&self, device: &Device, cases: &[&PrimitiveCase]) -> Result<PathBuf, MeasureError> {
        let path = Self::file_path(device).ok_or(MeasureError::NoCache)?;
        self.save_to(&path, device, cases)?;
        Ok(path)
    }

    /// Checks that the file can be written. Call it before tuning, which takes minutes.
    pub fn check_writable(device: &Device) -> Result<(), MeasureError> {
        let path = Self::file_path(device).ok_or(MeasureError::NoCache)?;
        Ok(CacheFolder::create(split_path(&path).0)?.check_writable()?)
    }

    fn save_to(&self, path: &Path, device: &Device, cases: &[&PrimitiveCase]) -> Result<(), MeasureError> {
        let mut merged =
            Self::load_from(path, device, cases).ok().flatten().unwrap_or_else(|| Self::new(device));
        let Self { entries, tree, heat, wave, fluid, primitives, .. } = self;
        merged.entries.merge(entries);
        merged.tree.merge(tree);
        merged.heat.merge(heat);
        merged.wave.merge(wave);
        merged.fluid.merge(fluid);
        merged.primitives.merge(primitives);
        let text = serde_json::to_string_pretty(&merged).expect("plain data always serialises");
        let (folder, name) = split_path(path);
        Ok(CacheFolder::create(folder)?.write(&name, format!("{text}\n").as_bytes())?)
    }

    /// Reads the tuning of `device`. Returns `None` if there is no file. An entry for one of the
    /// primitives `cases` must have one of its strategies. Entries for other primitives are kept,
    /// so that programs that were built with different primitives can share the file.
    pub fn load(device: &Device, cases: &[&PrimitiveCase]) -> Result<Option<Self>, IgnoredFile> {
        Self::file_path(device).map_or(Ok(None), |path| Self::load_from(&path, device, cases))
    }

    fn load_from(
        path: &Path,
        device: &Device,
        cases: &[&PrimitiveCase],
    ) -> Result<Option<Self>, IgnoredFile> {
        let ignored = |reason: String| IgnoredFile { path: path.to_owned(), reason, advice: TUNE_AGAIN };
        let (folder, name) = split_path(path);
        let bytes = match CacheFolder::open(folder).and_then(|folder| folder.read(&name, MAX_FILE_SIZE)) {
            Err(error) if error.is_not_found() => return Ok(None),
            Err(CacheError::System { cause, .. }) => return Err(ignored(cause.to_string())),
            Err(CacheError::Refused { path, reason }) => {
                return Err(IgnoredFile { path, reason, advice: USE_ANOTHER_CACHE });
            }
            Ok(bytes) => bytes,
        };
        let found: Self = serde_json::from_slice(&bytes).map_err(|e| ignored(format!("damaged ({e})")))?;
        found.check_current(device, cases).map_err(ignored)?;
        Ok(Some(found))
    }

    /// Checks that this program wrote the file for this device and driver, and that every entry is
    /// a strategy that the tuner can choose.
    fn check_current(&self, device: &Device, cases: &[&PrimitiveCase]) -> Result<(), String> {
        let current = Self::new(device);
        let stale = |field: &str, actual: &str, expected: &str| {
            (actual != expected).then(|| format!("stale ({field} {actual}, expected {expected})"))
        };
        let layouts = [self.layout, current.layout].map(|layout| layout.to_string());
        let first_stale = stale("layout", &layouts[0], &layouts[1])
            .or_else(|| stale("program", &self.program, &current.program))
            .or_else(|| stale("device", &self.device, &current.device))
            .or_else(|| stale("driver", &self.driver, &current.driver));
        if let Some(reason) = first_stale {
            return Err(reason);
        }
        self.entries.check(device, cases)?;
        self.tree.check(device, cases)?;
        self.heat.check(device, cases)?;
        self.wave.check(device, cases)?;
        self.fluid.check(device, cases)?;
        self.primitives.check(device, cases)
    }
}

/// Returns the folder and the name of a tuning file.
fn split_path(path: &Path) -> (&Path, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (path.parent().unwrap_or(path), name)
}

#[cfg(test)]
mod tests;
