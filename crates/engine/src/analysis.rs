//! Analysis of the snapshots of a run: conserved quantities and Lagrangian radii against time, and
//! the density profile of the last snapshot.

use std::path::{Path, PathBuf};

use orrery_io::{Format, IoError, Limits, Snapshot};
use orrery_model::analysis::{Shell, density_profile, lagrangian_radii, shrinking_sphere_centre};
use orrery_model::{Precision, Units};
use orrery_particles::bodies::Bodies;
use orrery_particles::settings::{Acceptance, GravitySettings, SolverChoice};

use crate::case::Case;
use crate::compute_device::{ComputeDevice, DeviceRequest};
use crate::error::EngineError;
use crate::run::Record;
use crate::simulation::{Moment, start_error};

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
    /// Radii about the density centre that contain [`FRACTIONS`] of the mass.
    pub radii: Vec<f64>,
}

/// Measurements of all snapshots.
#[derive(Clone, Debug)]
pub struct Analysis {
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

/// Analyses the folder of a run, or a single snapshot. Energies are computed on the `selected`
/// device. `softening` replaces the softening length in the provenance of the snapshots.
pub fn analyze(
    path: &Path,
    softening: Option<f64>,
    selected: &ComputeDevice,
    limits: &Limits,
) -> Result<Analysis, EngineError> {
    let files = if path.is_dir() { snapshots_in(path)? } else { vec![path.to_owned()] };
    let mut analysis = Analysis {
        rows: Vec::new(),
        profile: Vec::new(),
        units: Units::NBody,
        units_are_assumed: false,
        warnings: Vec::new(),
        softening: 0.0,
    };
    for file in files {
        let snapshot = orrery_io::read_snapshot(&file, limits).map_err(EngineError::Input)?;
        let refused = |source| EngineError::Bodies { origin: file.display().to_string(), source };
        snapshot.particles.validate().map_err(refused)?;
        analysis.softening = softening.unwrap_or_else(|| run_softening(&snapshot));
        if analysis.softening == 0.0 {
            snapshot.particles.check_distinct_positions().map_err(refused)?;
        }
        analysis.units = snapshot.units;
        analysis.units_are_assumed |= snapshot.units_are_assumed();
        for warning in snapshot.warnings() {
            if !analysis.warnings.contains(&warning) {
                analysis.warnings.push(warning);
            }
        }
        let centre = shrinking_sphere_centre(&snapshot.particles);
        let radii = lagrangian_radii(&snapshot.particles, centre, &FRACTIONS);
        // Sorted by name, snapshot_1000 comes before snapshot_999. The last snapshot is the one
        // with the largest time.
        if analysis.rows.iter().all(|row| row.record.time <= snapshot.time) {
            analysis.profile = density_profile(&snapshot.particles, centre, SHELLS);
        }
        let (bodies, step, time) = (snapshot.particles.len(), snapshot.step, snapshot.time);
        let settings = GravitySettings {
            g: snapshot.units.gravitational_constant(),
            eps: analysis.softening,
            solver: SolverChoice::Auto,
            acceptance: Acceptance::Geometric { theta: 0.5 },
            precision: Precision::Mixed,
        };
        let setup = DeviceRequest::default().setup(selected, bodies, &settings, None);
        let bodies_on_device =
            Bodies::new(snapshot.particles, &settings, setup.as_ref()).map_err(start_error)?;
        let record = Record::measure(&Moment { step, time, bodies: &bodies_on_device })?;
        analysis.rows.push(Row { path: file, bodies, record, radii });
    }
    analysis.rows.sort_by(|a, b| a.record.time.total_cmp(&b.record.time));
    Ok(analysis)
}

/// Lists the snapshots of a run's folder, or those in the folder itself.
fn snapshots_in(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let subfolder = folder.join("snapshots");
    let folder = if subfolder.is_dir() { subfolder } else { folder.to_owned() };
    let failed = |e| EngineError::Input(IoError::from_system(&folder, e));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() && Format::from_path(&path).is_some() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(EngineError::NoSnapshots(folder));
    }
    Ok(files)
}

/// Returns the softening length of the run that wrote the snapshot, or 0 if it is not known.
fn run_softening(snapshot: &Snapshot) -> f64 {
    let text = snapshot.provenance.iter().find(|(name, _)| name == "case").map(|(_, text)| text.clone());
    let Some(text) = text else { return 0.0 };
    Case::load_from_checkpoint(&text, "provenance", &[]).map_or(0.0, |case| case.gravity.eps)
}
