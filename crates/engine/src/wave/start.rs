//! The wave problem of a case with the files that the case names, and the system that starts with
//! it.

use std::path::Path;

use orrery_device::Device;
use orrery_fields::pixels::pixel_mean_bytes;
use orrery_fields::wave::device::WaveShape;
use orrery_fields::wave::{
    TimeDispersion, Velocity, WaveDeviceSetup, WaveError, WaveField, WaveProblem, WaveSource,
};
use orrery_formats::{Fault, IoError, Limits};
use orrery_gravity::settings::StepChoice;
use orrery_model::wave::{AXIS_NAMES, VelocityError, WaveGrid, Wavelet};
use orrery_model::{Precision, short_number};
use rayon::prelude::*;

use super::accuracy::report_accuracy;
use super::placement::placement_warnings;
use super::system::WaveSystem;
use crate::case::{Case, SourceCase, VelocitySource, WaveCase, WaveletSource};
use crate::compute_device::{self, ComputeDevice, Tuned, select_device_of};
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::heat::node_count;
use crate::host_memory::check_host_memory;
use crate::input_files::InputFiles;
use crate::system::{Plan, ReportFn, Size, Stamp, SystemError};

/// Creates the field at rest of `case`. Returns it with the case, which then has the time of the
/// start.
pub(crate) fn start(
    case: &Case,
    wave: &WaveCase,
    selected: ComputeDevice,
    control: &Control,
    report: &mut ReportFn<'_>,
) -> Result<(Case, WaveSystem), EngineError> {
    if wave.shot.is_none() {
        return Err(EngineError::ShotMissing(wave.shots()));
    }
    let selected = ensure_memory(selected, control, case, wave)?;
    check_memory(case, wave, &selected, control)?;
    let files = InputFiles::new(&control.limits);
    let problem = build_problem(case, wave, &files)?;
    let inputs = files.into_hashes();
    let mut case = case.with_absolute_paths();
    let time = case.time.known_start();
    case.time.start = Some(time);
    report(RunEvent::Device(&selected));
    for warning in placement_warnings(&case, wave, &problem) {
        report(RunEvent::InputWarning(&warning));
    }
    report_accuracy(&case, wave, &problem, report);
    let device = selected.device.as_ref();
    let setup = device.map(|device| device_setup(device, &problem, control.device.tuned));
    let at_start = |error: SystemError| error.at(Stamp { step: 0, time });
    let team = control.ranks.start_field(&case, &selected, &inputs).map_err(at_start)?;
    let field = WaveField::new_in_team(team, &problem, fixed_step(&case), setup.as_ref())
        .map_err(|error| at_start(error.into()))?;
    let system = WaveSystem::new(field, &case, wave, &problem, inputs);
    let system = system.with_ranks(&case, wave, control.ranks.size());
    Ok((case, system))
}

/// Returns the device of a rank with its tuned strategy, or the default one.
pub(crate) fn device_setup(device: &Device, problem: &WaveProblem, tuned: Option<Tuned>) -> WaveDeviceSetup {
    let is_variable = matches!(problem.velocity(), Velocity::Field(_));
    let tuned = tuned.and_then(|tuned| (tuned.wave)(device, WaveShape::of_problem(problem), is_variable));
    let default = WaveDeviceSetup::new(device, problem);
    WaveDeviceSetup { strategy: tuned.unwrap_or(default.strategy), ..default }
}

/// Returns what a run of `case` would need. All files of the case are read.
pub(crate) fn plan(case: &Case, wave: &WaveCase, control: &Control) -> Result<Plan, EngineError> {
    let selected = select_device_of(&control.ranks, control.device.choice)?;
    let selected = ensure_memory(selected, control, case, wave)?;
    check_memory(case, wave, &selected, control)?;
    build_problem(case, wave, &InputFiles::new(&control.limits))?;
    let mut case = case.with_absolute_paths();
    case.time.start = Some(case.time.known_start());
    let host_bytes = host_bytes(&case, wave, selected.device.is_some());
    let device_bytes = selected.device.as_ref().map(|_| device_bytes(&case, wave, control.ranks.size()));
    Ok(Plan { case, size: size_of(wave), host_bytes, selected, device_bytes })
}

/// Builds the problem of a case: reads the files of velocity and wavelets, and applies the regions
/// in their order. The step of the case must be stable.
pub fn build_problem(case: &Case, wave: &WaveCase, files: &InputFiles) -> Result<WaveProblem, EngineError> {
    let problem = read_problem(case, wave, files)?;
    let refused = |source| EngineError::Wave { origin: "[time]".to_owned(), source: Box::new(source) };
    problem.check_step(fixed_step(case)).map_err(refused)?;
    Ok(problem)
}

/// Returns the longest stable step of a case, whatever its step is.
pub(crate) fn max_stable_step(case: &Case, wave: &WaveCase, limits: &Limits) -> Result<f64, EngineError> {
    // The velocities of all nodes are read before the run is started.
    let needed = host_bytes(case, wave, true);
    check_host_memory(needed, limits.memory, Path::new("[grid]"), size_of(wave))?;
    Ok(read_problem(case, wave, &InputFiles::new(limits))?.max_stable_step())
}

/// Returns an upper bound of the bytes that a run needs on the host, also to resume it.
pub(crate) fn host_bytes(case: &Case, wave: &WaveCase, on_device: bool) -> u64 {
    let bytes_of = |is_variable, precision| {
        WaveField::needed_bytes(&wave.grid, &wave.sides, precision, is_variable, false)
    };
    let is_variable = !wave.has_uniform_velocity();
    let fields = if on_device { 0 } else { bytes_of(is_variable, wave.precision) };
    // The last checkpoint has copies of the state and of the one before it. A start has the
    // velocities in f64 and the coefficients of all nodes besides it.
    let state = bytes_of(false, wave.precision).saturating_mul(STATE_COPIES);
    let per_node = if is_variable { 8 + precision_bytes(wave.precision) } else { 0 };
    let problem = size_of(wave).count.saturating_mul(per_node);
    let samples = sample_bytes(case, wave).saturating_mul(SAMPLE_COPIES);
    [fields, state, problem, samples].into_iter().fold(0, u64::saturating_add)
}

/// Copies of the state in a checkpoint.
const STATE_COPIES: u64 = 2;
/// Copies of the samples of receivers: those of the state, those of a checkpoint, and in f64 those
/// that are read, corrected and written.
const SAMPLE_COPIES: u64 = 10;

/// Returns the bytes of the samples of all receivers at the end of a run.
fn sample_bytes(case: &Case, wave: &WaveCase) -> u64 {
    let steps = (case.time.end / fixed_step(case)).ceil();
    // An automatic step is not known before the velocities are.
    let steps = if steps.is_finite() { steps as u64 } else { 0 };
    let samples = wave.receiver_count().saturating_mul(steps.saturating_add(1));
    samples.saturating_mul(precision_bytes(wave.precision))
}

fn precision_bytes(precision: Precision) -> u64 {
    if precision == Precision::Single { 4 } else { 8 }
}

/// Returns an upper bound of the bytes that one of `ranks` ranks needs on a device.
pub(super) fn device_bytes(case: &Case, wave: &WaveCase, ranks: usize) -> u64 {
    // The number of ranks was checked before.
    let slab = WaveField::largest_slab(&wave.grid, &wave.sides, ranks).unwrap_or(wave.grid);
    let is_variable = !wave.has_uniform_velocity();
    // The first axis of an image is x or y.
    let nodes_along_x = wave.grid.nodes[0].max(wave.grid.nodes[1]);
    WaveField::needed_bytes(&slab, &wave.sides, wave.precision, is_variable, true)
        .saturating_add(sample_bytes(case, wave))
        .saturating_add(pixel_mean_bytes(nodes_along_x, case.image.size.body_pixels()))
}

/// Returns the fixed step of a case of waves.
pub(super) fn fixed_step(case: &Case) -> f64 {
    match case.time.step {
        StepChoice::Fixed(dt) => dt,
        StepChoice::Adaptive { .. } => unreachable!("a case of waves has a fixed step"),
    }
}

pub(super) fn size_of(wave: &WaveCase) -> Size {
    node_count(wave.grid.nodes.iter().fold(1, |product, &n| product.saturating_mul(n as u64)))
}

fn ensure_memory(
    selected: ComputeDevice,
    control: &Control,
    case: &Case,
    wave: &WaveCase,
) -> Result<ComputeDevice, EngineError> {
    let ranks = &control.ranks;
    compute_device::ensure_memory(selected, control.device.choice, size_of(wave), |_| {
        device_bytes(case, wave, ranks.size()).saturating_mul(ranks.ranks_on_device())
    })
}

/// Fails if the host does not have the memory that a run needs.
fn check_memory(
    case: &Case,
    wave: &WaveCase,
    selected: &ComputeDevice,
    control: &Control,
) -> Result<(), EngineError> {
    let (needed, available) = (host_bytes(case, wave, selected.device.is_some()), control.limits.memory);
    check_host_memory(needed, available, Path::new("[grid]"), size_of(wave))
}

/// Builds the problem of a case without its step.
fn read_problem(case: &Case, wave: &WaveCase, files: &InputFiles) -> Result<WaveProblem, EngineError> {
    let refused = |source: WaveError| {
        let place = place_of(wave, &source);
        let origin = wavelet_file(case, wave, &source).unwrap_or_else(|| problem_origin(case, wave));
        case.error_at(&place, EngineError::Wave { origin, source: Box::new(source) })
    };
    let mut velocity = match &wave.velocity {
        VelocitySource::Model(model) => Velocity::from_model(model, &wave.grid).map_err(refused)?,
        VelocitySource::File(path) => Velocity::Field(
            read_velocity(&case.folder.join(path), &wave.grid, files)
                .map_err(|error| case.error_at("wave.velocity_file", error))?,
        ),
    };
    if !wave.regions.is_empty() {
        velocity = Velocity::Field(painted(wave, velocity).ok_or(WaveError::OnlyWalls).map_err(refused)?);
    }
    let sources = wave.shot_sources().map(|(index, source)| {
        let path = format!("wave.source[{}].file", index + 1);
        read_source(case, source, files).map_err(|error| case.error_at(&path, error))
    });
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let receivers = wave.receivers.iter().flat_map(|line| line.positions()).collect();
    WaveProblem::new(wave.grid, wave.sides, wave.order, velocity, sources, receivers, wave.precision)
        .map(|problem| problem.with_time_dispersion(time_dispersion(wave)))
        .map_err(refused)
}

/// Returns the treatment of the error in time. Runs of earlier versions leave it.
pub(super) fn time_dispersion(wave: &WaveCase) -> TimeDispersion {
    wave.time_dispersion.unwrap_or(TimeDispersion::Raw)
}

/// Returns the path of the value that an error is about.
fn place_of(wave: &WaveCase, error: &WaveError) -> String {
    match error {
        WaveError::Wavelet { index, .. } => {
            let source = wave.shot_sources().nth(*index);
            let path = format!("wave.source[{}]", source.map_or(0, |(index, _)| index) + 1);
            match source.map(|(_, source)| &source.wavelet) {
                Some(WaveletSource::File { .. }) => path + ".file",
                _ => path,
            }
        }
        WaveError::VelocityModel(VelocityError::FirstLayer { .. }) => "wave.layer[1]".to_owned(),
        WaveError::VelocityModel(VelocityError::LayerOrder { layer, .. }) => {
            format!("wave.layer[{}]", layer + 1)
        }
        WaveError::OnlyWalls => {
            let last = wave.regions.iter().rposition(|region| region.velocity.is_none());
            format!("wave.region[{}]", last.unwrap_or(0) + 1)
        }
        _ => "wave.velocity_file".to_owned(),
    }
}

/// Names the file of a wavelet that an error is about.
fn wavelet_file(case: &Case, wave: &WaveCase, error: &WaveError) -> Option<String> {
    let WaveError::Wavelet { index, .. } = error else { return None };
    match &wave.shot_sources().nth(*index)?.1.wavelet {
        WaveletSource::File { path, .. } => Some(case.folder.join(path).display().to_string()),
        WaveletSource::Ricker { .. } | WaveletSource::Sine { .. } => None,
    }
}

/// Names the origin of the velocities, for messages.
fn problem_origin(case: &Case, wave: &WaveCase) -> String {
    match &wave.velocity {
        VelocitySource::File(path) => case.folder.join(path).display().to_string(),
        VelocitySource::Model(_) => "[wave]".to_owned(),
    }
}

fn read_velocity(path: &Path, grid: &WaveGrid, files: &InputFiles) -> Result<Vec<f64>, EngineError> {
    let is_segy = path
        .extension()
        .is_some_and(|extension| ["sgy", "segy"].iter().any(|name| extension.eq_ignore_ascii_case(name)));
    let (data, spacing) = match is_segy {
        true => {
            let model = files.model_segy(path)?;
            (model.data, model.spacing)
        }
        false => (files.volume_npy(path)?, [None; 3]),
    };
    if data.nodes != grid.nodes {
        return Err(EngineError::VolumeShape {
            path: path.to_owned(),
            found: data.nodes,
            expected: grid.nodes,
        });
    }
    check_spacing(path, grid, spacing)?;
    Ok(data.values)
}

/// Fails if the spacing of a file of velocities differs from that of the grid.
fn check_spacing(path: &Path, grid: &WaveGrid, spacing: [Option<f64>; 3]) -> Result<(), EngineError> {
    /// Traces store coordinates and intervals as whole numbers, often of millimetres.
    const ROUNDING: f64 = 5e-4;
    for (axis, expected) in grid.used_spacings().iter().enumerate() {
        let Some(found) = spacing[axis] else { continue };
        // The negation includes NaN.
        let is_equal = (found - expected).abs() <= 1e-3 * expected + ROUNDING;
        if !is_equal {
            let name = AXIS_NAMES[axis];
            let origin =
                if axis == grid.depth_axis() { "from the sample interval" } else { "between traces" };
            let fault = Fault::malformed(
                format!("spacing along {name}"),
                format!("{} m {origin}", short_number(found)),
                format!(
                    "grid.h{name} = {}; set the grid to that of the file, or write an NPY file, which has no spacing, with \
                     orrery convert",
                    short_number(*expected)
                ),
            );
            return Err(EngineError::Input(IoError { path: path.to_owned(), fault }));
        }
    }
    Ok(())
}

/// Velocity in a wall, relative to the smallest velocity elsewhere.
pub(super) const WALL_VELOCITY: f64 = 1e-3;

/// Returns the velocity of each node: that of the last region that contains it, or of the medium.
/// `None` if all nodes are in walls.
fn painted(wave: &WaveCase, medium: Velocity) -> Option<Vec<f64>> {
    let grid = &wave.grid;
    let mut values = match medium {
        Velocity::Uniform(velocity) => vec![velocity; grid.len()],
        Velocity::Field(values) => values,
    };
    let mut is_wall = vec![false; if wave.has_walls() { grid.len() } else { 0 }];
    let [nx, ny, _] = grid.nodes;
    let rows = values.par_chunks_exact_mut(nx).enumerate();
    if is_wall.is_empty() {
        rows.for_each(|(row, values)| paint_row(wave, [row % ny, row / ny], values, &mut []));
        return Some(values);
    }
    rows.zip(is_wall.par_chunks_exact_mut(nx))
        .for_each(|((row, values), is_wall)| paint_row(wave, [row % ny, row / ny], values, is_wall));
    let outside = values.par_iter().zip(&is_wall).filter(|(_, is_wall)| !**is_wall).map(|(value, _)| *value);
    let slowest = outside.reduce(|| f64::INFINITY, f64::min);
    if slowest == f64::INFINITY {
        return None;
    }
    let wall = WALL_VELOCITY * slowest;
    values.par_iter_mut().zip(&is_wall).filter(|(_, is_wall)| **is_wall).for_each(|(value, _)| *value = wall);
    Some(values)
}

/// Applies the regions to the row of nodes (j, k). `is_wall` is empty if there are no walls.
fn paint_row(wave: &WaveCase, [j, k]: [usize; 2], values: &mut [f64], is_wall: &mut [bool]) {
    let (grid, dimensions) = (&wave.grid, wave.grid.dimensions());
    for region in &wave.regions {
        for i in 0..values.len() {
            if !region.shape.contains(grid.coordinates([i, j, k]), dimensions) {
                continue;
            }
            if let Some(velocity) = region.velocity {
                values[i] = velocity;
            }
            if let Some(is_wall) = is_wall.get_mut(i) {
                *is_wall = region.velocity.is_none();
            }
        }
    }
}

fn read_source(case: &Case, source: &SourceCase, files: &InputFiles) -> Result<WaveSource, EngineError> {
    let wavelet = match &source.wavelet {
        &WaveletSource::Ricker { frequency, delay, amplitude } => {
            Wavelet::Ricker { frequency, delay, amplitude }
        }
        &WaveletSource::Sine { frequency, delay, amplitude } => Wavelet::Sine { frequency, delay, amplitude },
        WaveletSource::File { path, interval, amplitude } => {
            let mut values = files.profile_npy(&case.folder.join(path))?;
            values.iter_mut().for_each(|value| *value *= amplitude);
            Wavelet::Sampled { interval: *interval, values }
        }
    };
    Ok(WaveSource { position: source.position, wavelet })
}
