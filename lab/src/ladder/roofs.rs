//! Peak rates that rungs are compared with.

use std::sync::{Mutex, OnceLock, PoisonError};

use orrery_device::{Device, DeviceError, ceiling};
use orrery_measure::format::format_rate;
use orrery_measure::{cpu_bandwidth, cpu_peak};
use orrery_model::Precision;
use orrery_simd::InstructionSet;
use serde::Serialize;

use super::Roof;

/// Name of the roof that is the rate of a copy.
pub(super) const COPY_ROOF: &str = "copy";

/// Roofs of the roofline model: peak rates of the device, measured and from the data sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Roofs {
    /// Measured bytes per second of a copy, reads and writes both counted. For the CPU, of a copy
    /// or of reads, whichever is faster.
    pub bandwidth: Option<f64>,
    /// Measured f32 operations per second.
    pub flops: Option<f64>,
    /// Measured f64 operations per second.
    pub f64_flops: Option<f64>,
    /// Theoretical bytes per second.
    pub theoretical_bandwidth: Option<f64>,
    /// Theoretical f32 operations per second.
    pub theoretical_flops: Option<f64>,
    /// Theoretical f64 operations per second.
    pub theoretical_f64_flops: Option<f64>,
}

impl Roofs {
    /// Rates in unit tests, which do not check them.
    const OF_TESTS: Self = Self {
        bandwidth: Some(1e10),
        flops: Some(1e10),
        f64_flops: Some(1e10),
        theoretical_bandwidth: None,
        theoretical_flops: None,
        theoretical_f64_flops: None,
    };

    /// Returns the peak rates of a device. Measures them at the first call of the process.
    pub(super) fn of_device(device: &Device) -> Result<Self, DeviceError> {
        if cfg!(test) {
            return Ok(Self::OF_TESTS);
        }
        static MEASURED: Mutex<Vec<(Device, Roofs)>> = Mutex::new(Vec::new());
        let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, roofs)) = measured.iter().find(|(known, _)| known == device) {
            return Ok(*roofs);
        }
        let roofs = Self::measure_device(device)?;
        measured.push((device.clone(), roofs));
        Ok(roofs)
    }

    fn measure_device(device: &Device) -> Result<Self, DeviceError> {
        let (measured, properties) = (ceiling::measure(device)?, device.properties());
        Ok(Self {
            bandwidth: Some(measured.copy_bytes_per_s),
            flops: Some(measured.f32_flops),
            f64_flops: measured.f64_flops,
            theoretical_bandwidth: properties.peak_bandwidth,
            theoretical_flops: properties.peak_f32,
            theoretical_f64_flops: properties.peak_f64,
        })
    }

    /// Returns the peak rates of all cores of the host's CPU. Measures them at the first call of
    /// the process.
    pub(super) fn of_host() -> Self {
        if cfg!(test) {
            return Self::OF_TESTS;
        }
        static MEASURED: OnceLock<Roofs> = OnceLock::new();
        let measure = |precision| Some(cpu_peak::flops_per_second(InstructionSet::best(), precision));
        *MEASURED.get_or_init(|| Self {
            bandwidth: Some(cpu_bandwidth::memory_bytes_per_second()),
            flops: measure(Precision::Single),
            f64_flops: measure(Precision::Double),
            ..Self::default()
        })
    }

    /// Returns the theoretical peak of a precision, or the measured one if the theoretical is
    /// unknown. In operations per second.
    pub(super) fn peak_flops(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Double => self.theoretical_f64_flops.or(self.f64_flops),
            Precision::Single | Precision::Mixed => self.theoretical_flops.or(self.flops),
        }
    }

    /// Describes the f32 peak as the roof of a ladder.
    pub(super) fn peak_roof(&self) -> Option<Roof> {
        let format_flops = |flops: f64| format_rate(flops, "FLOP/s");
        let peak = match (self.theoretical_flops, self.flops) {
            (Some(peak), Some(measured)) => {
                format!("{} ({} measured)", format_flops(peak), format_flops(measured))
            }
            (Some(peak), None) => format_flops(peak),
            (None, Some(measured)) => format!("{} measured", format_flops(measured)),
            (None, None) => return None,
        };
        Some(Roof { name: "peak", description: format!("f32 {peak}; CPU and f64 peaks differ") })
    }

    /// Returns the highest rate of items that need `bytes` each from memory.
    pub(super) fn bandwidth_roof(&self, bytes: f64) -> Option<f64> {
        Some(self.bandwidth? / bytes)
    }

    /// Describes the copy as the roof of a ladder.
    pub(super) fn copy_roof(&self) -> Option<Roof> {
        let description = format!("{}, reads and writes counted", format_rate(self.bandwidth?, "B/s"));
        Some(Roof { name: COPY_ROOF, description })
    }
}
