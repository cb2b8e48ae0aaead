//! Benchmark of Lennard-Jones fluids: particles moved per second in the melt of LAMMPS' benchmark,
//! with neighbour lists built as needed and energies measured every 100 steps.

use std::time::Instant;

use orrery_device::{Device, DeviceError, DeviceKind, ceiling};
use orrery_fluids::sample::{MELT_DT, melt, melt_settings};
use orrery_fluids::settings::{FluidSettings, PairPrecision};
use orrery_fluids::{DeviceFluid, FluidMeasures, FluidStrategy, HostFluid};
use orrery_model::fluid::FluidParticles;
use serde_json::{Value, json};

use super::direct::{device_json, repeat_count};
use crate::MeasureError;
use crate::timing::Times;
use crate::tuning::Tuning;

/// Steps between two measurements of the energies.
pub const STEPS_PER_MEASURE: u64 = 100;
/// Steps before the first timed one. After 300 steps the lattice has melted, and lists are built as
/// often as later.
const WARM_UP_STEPS: u64 = 300;
/// Number of timed runs on the CPU, unless given.
const REPEATS_ON_CPU: usize = 5;

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

/// Benchmark result for one number of particles.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidMeasurement {
    /// Number of particles.
    pub n: usize,
    /// Arithmetic of the forces.
    pub precision: PairPrecision,
    /// Description of the strategy.
    pub strategy: String,
    /// Times of one step, with its share of the measurement of energies.
    pub times: Times,
    /// Time of one measurement of the energies.
    pub measure_secs: f64,
    /// Steps for which a build of the lists lasts, on average. `None` without builds and on
    /// devices.
    pub steps_per_build: Option<f64>,
    /// Total energy per particle at the end.
    pub energy: f64,
}

impl FluidMeasurement {
    /// Returns the particles moved by one step per second, at the median time.
    pub fn particle_steps_per_s(&self) -> f64 {
        self.n as f64 / self.times.median()
    }

    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "case": "lj", "n": self.n, "precision": precision_name(self.precision), "strategy": self.strategy,
            "seconds": self.times.median(), "fastest": self.times.fastest(), "slowest": self.times.slowest(),
            "repeats": self.times.count(), "rate": self.particle_steps_per_s(), "unit": "particle-steps/s",
            "steps_per_s": 1.0 / self.times.median(), "steps_per_measure": STEPS_PER_MEASURE,
            "measure_seconds": self.measure_secs, "steps_per_build": self.steps_per_build,
            "energy_per_particle": self.energy,
        })
    }
}

/// Returns the name of a precision on the command line.
pub fn precision_name(precision: PairPrecision) -> &'static str {
    match precision {
        PairPrecision::Mixed => "mixed",
        PairPrecision::Double => "double",
    }
}

/// Benchmark of fluids on a device, or on all CPU cores.
pub struct FluidBench<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    tuning: Option<Tuning>,
    repeats: Option<usize>,
}

impl<'a> FluidBench<'a> {
    /// Measures the device's peak rates. `tuning` has results of the tuner for the device. Without
    /// `repeats`, the number of timed runs on a device depends on the time of one.
    pub fn new(
        device: Option<&'a Device>,
        tuning: Option<Tuning>,
        repeats: Option<usize>,
    ) -> Result<Self, DeviceError> {
        let with_peaks = |device| ceiling::measure(device).map(|peaks| (device, peaks));
        Ok(Self { device: device.map(with_peaks).transpose()?, tuning, repeats })
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> Option<Value> {
        self.device.map(|(device, peaks)| device_json(device, &peaks))
    }

    /// Measures about `n` particles, see [`melt`]. On a device the precision is mixed.
    pub fn measure(&self, n: usize, precision: PairPrecision) -> Result<FluidMeasurement, MeasureError> {
        let particles = melt(n);
        let n = particles.len();
        let (mut melt, strategy) = match self.device {
            Some((device, _)) => {
                let strategy = production_strategy(device, self.tuning.as_ref(), n);
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
        let repeats = |run_seconds: f64| {
            let default = if self.device.is_some() { repeat_count(run_seconds) } else { REPEATS_ON_CPU };
            self.repeats.unwrap_or(default)
        };
        let times = melt.time_steps(STEPS_PER_MEASURE, true, repeats)?;
        let builds = melt.rebuilds().zip(builds_before).map(|(after, before)| after - before);
        let start = Instant::now();
        let measures = melt.measure()?;
        Ok(FluidMeasurement {
            n,
            precision,
            strategy,
            times,
            measure_secs: start.elapsed().as_secs_f64(),
            steps_per_build: builds
                .filter(|&builds| builds > 0)
                .map(|builds| (melt.steps - steps_before) as f64 / builds as f64),
            energy: (measures.kinetic + measures.potential) / n as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device has the bits of the CPU, so the energies are equal as well.
    #[test]
    fn cpu_and_device_measure_the_same_melt() {
        let Some(device) = crate::test_device() else { return };
        let bench = |device| FluidBench::new(device, None, Some(1)).unwrap();
        let measured = [None, Some(&device)].map(|device| bench(device).measure(256, PairPrecision::Mixed));
        let [host, device] = measured.map(Result::unwrap);
        assert_eq!((host.n, host.energy), (device.n, device.energy));
        // The lattice at kT = 1.44 has the energy −6.773 + 1.5 x 1.44 (1 − 1 / n), which is
        // conserved up to jumps of pairs at the cutoff.
        let start = -6.773_368 + 1.5 * 1.44 * (255.0 / 256.0);
        assert!((host.energy - start).abs() < 0.05, "{} {start}", host.energy);
        // A particle moves by half the skin within 0.1 units of time, which are 20 steps.
        assert!(host.steps_per_build.is_some_and(|steps| steps > 2.0 && steps < 50.0), "{host:?}");
        let rate = host.n as f64 / host.times.median();
        assert_eq!(host.to_json()["rate"], rate);
    }
}
