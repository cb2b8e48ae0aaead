//! Benchmark of Lennard-Jones fluids: particles moved per second in the melt of LAMMPS' benchmark,
//! with neighbour lists built as needed and energies measured every 100 steps.

use std::time::Instant;

use orrery_device::{Device, DeviceKind};
use orrery_fluids::sample::{MELT_DT, melt, melt_settings};
use orrery_fluids::settings::{FluidSettings, PairPrecision};
use orrery_fluids::{DeviceFluid, FluidMeasures, FluidStrategy, HostFluid};
use orrery_model::fluid::FluidParticles;
use serde_json::json;

use super::place::{BenchPlace, BenchRow, result_json};
use crate::MeasureError;
use crate::format::{format_number, format_seconds};
use crate::text_table::RowColumn;
use crate::timing::Times;
use crate::tuning::Tuning;

/// Steps between two measurements of the energies.
pub const STEPS_PER_MEASURE: u64 = 100;
/// Steps before the first timed one. After 300 steps the lattice has melted, and lists are built as
/// often as later.
const WARM_UP_STEPS: u64 = 300;

/// Host memory per particle, in bytes: the particles, their copy on the CPU or the columns for the
/// device, and lists on the CPU.
pub const BYTES_PER_PARTICLE: u64 = 800;

/// Returns the default numbers of particles.
pub fn default_sizes(device: Option<&Device>) -> &'static [usize] {
    match device.map(|device| device.properties().kind) {
        Some(DeviceKind::Gpu) => &[4096, 65_536, 1 << 20, 1 << 24],
        Some(DeviceKind::Cpu | DeviceKind::Other) => &[4096],
        None => &[32_000],
    }
}

/// The melt on the CPU or on a device.
#[derive(Debug)]
pub struct MovingMelt {
    fluid: MeltPlace,
    steps: u64,
}

#[derive(Debug)]
enum MeltPlace {
    Host(Box<HostFluid>),
    Device(Box<DeviceFluid>),
}

impl MovingMelt {
    /// Creates a fluid on the CPU.
    pub fn on_host(particles: FluidParticles, settings: &FluidSettings) -> Self {
        Self { fluid: MeltPlace::Host(Box::new(HostFluid::new(particles, settings))), steps: 0 }
    }

    /// Creates a fluid on a device.
    pub fn on_device(
        device: &Device,
        particles: &FluidParticles,
        strategy: &FluidStrategy,
    ) -> Result<Self, MeasureError> {
        let fluid = DeviceFluid::with_strategy(device, particles, &melt_settings(), strategy)?;
        Ok(Self { fluid: MeltPlace::Device(Box::new(fluid)), steps: 0 })
    }

    /// Takes `steps` steps of length `dt` and waits for them.
    pub fn advance(&mut self, dt: f64, steps: u64) -> Result<(), MeasureError> {
        match &mut self.fluid {
            MeltPlace::Host(fluid) => fluid.advance(dt, self.steps, steps)?,
            MeltPlace::Device(fluid) => fluid.advance(dt, self.steps, steps)?,
        }
        self.steps += steps;
        Ok(())
    }

    /// Measures energies, momentum and virial.
    pub fn measure(&self) -> Result<FluidMeasures, MeasureError> {
        match &self.fluid {
            MeltPlace::Host(fluid) => Ok(fluid.measure()),
            MeltPlace::Device(fluid) => Ok(fluid.measure()?),
        }
    }

    /// Returns the particles.
    pub fn particles(&self) -> Result<FluidParticles, MeasureError> {
        match &self.fluid {
            MeltPlace::Host(fluid) => Ok(fluid.particles()),
            MeltPlace::Device(fluid) => Ok(fluid.particles()?),
        }
    }

    /// Returns the number of builds of the neighbour lists. `None` on a device: with PoCL,
    /// [`DeviceFluid::rebuilds`] counts a build once per thread of a block.
    pub fn rebuilds(&self) -> Option<u64> {
        match &self.fluid {
            MeltPlace::Host(fluid) => Some(fluid.rebuilds()),
            MeltPlace::Device(_) => None,
        }
    }

    /// Takes the steps after which lists are built as often as later.
    pub fn warm_up(&mut self) -> Result<(), MeasureError> {
        self.advance(MELT_DT, WARM_UP_STEPS)
    }

    /// Measures `repeats` runs of `steps` steps, after one that is not timed. Each ends with a
    /// measurement of the energies if `with_measures`. The times are those of one step.
    pub fn time_steps(
        &mut self,
        steps: u64,
        with_measures: bool,
        repeats: impl FnOnce(f64) -> usize,
    ) -> Result<Times, MeasureError> {
        let mut time_run = || {
            let start = Instant::now();
            self.advance(MELT_DT, steps)?;
            if with_measures {
                self.measure()?;
            }
            Ok::<_, MeasureError>(start.elapsed().as_secs_f64())
        };
        let run_seconds = time_run()?;
        let seconds = (0..repeats(run_seconds).max(1)).map(|_| time_run()).collect::<Result<_, _>>()?;
        Ok(Times::from_seconds(seconds).divided_by(steps as f64))
    }
}

/// Returns the strategy that a run of `n` particles uses: the tuned one if there is one.
pub fn production_strategy(device: &Device, tuning: Option<&Tuning>, n: usize) -> FluidStrategy {
    let tuned = tuning.and_then(|tuning| tuning.nearest_fluid_entry(n));
    let settings = melt_settings();
    let default = || FluidStrategy {
        skin: FluidStrategy::default_skin(n, &settings),
        ..FluidStrategy::default_for(device, n, &settings)
    };
    tuned.map_or_else(default, |entry| entry.strategy)
}

/// Columns of the table.
pub const COLUMNS: [RowColumn; 8] = [
    RowColumn::right("particles", 9),
    RowColumn::right("precision", 9),
    RowColumn::right("per step", 8),
    RowColumn::right("fastest", 8),
    RowColumn::right("steps/s", 8),
    RowColumn::right("Mpart-st/s", 10),
    RowColumn::right("builds", 6),
    RowColumn::right("energies", 8),
];

/// Returns the lines above the table.
pub fn notes() -> Vec<String> {
    vec![
        "Lennard-Jones melt: density 0.8442, T 1.44, cutoff 2.5, dt 0.005, NVE".to_owned(),
        format!("per step: with its share of builds and of energies every {STEPS_PER_MEASURE} steps"),
        "builds: steps per build of the lists; energies: time of one measurement".to_owned(),
    ]
}

/// Measures about `n` particles, see [`melt`]. On a device the precision is mixed.
pub fn measure(place: &BenchPlace, n: usize, precision: PairPrecision) -> Result<BenchRow, MeasureError> {
    let particles = melt(n);
    let n = particles.len();
    let (mut melt, strategy) = match place.device() {
        Some(device) => {
            let strategy = production_strategy(device, place.tuning(), n);
            (MovingMelt::on_device(device, &particles, &strategy)?, strategy.describe())
        }
        None => {
            let settings = FluidSettings { precision, ..melt_settings() };
            let strategy = format!("skin {:.3}", settings.skin);
            (MovingMelt::on_host(particles, &settings), strategy)
        }
    };
    melt.warm_up()?;
    let (builds_before, steps_before) = (melt.rebuilds(), melt.steps);
    let times = melt.time_steps(STEPS_PER_MEASURE, true, |run_seconds| place.repeat_count(run_seconds))?;
    // Steps for which a build of the lists lasts, on average.
    let builds = melt.rebuilds().zip(builds_before).map(|(after, before)| after - before);
    let steps_per_build =
        builds.filter(|&builds| builds > 0).map(|builds| (melt.steps - steps_before) as f64 / builds as f64);
    let start = Instant::now();
    let measures = melt.measure()?;
    let measure_secs = start.elapsed().as_secs_f64();
    let precision = match precision {
        PairPrecision::Mixed => "mixed",
        PairPrecision::Double => "double",
    };
    let (rate, steps_per_s) = (n as f64 / times.median(), 1.0 / times.median());
    let cells = vec![
        n.to_string(),
        precision.to_owned(),
        format_seconds(times.median()),
        format_seconds(times.fastest()),
        format_number(steps_per_s),
        format_number(rate / 1e6),
        steps_per_build.map_or_else(|| "-".to_owned(), format_number),
        format_seconds(measure_secs),
    ];
    let more = json!({
        "case": "lj", "n": n, "precision": precision, "strategy": strategy, "steps_per_s": steps_per_s,
        "steps_per_measure": STEPS_PER_MEASURE, "measure_seconds": measure_secs,
        "steps_per_build": steps_per_build,
        "energy_per_particle": (measures.kinetic + measures.potential) / n as f64,
    });
    let json = result_json(&times, Some(rate), "particle-steps/s", more);
    Ok(BenchRow { cells, note: format!("          {strategy}"), json })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The device has the bits of the CPU, so the energies are equal as well.
    #[test]
    fn cpu_and_device_measure_the_same_melt() {
        let Some(device) = crate::test_device() else { return };
        let [host, device] = [None, Some(&device)].map(|device| {
            let place = BenchPlace::new(device, Some(1)).unwrap();
            measure(&place, 256, PairPrecision::Mixed).unwrap().json
        });
        let energy = |result: &Value| result["energy_per_particle"].as_f64().unwrap();
        assert_eq!((&host["n"], energy(&host)), (&device["n"], energy(&device)));
        // The lattice at kT = 1.44 has the energy −6.773 + 1.5 x 1.44 (1 − 1 / n), which is
        // conserved up to jumps of pairs at the cutoff.
        let start = -6.773_368 + 1.5 * 1.44 * (255.0 / 256.0);
        assert!((energy(&host) - start).abs() < 0.05, "{host} {start}");
        // A particle moves by half the skin within 0.1 units of time, which are 20 steps.
        assert!(host["steps_per_build"].as_f64().is_some_and(|steps| steps > 2.0 && steps < 50.0), "{host}");
        assert_eq!(host["rate"], 256.0 / host["seconds"].as_f64().unwrap());
    }
}
