//! Ladder of Lennard-Jones forces in the melt: all pairs as in the course, cells, neighbour lists,
//! and the production solver.
//!
//! The rate is that of particles per force evaluation, and from the neighbour lists on that of
//! particles per time step. Every rung is compared with the sum over all pairs in f64 before it is
//! timed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::f64::consts::PI;
use std::time::Instant;

use orrery_device::{Device, DeviceError};
use orrery_fluids::brute_force::{BoundedForce, check_forces, forces_with_bounds};
use orrery_fluids::sample::{MELT_CUTOFF, MELT_DENSITY, displaced_melt, melt, melt_settings};
use orrery_fluids::settings::{FluidSettings, PairSearch};
use orrery_fluids::{FluidStrategy, HostFluid};
use orrery_gravity::accuracy::ForceErrors;
use orrery_measure::MeasureError;
use orrery_measure::bench::fluid::{BYTES_PER_PARTICLE, MovingMelt, production_strategy};
use orrery_measure::sample::evenly_spaced_indices;
use orrery_measure::timing::{Times, largest_affordable_size, time_on_host};
use orrery_model::fluid::FluidParticles;
use orrery_model::{Precision, Vec3s};

use super::repeats::{max_run_seconds, repeat_count, time_rung_on_device};
use super::rung::kernel_use;
use super::{
    CheckedRung, Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, MeasuredRung,
    PrepareResult, PreparedRung, ReferenceTable, Roofs, RungClock, RungLabel, RungLimit, RungSet, TimedRuns,
    Work,
};
use crate::rungs::fluids::serial::SerialFluid;
use crate::rungs::fluids::{FluidRung, RungFluid, TILE, rungs, selftest};

pub static LADDER: LadderEntry = LadderEntry {
    name: "lj",
    description: "Lennard-Jones forces in a liquid, from all pairs to neighbour lists",
    title: "Lennard-Jones melt",
    size_unit: "particles",
    host_bytes: |n| (n as u64).saturating_mul(BYTES_PER_PARTICLE),
    sizes: DefaultSizes { gpu: 65_536, opencl_cpu: 2048, host: 32_000 },
    counted: Counted {
        item: "particle",
        rate_unit: "particle-steps/s",
        heading: "Mpart/s",
        to_column: |rate| rate / 1e6,
    },
    rungs: &[RungSet::of::<FluidRung>()],
    measure,
};

/// Operations per pair, counted as in the course: every operation of its force function is one. 3
/// differences, 5 for r², 4 for r⁴, r⁸ and r¹⁴, 3 for two quotients and their difference, 3
/// products and 3 sums. In the course's plane they are 16. The form with one division has as many.
const FLOPS_PER_PAIR: f64 = 21.0;
/// The same with r² + δ².
const FLOPS_PER_DAMPED_PAIR: f64 = 22.0;
/// The same with the reaction on the other particle.
const FLOPS_PER_PAIR_AND_REACTION: f64 = 24.0;
/// Bytes of a position in all-pairs rungs.
const POSITION_BYTES: f64 = 12.0;
/// Bytes of a listed neighbour on a device: its index and its position with the species.
const DEVICE_NEIGHBOUR_BYTES: f64 = 20.0;
/// The same on the CPU, where positions have three arrays.
const HOST_NEIGHBOUR_BYTES: f64 = 16.0;

/// Most particles whose forces are compared, and fewest, which millions of particles have.
const SAMPLE: [usize; 2] = [1000, 100];
/// Pairs that a comparison may compute before the sample is made smaller: a few seconds on two
/// cores.
const MAX_SAMPLED_PAIRS: usize = 1_000_000_000;
/// Most particles of neighbour lists on the CPU. The rate hardly depends on their number.
const MAX_HOST_PARTICLES: usize = 65_536;
/// Steps of a timed run.
const STEPS: u64 = if cfg!(test) { 10 } else { 100 };
/// Steps of a timed run on the CPU.
const STEPS_ON_CPU: u64 = if cfg!(test) { 2 } else { 20 };
/// Number of particles of the rungs for small systems.
const SMALL_SYSTEM: usize = 4096;
/// Steps per launch of the last rung: more than lists allow, so that a launch ends with its lists.
const STEPS_PER_LAUNCH: u32 = 64;
/// Step with which forces of a moving fluid are measured. Particles move by about 1e-9 in it.
const PROBE_DT: f64 = 1e-5;

const REMARKS: [&str; 5] = [
    "error: median relative error of the forces against all pairs in f64. Every rung is compared before it is \
     timed, and all forces must be within bounds that follow from the rounding errors of f32.",
    "Flops are counted as in the course: 21 per pair, 22 damped, 24 with the reaction. Of cells and lists \
     only the 55 pairs per particle within the cutoff count. The nearest image does not count.",
    "Up to the cells a run is a force evaluation, from the neighbour lists on it is a time step with its share of \
     the builds.",
    "All pairs measured with fewer particles: the rate is that of the whole problem at the same time per pair.",
    "The course's code has three errors, corrected here: the sign of its force, reactions on particles that are \
     overwritten, and half steps that both use the old force, where the drift adds dt² a / 2 twice.",
];

const COURSE_LEGEND: &[&str] = &[
    "course: K. Ljungkvist, CUDA exercises (2016), in a plane without cutoff;",
    "37 GFLOP/s on one core, 422 GFLOP/s and 87% of the peak on its GPU",
];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roofs = request.device.map_or(Ok(ladder.host_roofs), Roofs::of_device)?;
    ladder.roof = ladder.roofs.peak_roof();
    ladder.remarks = REMARKS.map(str::to_owned).to_vec();
    ladder.reference = Some(ReferenceTable {
        caption: "speed relative to one CPU core in the course, to compare with 'total'".to_owned(),
        columns: vec!["course".to_owned()],
        legend: COURSE_LEGEND,
    });
    let input = MeltInput::new(request.n);
    for (name, measure_rung) in CPU_RUNGS {
        (request.progress)(name);
        let (note, measured) = measure_rung(name, &input)?;
        let reference: &[f64] = if name == CPU_RUNGS[0].0 { &[1.0] } else { &[] };
        ladder.add_measured(RungLabel { reference, ..RungLabel::new(name, note) }, vec![Some(measured)]);
    }
    let Some(device) = request.device else { return Ok(()) };
    let input = FluidInput { device: device.clone(), melts: input };
    ladder.measure_rungs(request, &rungs(), &input)?;
    if !device.properties().has_f64 {
        ladder.remarks.push("Neighbour lists are not measured: the device has no f64.".to_owned());
        return Ok(());
    }
    for rung in list_rungs(device, request, input.melts.n) {
        (request.progress)(rung.name);
        let measured = measure_lists(device, &rung, &input.melts)?;
        ladder.add_measured(RungLabel::new(rung.name, rung.description()), vec![Some(measured)]);
    }
    Ok(())
}

/// Peak of the arithmetic of all rungs.
const LIMIT: RungLimit = RungLimit::Flops(Precision::Single);

/// Returns the number of particles within a radius of another one.
fn neighbours_within(radius: f64) -> f64 {
    4.0 / 3.0 * PI * radius.powi(3) * MELT_DENSITY
}

/// Melts of several sizes with their reference forces.
struct MeltInput {
    /// Number of particles of the whole problem.
    n: usize,
    /// By number of particles, and by whether the potential is damped.
    known: RefCell<HashMap<(usize, bool), MeltReference>>,
}

/// The same, and the device of the rungs.
pub struct FluidInput {
    device: Device,
    melts: MeltInput,
}

/// Reference forces of a sample of the particles.
struct MeltReference {
    sample: Vec<usize>,
    expected: Vec<BoundedForce>,
}

impl MeltInput {
    fn new(n: usize) -> Self {
        Self { n: melt(n).len(), known: RefCell::default() }
    }

    /// Compares forces of [`displaced_melt`] with the reference. Returns the median relative error.
    fn check(
        &self,
        rung: &str,
        particles: &FluidParticles,
        damping: f64,
        found: &Vec3s,
    ) -> Result<f64, MeasureError> {
        let n = particles.len();
        let mut known = self.known.borrow_mut();
        let MeltReference { sample, expected } = known.entry((n, damping > 0.0)).or_insert_with(|| {
            let [most, fewest] = SAMPLE;
            let sample = evenly_spaced_indices(n, (MAX_SAMPLED_PAIRS / n).clamp(fewest, most));
            let potential = melt_settings().potential.damped(damping);
            let expected = forces_with_bounds(particles, &potential, &sample);
            MeltReference { sample, expected }
        });
        check_forces(found, sample, expected)
            .map_err(|message| MeasureError::WrongResult { rung: rung.to_owned(), message })?;
        let mut forces = Vec3s::default();
        expected.iter().for_each(|bounded| forces.push(bounded.force));
        Ok(ForceErrors::measure(found, sample, &forces).median)
    }

    /// Returns the particles of an all-pairs rung: as many as it can compute in
    /// [`max_run_seconds`].
    fn affordable(
        &self,
        mut time_once: impl FnMut(&FluidParticles) -> Result<f64, MeasureError>,
    ) -> Result<FluidParticles, MeasureError> {
        let (size, _) =
            largest_affordable_size(self.n, max_run_seconds(), |n| time_once(&displaced_melt(n)))?;
        Ok(displaced_melt(size))
    }

    /// Returns the runs and the work of an all-pairs rung. The rate is that of `self.n` particles
    /// at the same time per pair.
    fn all_pairs_work(
        &self,
        particles: &FluidParticles,
        times: Times,
        flops_per_pair: f64,
        bytes_per_pair: f64,
    ) -> (TimedRuns, Work) {
        let (n, all) = (particles.len(), self.n as f64);
        let items = (n as f64).powi(2) / all;
        let work = Work { flops: Some(flops_per_pair * all), bytes: Some(bytes_per_pair * all) };
        (TimedRuns { n, items, times }, work)
    }
}

/// Measures a rung of the CPU. Returns its note and its result.
type MeasureOnHost = fn(&str, &MeltInput) -> Result<(String, MeasuredRung), MeasureError>;

/// The rungs on the CPU.
const CPU_RUNGS: [(&str, MeasureOnHost); 3] = [
    ("CPU, one thread, third law", measure_serial),
    ("CPU, all cores, SIMD", measure_all_cores),
    ("CPU, neighbour lists", measure_host_lists),
];

fn measure_serial(name: &str, melts: &MeltInput) -> Result<(String, MeasuredRung), MeasureError> {
    let particles = melts.affordable(|particles| {
        let mut fluid = SerialFluid::new(particles, MELT_CUTOFF);
        Ok(time_on_host(1, || fluid.update_forces()).median())
    })?;
    let mut fluid = SerialFluid::new(&particles, MELT_CUTOFF);
    let start = Instant::now();
    fluid.update_forces();
    let repeats = repeat_count(start.elapsed().as_secs_f64());
    let error = melts.check(name, &particles, 0.0, &fluid.forces())?;
    let times = time_on_host(repeats, || fluid.update_forces());
    // Half of the pairs. A position is loaded, and a force loaded and stored.
    let (flops, bytes) = (0.5 * FLOPS_PER_PAIR_AND_REACTION, 0.5 * 3.0 * POSITION_BYTES);
    let (runs, work) = melts.all_pairs_work(&particles, times, flops, bytes);
    let result = MeasuredRung::on_host(runs, work, LIMIT);
    let note = "each pair once; scalar f32; in the course 37 GFLOP/s".to_owned();
    Ok((note, MeasuredRung { error: Some(error), ..result }))
}

fn measure_all_cores(name: &str, melts: &MeltInput) -> Result<(String, MeasuredRung), MeasureError> {
    let settings = FluidSettings { search: PairSearch::AllPairs, ..melt_settings() };
    let particles = melts.affordable(|particles| {
        let mut fluid = HostFluid::new(particles.clone(), &settings);
        Ok(time_on_host(1, || fluid.update_forces()).median())
    })?;
    let mut fluid = HostFluid::new(particles.clone(), &settings);
    let error = melts.check(name, &particles, 0.0, &fluid.forces())?;
    let run_seconds = time_on_host(1, || fluid.update_forces()).median();
    let times = time_on_host(repeat_count(run_seconds), || fluid.update_forces());
    let (runs, work) = melts.all_pairs_work(&particles, times, FLOPS_PER_PAIR, POSITION_BYTES);
    let result = MeasuredRung::on_host(runs, work, LIMIT);
    let note = "each pair twice; sums in integers, so no result depends on their order".to_owned();
    Ok((note, MeasuredRung { error: Some(error), ..result }))
}

fn measure_host_lists(name: &str, melts: &MeltInput) -> Result<(String, MeasuredRung), MeasureError> {
    let settings = melt_settings();
    let particles = displaced_melt(melts.n.min(MAX_HOST_PARTICLES));
    let error = melts.check(name, &particles, 0.0, &HostFluid::new(particles.clone(), &settings).forces())?;
    let n = particles.len();
    let mut fluid = MovingMelt::on_host(melt(n), &settings);
    fluid.warm_up()?;
    let times = fluid.time_steps(STEPS_ON_CPU, false, repeat_count)?;
    let (runs, work) = list_work(n, settings.skin, times, HOST_NEIGHBOUR_BYTES);
    let result = MeasuredRung::on_host(runs, work, LIMIT);
    Ok((format!("all cores, skin {}", settings.skin), MeasuredRung { error: Some(error), ..result }))
}

/// Returns the runs and the work of a rung with neighbour lists.
fn list_work(n: usize, skin: f64, times: Times, bytes_per_neighbour: f64) -> (TimedRuns, Work) {
    let work = Work {
        flops: Some(FLOPS_PER_PAIR * neighbours_within(MELT_CUTOFF)),
        bytes: Some(bytes_per_neighbour * neighbours_within(MELT_CUTOFF + skin)),
    };
    (TimedRuns { n, items: n as f64, times }, work)
}

impl FluidInput {
    fn new_fluid(&self, rung: &FluidRung, particles: &FluidParticles) -> Result<RungFluid, DeviceError> {
        RungFluid::new(&self.device, rung.variant, particles, MELT_CUTOFF)
    }
}

impl LadderRung for FluidRung {
    type Input = FluidInput;

    fn all(_: &Device) -> Vec<Self> {
        rungs().to_vec()
    }

    fn new_input(device: &Device, n: usize) -> Result<FluidInput, MeasureError> {
        Ok(FluidInput { device: device.clone(), melts: MeltInput::new(n) })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel { reference: self.course_gain.as_slice(), ..RungLabel::new(self.name, self.note) }
    }

    fn prepare<'a>(&'a self, input: &'a FluidInput, n: usize, _: usize) -> PrepareResult<'a> {
        let mut fluid = input.new_fluid(self, &displaced_melt(n))?;
        let clock = RungClock::of(&input.device);
        Ok(Some(PreparedRung::new(clock, n, n as f64, move || fluid.compute_forces())))
    }

    /// Compares the forces before it times them.
    fn measure_value(
        &self,
        input: &FluidInput,
        _: usize,
        _: usize,
    ) -> Result<Option<MeasuredRung>, MeasureError> {
        let FluidInput { device, melts } = input;
        let particles = match self.variant.has_all_pairs() {
            true => melts.affordable(|particles| {
                let mut fluid = input.new_fluid(self, particles)?;
                time_call(device, &mut fluid)?;
                time_call(device, &mut fluid)
            })?,
            false => displaced_melt(melts.n),
        };
        let mut fluid = input.new_fluid(self, &particles)?;
        fluid.compute_forces()?;
        let error = melts.check(self.name, &particles, self.variant.damping(), &fluid.forces()?)?;
        let times = match self.variant.copies_every_call() {
            // Copies and allocations are part of a call, and events do not include them.
            true => {
                let repeats = repeat_count(time_call(device, &mut fluid)?);
                Times::from_seconds(
                    (0..repeats).map(|_| time_call(device, &mut fluid)).collect::<Result<_, _>>()?,
                )
            }
            false => time_rung_on_device(device, || fluid.compute_forces())?,
        };
        let (kernel, block_size) = fluid.kernel();
        let is_damped = self.variant.damping() > 0.0;
        let flops = if is_damped { FLOPS_PER_DAMPED_PAIR } else { FLOPS_PER_PAIR };
        let (runs, work) = match self.variant.has_all_pairs() {
            true => {
                let bytes = POSITION_BYTES / if self.variant.has_tiles() { f64::from(TILE) } else { 1.0 };
                melts.all_pairs_work(&particles, times, flops, bytes)
            }
            false => cell_work(particles.len(), times),
        };
        let (error, kernel) = (Some(error), Some(kernel_use(kernel, block_size)));
        Ok(Some(MeasuredRung { error, kernel, ..MeasuredRung::on_device(runs, work, LIMIT) }))
    }
}

impl CheckedRung for FluidRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_variant(device, self.variant)
    }
}

/// Returns the runs and the work of the rung with cells. Its bytes are those of the 27 cells of a
/// particle, in which positions have 16 bytes.
fn cell_work(n: usize, times: Times) -> (TimedRuns, Work) {
    let particles_in_cells = 27.0 * MELT_CUTOFF.powi(3) * MELT_DENSITY;
    let work = Work {
        flops: Some(FLOPS_PER_PAIR * neighbours_within(MELT_CUTOFF)),
        bytes: Some(16.0 * particles_in_cells),
    };
    (TimedRuns { n, items: n as f64, times }, work)
}

/// Returns the time of one call on the host, with everything that it queues.
fn time_call(device: &Device, fluid: &mut RungFluid) -> Result<f64, MeasureError> {
    let start = Instant::now();
    fluid.compute_forces()?;
    device.queue().finish()?;
    Ok(start.elapsed().as_secs_f64())
}

/// A rung with neighbour lists on a device.
struct ListRung {
    name: &'static str,
    n: usize,
    strategy: FluidStrategy,
    note: &'static str,
}

impl ListRung {
    /// Returns the note with the strategy.
    fn description(&self) -> String {
        let notes = [self.note.to_owned(), self.strategy.describe()];
        notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// Returns the rungs with neighbour lists for `n` particles.
fn list_rungs(device: &Device, request: &LadderRequest, n: usize) -> Vec<ListRung> {
    let default = FluidStrategy::default_for(device, n, &melt_settings());
    let plain = FluidStrategy { lanes: 1, build_lanes: 1, steps_per_launch: 1, ..default };
    let small = melt(n.min(SMALL_SYSTEM)).len();
    let of_small = FluidStrategy::default_for(device, small, &melt_settings());
    vec![
        ListRung { name: "neighbour lists", n, strategy: plain, note: "one thread per particle" },
        ListRung {
            name: "several threads per particle",
            n,
            strategy: FluidStrategy { lanes: default.lanes.max(2), ..plain },
            note: "",
        },
        ListRung {
            name: "tuned default",
            n,
            strategy: production_strategy(device, request.tuning, n),
            note: "",
        },
        ListRung {
            name: "small system",
            n: small,
            strategy: FluidStrategy { steps_per_launch: 1, ..of_small },
            note: "the start for the next rung; launches take a large part of a step",
        },
        ListRung {
            name: "several steps per launch",
            n: small,
            strategy: FluidStrategy { steps_per_launch: STEPS_PER_LAUNCH, ..of_small },
            note: "blocks wait for one another after each step",
        },
    ]
}

/// Measures time steps with a strategy of the production solver.
fn measure_lists(device: &Device, rung: &ListRung, melts: &MeltInput) -> Result<MeasuredRung, MeasureError> {
    let particles = displaced_melt(rung.n);
    let forces = probed_forces(MovingMelt::on_device(device, &particles, &rung.strategy)?)?;
    let error = melts.check(rung.name, &particles, 0.0, &forces)?;
    let mut fluid = MovingMelt::on_device(device, &melt(rung.n), &rung.strategy)?;
    fluid.warm_up()?;
    let times = fluid.time_steps(STEPS, false, repeat_count)?;
    let (runs, work) = list_work(rung.n, rung.strategy.skin, times, DEVICE_NEIGHBOUR_BYTES);
    Ok(MeasuredRung { error: Some(error), ..MeasuredRung::on_device(runs, work, LIMIT) })
}

/// Returns the forces on particles at rest with mass 1. A short step gives them the velocity
/// dt (f + f') / 2, where f' is the force after the step.
fn probed_forces(mut fluid: MovingMelt) -> Result<Vec3s, MeasureError> {
    fluid.advance(PROBE_DT, 1)?;
    let Vec3s { x, y, z } = fluid.particles()?.velocity;
    let column = |velocity: Vec<f64>| velocity.into_iter().map(|v| v / PROBE_DT).collect();
    Ok(Vec3s { x: column(x), y: column(y), z: column(z) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate of all pairs with fewer particles is the one of the whole problem.
    #[test]
    fn all_pairs_of_fewer_particles_have_the_rate_of_the_whole_problem() {
        let melts = MeltInput { n: 1024, known: RefCell::default() };
        let rate = |n: usize, seconds: f64| {
            let times = Times::from_seconds(vec![seconds]);
            let (runs, work) = melts.all_pairs_work(&displaced_melt(n), times, 21.0, 12.0);
            assert_eq!((runs.n, work.flops), (n, Some(21.0 * 1024.0)));
            (runs.rate(), work.flops.unwrap() * runs.rate())
        };
        let whole = rate(1024, 1.6e-3);
        assert_eq!(whole.0, 1024.0 / 1.6e-3);
        assert_eq!(rate(256, 1e-4), whole);
        // 21 flops for each of 1024² pairs.
        assert!((whole.1 / (21.0 * 1024.0 * 1024.0 / 1.6e-3) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn wrong_forces_stop_the_ladder() {
        let melts = MeltInput::new(256);
        let particles = displaced_melt(256);
        let mut forces = HostFluid::new(particles.clone(), &melt_settings()).forces();
        let error = melts.check("right", &particles, 0.0, &forces).unwrap();
        assert!(error > 0.0 && error < 1e-5, "{error}");
        forces.y[7] *= 1.01;
        forces.y[7] += 0.1;
        let message = melts.check("wrong", &particles, 0.0, &forces).unwrap_err().to_string();
        assert!(
            message.starts_with("wrong result of the rung 'wrong': force on particle 7 is "),
            "{message}"
        );
    }

    /// A particle moves by dt² f / 2, about 1e-8 for the largest forces of 200. Their derivatives
    /// are below 1e4, so forces change by less than 1e-3.
    #[test]
    fn probed_forces_are_those_of_the_fluid() {
        let particles = displaced_melt(256);
        let settings = melt_settings();
        let expected = HostFluid::new(particles.clone(), &settings).forces();
        let found = probed_forces(MovingMelt::on_host(particles, &settings)).unwrap();
        for (found, expected) in found.iter().zip(expected.iter()) {
            for axis in 0..3 {
                assert!((found[axis] - expected[axis]).abs() < 1e-3, "{found:?} {expected:?}");
            }
        }
    }
}
