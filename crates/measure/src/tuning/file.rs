//! Tuning file, one per kind of device: `<cache folder>/tuning/<device>.json`.
//!
//! The file is optional. If it is missing or unusable, a run continues with the default strategy.
//! It warns about an unusable file.

use std::fmt;
use std::path::{Path, PathBuf};

use orrery_device::{CacheError, CacheFolder, Device, cache_folder};
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::wave::device::WaveShape;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::{FluidEntry, HeatEntry, PrimitiveEntry, TreeEntry, WaveEntry};
use crate::MeasureError;
use crate::bench::primitives::PrimitiveCase;

const LAYOUT: u32 = 1;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Largest ratio between the number of bodies or nodes of a run and of the entry it uses.
const MAX_SIZE_RATIO: f64 = 4.0;
/// Largest accepted file size in bytes. The tuner writes much smaller files.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Advice about a file that the tuner can replace.
const TUNE_AGAIN: &str = "run orrery tune to replace it";
/// Advice about a folder or file that others could have changed.
const USE_ANOTHER_CACHE: &str = "remove it, or set ORRERY_CACHE_DIR to another folder";

/// Fastest strategy for a problem size and precision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of bodies of the measurement.
    pub n: usize,
    /// Precision of the arithmetic.
    pub precision: Precision,
    /// The strategy.
    pub strategy: DirectDeviceStrategy,
    /// Time of one force evaluation.
    pub seconds: f64,
}

/// Tuning results for one device, driver and program version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    layout: u32,
    program: String,
    device: String,
    driver: String,
    entries: Vec<Entry>,
    /// Results for the tree. Files of earlier versions have none.
    #[serde(default)]
    tree: Vec<TreeEntry>,
    /// Results for the heat solver. Files of earlier versions have none.
    #[serde(default)]
    heat: Vec<HeatEntry>,
    /// Results for the wave solver. Files of earlier versions have none.
    #[serde(default)]
    wave: Vec<WaveEntry>,
    /// Results for fluids. Files of earlier versions have none.
    #[serde(default)]
    fluid: Vec<FluidEntry>,
    /// Results for primitives. Files of earlier versions have none.
    #[serde(default)]
    primitives: Vec<PrimitiveEntry>,
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
            entries: Vec::new(),
            tree: Vec::new(),
            heat: Vec::new(),
            wave: Vec::new(),
            fluid: Vec::new(),
            primitives: Vec::new(),
        }
    }

    /// Returns all entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an entry. It replaces an entry of the same size and precision.
    pub(super) fn insert_entry(&mut self, entry: Entry) {
        self.entries.retain(|other| (other.n, other.precision) != (entry.n, entry.precision));
        self.entries.push(entry);
    }

    /// Returns all entries of the tree.
    pub fn tree_entries(&self) -> &[TreeEntry] {
        &self.tree
    }

    /// Adds an entry of the tree. It replaces an entry of the same size and precision.
    pub(super) fn insert_tree_entry(&mut self, entry: TreeEntry) {
        self.tree.retain(|other| !other.is_same_problem(&entry));
        self.tree.push(entry);
    }

    /// Returns the entry of the tree whose number of bodies is nearest to `n` by ratio, within a
    /// factor of four.
    pub fn nearest_tree_entry(&self, n: usize, precision: Precision) -> Option<&TreeEntry> {
        let matching = self.tree.iter().filter(|entry| entry.precision == precision);
        nearest(matching, n, |entry| entry.n as f64)
    }

    /// Returns all entries of the heat solver.
    pub fn heat_entries(&self) -> &[HeatEntry] {
        &self.heat
    }

    /// Adds an entry of the heat solver. It replaces an entry of the same plate.
    pub(super) fn insert_heat_entry(&mut self, entry: HeatEntry) {
        self.heat.retain(|other| !other.is_same_plate(&entry));
        self.heat.push(entry);
    }

    /// Returns the entry of the heat solver whose number of nodes is nearest to `nodes` by ratio,
    /// within a factor of four.
    pub fn nearest_heat_entry(
        &self,
        nodes: usize,
        precision: Precision,
        is_variable: bool,
    ) -> Option<&HeatEntry> {
        let matching =
            self.heat.iter().filter(|entry| (entry.precision, entry.is_variable) == (precision, is_variable));
        nearest(matching, nodes, |entry| (entry.side as f64).powi(2))
    }

    /// Returns all entries of the wave solver.
    pub fn wave_entries(&self) -> &[WaveEntry] {
        &self.wave
    }

    /// Adds an entry of the wave solver. It replaces an entry of the same grid.
    pub(super) fn insert_wave_entry(&mut self, entry: WaveEntry) {
        self.wave.retain(|other| !other.is_same_grid(&entry));
        self.wave.push(entry);
    }

    /// Returns the entry of the wave solver whose number of nodes is nearest to that of `shape` by
    /// ratio, within a factor of four. There are entries for order 8 only.
    pub fn nearest_wave_entry(&self, shape: &WaveShape, is_variable: bool) -> Option<&WaveEntry> {
        let matching = self.wave.iter().filter(|entry| entry.applies_to(shape, is_variable));
        nearest(matching, shape.planes * shape.plane_nodes, |entry| entry.nodes() as f64)
    }

    /// Returns all entries of fluids.
    pub fn fluid_entries(&self) -> &[FluidEntry] {
        &self.fluid
    }

    /// Adds an entry of fluids. It replaces an entry of the same number of particles.
    pub(super) fn insert_fluid_entry(&mut self, entry: FluidEntry) {
        self.fluid.retain(|other| other.n != entry.n);
        self.fluid.push(entry);
    }

    /// Returns the entry of fluids whose number of particles is nearest to `n` by ratio, within a
    /// factor of four.
    pub fn nearest_fluid_entry(&self, n: usize) -> Option<&FluidEntry> {
        nearest(self.fluid.iter(), n, |entry| entry.n as f64)
    }

    /// Returns all entries of primitives.
    pub fn primitive_entries(&self) -> &[PrimitiveEntry] {
        &self.primitives
    }

    /// Adds an entry of a primitive. It replaces an entry of the same number of elements.
    pub fn insert_primitive_entry(&mut self, entry: PrimitiveEntry) {
        self.primitives.retain(|other| !other.is_same_problem(&entry));
        self.primitives.push(entry);
    }

    /// Returns the entry of a primitive whose number of elements is nearest to `n` by ratio, within
    /// a factor of four.
    pub(super) fn nearest_primitive_entry(&self, primitive: &str, n: usize) -> Option<&PrimitiveEntry> {
        let matching = self.primitives.iter().filter(|entry| entry.primitive == primitive);
        nearest(matching, n, |entry| entry.n as f64)
    }

    /// Returns the entry whose size is nearest to `n` by ratio, within a factor of four. For
    /// example, a run of 4,000 bodies uses an entry for 1,024 bodies if there is no nearer one.
    pub fn nearest_entry(&self, n: usize, precision: Precision) -> Option<&Entry> {
        let matching = self.entries.iter().filter(|entry| entry.precision == precision);
        nearest(matching, n, |entry| entry.n as f64)
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
    pub fn save(&self, device: &Device, cases: &[&dyn PrimitiveCase]) -> Result<PathBuf, MeasureError> {
        let path = Self::file_path(device).ok_or(MeasureError::NoCache)?;
        self.save_to(&path, device, cases)?;
        Ok(path)
    }

    /// Checks that the file can be written. Call it before tuning, which takes minutes.
    pub fn check_writable(device: &Device) -> Result<(), MeasureError> {
        let path = Self::file_path(device).ok_or(MeasureError::NoCache)?;
        Ok(CacheFolder::create(split_path(&path).0)?.check_writable()?)
    }

    fn save_to(
        &self,
        path: &Path,
        device: &Device,
        cases: &[&dyn PrimitiveCase],
    ) -> Result<(), MeasureError> {
        let mut merged =
            Self::load_from(path, device, cases).ok().flatten().unwrap_or_else(|| Self::new(device));
        self.entries.iter().for_each(|entry| merged.insert_entry(*entry));
        merged.entries.sort_by_key(|entry| (entry.precision as u8, entry.n));
        self.tree.iter().for_each(|entry| merged.insert_tree_entry(*entry));
        merged.tree.sort_by_key(|entry| (entry.precision as u8, entry.n));
        self.heat.iter().for_each(|entry| merged.insert_heat_entry(*entry));
        merged.heat.sort_by_key(|entry| (entry.precision as u8, entry.is_variable, entry.side));
        self.wave.iter().for_each(|entry| merged.insert_wave_entry(*entry));
        merged
            .wave
            .sort_by_key(|entry| (entry.dimensions, entry.precision as u8, entry.is_variable, entry.side));
        self.fluid.iter().for_each(|entry| merged.insert_fluid_entry(*entry));
        merged.fluid.sort_by_key(|entry| entry.n);
        self.primitives.iter().for_each(|entry| merged.insert_primitive_entry(entry.clone()));
        merged.primitives.sort_by(|a, b| (&a.primitive, a.n).cmp(&(&b.primitive, b.n)));
        let text = serde_json::to_string_pretty(&merged).expect("plain data always serialises");
        let (folder, name) = split_path(path);
        Ok(CacheFolder::create(folder)?.write(&name, format!("{text}\n").as_bytes())?)
    }

    /// Reads the tuning of `device`. Returns `None` if there is no file. An entry for one of the
    /// primitives `cases` must have one of its strategies. Entries for other primitives are kept,
    /// so that programs that were built with different primitives can share the file.
    pub fn load(device: &Device, cases: &[&dyn PrimitiveCase]) -> Result<Option<Self>, IgnoredFile> {
        Self::file_path(device).map_or(Ok(None), |path| Self::load_from(&path, device, cases))
    }

    fn load_from(
        path: &Path,
        device: &Device,
        cases: &[&dyn PrimitiveCase],
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
    fn check_current(&self, device: &Device, cases: &[&dyn PrimitiveCase]) -> Result<(), String> {
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
        for entry in &self.entries {
            let Entry { n, precision, strategy, seconds } = *entry;
            let is_known = strategy == DirectDeviceStrategy::default_for(device, n, precision)
                || DirectDeviceStrategy::candidates(device, n, precision).contains(&strategy);
            if n == 0 || !is_known || strategy.precision != precision || seconds.is_nan() || seconds <= 0.0 {
                return Err(format!("stale (its strategy for {n} bodies is not available)"));
            }
        }
        if let Some(entry) = self.tree.iter().find(|entry| !entry.is_available(device)) {
            let n = entry.n;
            return Err(format!("stale (its strategy for the tree of {n} bodies is not available)"));
        }
        for entry in &self.heat {
            let HeatEntry { side, precision, is_variable, strategy, seconds } = *entry;
            let nodes = side.saturating_mul(side);
            let is_known =
                HeatDeviceStrategy::candidates(device, nodes, precision, is_variable).contains(&strategy);
            if side == 0 || !is_known || precision == Precision::Mixed || seconds.is_nan() || seconds <= 0.0 {
                return Err(format!("stale (its strategy for {side} x {side} nodes is not available)"));
            }
        }
        if let Some(entry) = self.wave.iter().find(|entry| !entry.is_available(device)) {
            let grid = entry.grid_name();
            return Err(format!("stale (its strategy for waves on {grid} nodes is not available)"));
        }
        if let Some(entry) = self.fluid.iter().find(|entry| !entry.is_available(device)) {
            let n = entry.n;
            return Err(format!("stale (its strategy for a fluid of {n} particles is not available)"));
        }
        match self.primitives.iter().find(|entry| !entry.is_available(cases)) {
            Some(PrimitiveEntry { primitive, n, .. }) => {
                Err(format!("stale (its strategy for {primitive}, {n} elements, is not available)"))
            }
            None => Ok(()),
        }
    }
}

/// Returns the folder and the name of a tuning file.
fn split_path(path: &Path) -> (&Path, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (path.parent().unwrap_or(path), name)
}

/// Returns the entry whose size is nearest to `n` by ratio, within [`MAX_SIZE_RATIO`].
fn nearest<'a, E>(entries: impl Iterator<Item = &'a E>, n: usize, size: impl Fn(&E) -> f64) -> Option<&'a E> {
    let log_ratio = |entry: &E| (n.max(1) as f64 / size(entry)).ln().abs();
    let nearest = entries.min_by(|a, b| log_ratio(a).total_cmp(&log_ratio(b)))?;
    // The margin covers the rounding error of ln.
    (log_ratio(nearest) <= MAX_SIZE_RATIO.ln() + 1e-9).then_some(nearest)
}

#[cfg(test)]
mod tests;
