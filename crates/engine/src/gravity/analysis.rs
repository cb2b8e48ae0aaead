//! Analysis of the snapshots of a run: conserved quantities and Lagrangian radii against time, and
//! the density profile of the last snapshot.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use orrery_formats::{Format, IoError, Limits, Snapshot};
use orrery_gravity::bodies::Bodies;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_model::analysis::{
    Shell, centre_of_mass_velocity, density_profile, kinetic_energy, lagrangian_radii,
    shrinking_sphere_centre,
};
use orrery_model::{Particles, Precision, Species, Units};

use super::{Record, device_setup, schema};
use crate::case::Case;
use crate::compute_device::ComputeDevice;
use crate::error::EngineError;
use crate::field_analysis::is_snapshot;
use crate::provenance::NO_SOLVER;
use crate::system::{Stamp, SystemError};

/// Fractions of the mass whose Lagrangian radii are reported.
pub const FRACTIONS: [f64; 5] = [0.01, 0.1, 0.5, 0.9, 0.99];
/// Number of shells of the density profile.
const SHELLS: usize = 32;

/// Measurements of one snapshot.
#[derive(Clone, Debug)]
pub struct Row {
    /// Path of the snapshot.
    pub path: PathBuf,
    /// Number of bodies.
    pub bodies: usize,
    /// Energies and momenta.
    pub record: Record,
    /// Ratio 2 K / |W| of the kinetic energy relative to the centre of mass to the potential
    /// energy. It is 1 in equilibrium, and `None` for W = 0, such as for a single body.
    pub virial_ratio: Option<f64>,
    /// Radii about the density centre that contain [`FRACTIONS`] of the mass.
    pub radii: Vec<f64>,
    /// Measurements of each species that occurs.
    pub species: Vec<SpeciesRow>,
}

/// Measurements of the bodies of one species in one snapshot.
#[derive(Clone, Debug)]
pub struct SpeciesRow {
    /// The species.
    pub species: Species,
    /// Number of bodies.
    pub bodies: usize,
    /// Sum of the masses.
    pub mass: f64,
    /// Kinetic energy, ½ Σ m v².
    pub kinetic: f64,
    /// One-dimensional velocity dispersion about the mean velocity of the species,
    /// σ² = Σ m |v - v_mean|² / 3 Σ m.
    pub dispersion: f64,
    /// Radii about the density centre of all bodies that contain [`FRACTIONS`] of the species'
    /// mass.
    pub radii: Vec<f64>,
}

/// Measurements of all snapshots.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Name of the run that wrote the first snapshot, if it is known.
    pub run_name: Option<String>,
    /// One row per snapshot, in order of time.
    pub rows: Vec<Row>,
    /// Density profile of the last snapshot.
    pub profile: Vec<Shell>,
    /// Units of all values.
    pub units: Units,
    /// True if a snapshot has no units, so that galactic units were assumed.
    pub units_are_assumed: bool,
    /// Warnings about parts of the snapshots that are not modelled, for example gas. Each is one
    /// line and occurs once.
    pub warnings: Vec<String>,
    /// Plummer softening length for the potential energies.
    pub softening: f64,
}

/// Analyses the snapshots in `files`. Energies are computed on the `selected`
/// device. `softening` replaces the softening length in the provenance of the snapshots.
pub fn analyze(
    files: &[PathBuf],
    softening: Option<f64>,
    selected: &ComputeDevice,
    limits: &Limits,
) -> Result<Analysis, EngineError> {
    let mut analysis = Analysis {
        run_name: None,
        rows: Vec::new(),
        profile: Vec::new(),
        units: Units::NBody,
        units_are_assumed: false,
        warnings: Vec::new(),
        softening: 0.0,
    };
    // The first file. All others must have its units and, without `softening`, its softening.
    let mut first: Option<PathBuf> = None;
    for file in files {
        let snapshot = orrery_formats::read_snapshot(file, limits).map_err(EngineError::Input)?;
        let refused = |source| EngineError::Bodies { origin: file.display().to_string(), source };
        snapshot.particles.validate().map_err(refused)?;
        let eps = softening.unwrap_or_else(|| recorded_softening(&snapshot).unwrap_or(0.0));
        match &first {
            None => {
                (analysis.units, analysis.softening) = (snapshot.units, eps);
                analysis.run_name = recorded_case(&snapshot).map(|case| case.name);
                first = Some(file.clone());
            }
            Some(first) => check_same_settings(&analysis, first, &snapshot, eps, file)?,
        }
        if eps == 0.0 {
            snapshot.particles.check_distinct_positions().map_err(refused)?;
        }
        analysis.units_are_assumed |= snapshot.units_are_assumed();
        for warning in snapshot.warnings() {
            if !analysis.warnings.contains(&warning) {
                analysis.warnings.push(warning);
            }
        }
        let centre = shrinking_sphere_centre(&snapshot.particles);
        let radii = lagrangian_radii(&snapshot.particles, centre, &FRACTIONS);
        let species = measure_species(&snapshot.particles, centre);
        // The files can be in any order. The last snapshot is the one with the largest time.
        if analysis.rows.iter().all(|row| row.record.time <= snapshot.time) {
            analysis.profile = density_profile(&snapshot.particles, centre, SHELLS);
        }
        let (bodies, step, time) = (snapshot.particles.len(), snapshot.step, snapshot.time);
        let total_mass = snapshot.particles.total_mass();
        let settings = GravitySettings {
            g: snapshot.units.gravitational_constant(),
            eps,
            solver: SolverChoice::Auto,
            acceptance: Acceptance::Geometric { theta: 0.5 },
            precision: Precision::Mixed,
        };
        let setup =
            selected.device.as_ref().map(|device| device_setup(device, bodies, &settings, None, None));
        let record = Bodies::new(snapshot.particles, &settings, setup.as_ref())
            .and_then(|bodies| Record::measure(&bodies, step, time))
            .map_err(|error| SystemError::from(error).at(Stamp { step, time }))?;
        schema(&snapshot.units).check_finite(&record.to_row())?;
        let virial_ratio = virial_ratio(&record, total_mass);
        analysis.rows.push(Row { path: file.clone(), bodies, record, virial_ratio, radii, species });
    }
    analysis.rows.sort_by(|a, b| a.record.time.total_cmp(&b.record.time));
    Ok(analysis)
}

/// Refuses a snapshot in `file` whose units or softening `eps` differ from those of the `first`
/// file, which `analysis` has. One table cannot contain both.
fn check_same_settings(
    analysis: &Analysis,
    first: &Path,
    snapshot: &Snapshot,
    eps: f64,
    file: &Path,
) -> Result<(), EngineError> {
    let differing = |quantity: &str, found: String, other: String, expected: &str| {
        Err(EngineError::DifferentSnapshots(format!(
            "{}: the {quantity} {found}, but {} has {other}; expected {expected}",
            file.display(),
            first.display()
        )))
    };
    if !snapshot.units.is_same_as(&analysis.units) {
        let (found, other) = (snapshot.units.describe(), analysis.units.describe());
        return differing("units are", found, other, "files with the same units");
    }
    if eps != analysis.softening {
        let expected = "files with the same softening, or --softening";
        return differing("softening is", eps.to_string(), analysis.softening.to_string(), expected);
    }
    Ok(())
}

/// Returns 2 (K - |p|²/2M) / |W|, or `None` for W = 0.
fn virial_ratio(record: &Record, total_mass: f64) -> Option<f64> {
    let momentum_squared: f64 = record.momentum.iter().map(|p| p * p).sum();
    let internal = record.kinetic - if total_mass > 0.0 { 0.5 * momentum_squared / total_mass } else { 0.0 };
    (record.potential != 0.0).then(|| 2.0 * internal / record.potential.abs())
}

/// Measures the species that occur, with radii about `centre`.
fn measure_species(bodies: &Particles, centre: [f64; 3]) -> Vec<SpeciesRow> {
    let measure = |species| {
        let members = bodies.filtered(|body| body.species == species);
        let mass = members.total_mass();
        let mean = centre_of_mass_velocity(&members);
        let mut moving = members.clone();
        moving.velocity.translate(mean.map(|v| -v));
        // Without mass, the bodies have no weights for a mean.
        let dispersion = if mass > 0.0 { (2.0 * kinetic_energy(&moving) / (3.0 * mass)).sqrt() } else { 0.0 };
        SpeciesRow {
            species,
            bodies: members.len(),
            mass,
            kinetic: kinetic_energy(&members),
            dispersion,
            radii: lagrangian_radii(&members, centre, &FRACTIONS),
        }
    };
    Species::ALL.into_iter().map(measure).filter(|row| row.bodies > 0).collect()
}

/// Lists the snapshots of a run's folder, or those in the folder itself. They are bodies, or fields
/// if no file has bodies.
pub fn snapshots_in(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let subfolder = folder.join("snapshots");
    let folder = if subfolder.is_dir() { subfolder } else { folder.to_owned() };
    let failed = |e| EngineError::Input(IoError::from_system(&folder, e));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() && is_snapshot(&path) {
            files.push(path);
        }
    }
    if files.iter().any(|file| Format::from_path(file).is_some()) {
        files.retain(|file| Format::from_path(file).is_some());
    }
    // Sorted by name alone, snapshot_1000 comes before snapshot_999.
    files.sort_by_cached_key(|path| (path.file_stem().map(OsStr::len), path.clone()));
    if files.is_empty() {
        return Err(EngineError::NoSnapshots(folder));
    }
    Ok(files)
}

/// Returns the case of the run that wrote the snapshot. `None` if it is not known, such as for
/// initial conditions, which belong to no run.
fn recorded_case(snapshot: &Snapshot) -> Option<Case> {
    let text_of = |key: &str| snapshot.provenance.iter().find(|(name, _)| name == key).map(|(_, text)| text);
    if text_of("solver").is_some_and(|solver| solver == NO_SOLVER) {
        return None;
    }
    Case::load_from_checkpoint(text_of("case")?, "provenance", &[]).ok()
}

/// Returns the softening length of the run that wrote the snapshot, in units of the snapshot.
/// `None` if the run is not known.
pub fn recorded_softening(snapshot: &Snapshot) -> Option<f64> {
    let case = recorded_case(snapshot)?;
    let eps = case.gravity()?.settings.eps;
    match (case.units.scale(), snapshot.units.scale()) {
        (Some(from), Some(to)) if from != to => Some(eps * (from.length / to.length)),
        _ => Some(eps),
    }
}
