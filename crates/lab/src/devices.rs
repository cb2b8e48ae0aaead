//! DeviceList of devices with the figures that their drivers report and with measured peak rates.

use orrery_device::{Device, DeviceChoice, DeviceKind, DeviceList, ceiling};
use orrery_model::Precision;
use orrery_simd::InstructionSet;
use serde::Serialize;

use crate::cpu_peak;
use crate::format::{format_percent, format_rate, truncate_text, wrap_text};

/// Peak rate of a device, in bytes or operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PeakRate {
    /// Rate measured now.
    pub measured: Option<f64>,
    /// Rate computed from clock, bus width and number of units.
    pub theoretical: Option<f64>,
}

/// Properties and peak rates of one device or of the CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Value for `--device`, for example `cuda:0`.
    pub label: String,
    /// Product name.
    pub name: String,
    /// `CPU`, `GPU` or `other`.
    pub kind: &'static str,
    /// Memory size in bytes.
    pub memory: Option<u64>,
    /// Number of SMs (OpenCL compute units). For the CPU, the number of threads in use.
    pub sm_count: u32,
    /// Clock frequency in Hz.
    pub clock_hz: Option<f64>,
    /// Compute capability, OpenCL version or instruction set.
    pub version: String,
    /// Driver version.
    pub driver: Option<String>,
    /// Bytes per second of a copy, reads and writes both counted.
    pub copy: PeakRate,
    /// f32 operations per second.
    pub f32_flops: PeakRate,
    /// f64 operations per second.
    pub f64_flops: PeakRate,
    /// Error of the measurement, if it failed.
    pub error: Option<String>,
}

/// All devices of this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceSurvey {
    /// The CPU, then CUDA devices, then OpenCL devices.
    pub devices: Vec<DeviceReport>,
    /// One line for each backend without a device, with the reason.
    pub notes: Vec<String>,
    /// Label of the device that `--device auto` selects.
    pub auto: String,
}

/// Finds and measures all devices. `cpu_memory` is the number of bytes available on the host.
pub fn survey_devices(cpu_memory: Option<u64>) -> DeviceSurvey {
    let DeviceList { devices, notes } = Device::list();
    let mut reports = vec![report_cpu(cpu_memory)];
    reports.extend(devices.iter().map(report_device));
    let auto = Device::open(DeviceChoice::Auto).ok().flatten();
    let auto = auto.map_or_else(|| "cpu".to_owned(), |device| device.label());
    DeviceSurvey { devices: reports, notes, auto }
}

fn report_cpu(memory: Option<u64>) -> DeviceReport {
    let set = InstructionSet::best();
    let measured = |precision| PeakRate {
        measured: Some(cpu_peak::flops_per_second(set, precision)),
        theoretical: None,
    };
    DeviceReport {
        label: "cpu".to_owned(),
        name: cpu_name(),
        kind: "CPU",
        memory,
        sm_count: rayon::current_num_threads() as u32,
        clock_hz: None,
        version: set.name().to_owned(),
        driver: None,
        copy: PeakRate::default(),
        f32_flops: measured(Precision::Single),
        f64_flops: measured(Precision::Double),
        error: None,
    }
}

fn report_device(device: &Device) -> DeviceReport {
    let properties = device.properties();
    let (measured, error) = match ceiling::measure(device) {
        Ok(measured) => (Some(measured), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let peak = |measured, theoretical| PeakRate { measured, theoretical };
    DeviceReport {
        label: device.label(),
        name: properties.name.clone(),
        kind: match properties.kind {
            DeviceKind::Gpu => "GPU",
            DeviceKind::Cpu => "CPU",
            DeviceKind::Other => "other",
        },
        memory: Some(properties.memory),
        sm_count: properties.sm_count,
        clock_hz: Some(properties.clock_hz).filter(|clock| *clock > 0.0),
        version: properties.version.clone(),
        driver: Some(properties.driver.clone()),
        copy: peak(measured.as_ref().map(|rates| rates.copy_bytes_per_s), properties.peak_bandwidth),
        f32_flops: peak(measured.as_ref().map(|rates| rates.f32_flops), properties.peak_f32),
        f64_flops: peak(measured.as_ref().and_then(|rates| rates.f64_flops), properties.peak_f64),
        error,
    }
}

/// Returns the CPU's name from `/proc/cpuinfo`, or `unknown CPU`.
pub fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    name.unwrap_or("unknown CPU").to_owned()
}

impl DeviceSurvey {
    /// Formats the listing as lines of at most 80 characters.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.devices.iter().flat_map(DeviceReport::lines).collect();
        lines.push(String::new());
        lines.extend(self.notes.iter().flat_map(|note| wrap_text(note, 78)));
        lines.push(format!("--device auto selects {}", self.auto));
        lines
    }
}

impl DeviceReport {
    fn lines(&self) -> Vec<String> {
        let fit = |line: String| truncate_text(line.trim_end(), 80);
        let mut lines = vec![fit(format!("{:<9} {}", self.label, self.name))];
        let mut add_row = |name: &str, value: String| lines.push(fit(format!("  {name:<16}{value}")));
        add_row("kind", self.kind.to_owned());
        add_row("version", self.version.clone());
        self.driver.iter().for_each(|driver| add_row("driver", driver.clone()));
        add_row("memory", self.memory.map_or_else(|| "-".to_owned(), orrery_io::format_bytes));
        let clock = self.clock_hz.map_or_else(String::new, |hz| format!(" at {:.0} MHz", hz / 1e6));
        add_row(self.unit_name(), format!("{}{clock}", self.sm_count));
        match &self.error {
            Some(error) => add_row("not measured", error.clone()),
            None => {
                add_row("copy", self.copy.describe("B/s"));
                add_row("f32", self.f32_flops.describe("FLOP/s"));
                add_row("f64", self.f64_flops.describe("FLOP/s"));
            }
        }
        lines
    }

    /// Returns the backend's term for the units that `sm_count` counts.
    fn unit_name(&self) -> &'static str {
        match self.label.split(':').next() {
            Some("cpu") => "threads",
            Some("cuda") => "SMs",
            _ => "compute units",
        }
    }
}

impl PeakRate {
    /// Describes both rates, for example `4.09 TB/s measured, 85% of the theoretical 4.81 TB/s`.
    fn describe(&self, unit: &str) -> String {
        match (self.measured, self.theoretical) {
            (Some(measured), Some(theoretical)) => format!(
                "{} measured, {} of the theoretical {}",
                format_rate(measured, unit),
                format_percent(Some(measured / theoretical)),
                format_rate(theoretical, unit)
            ),
            (Some(measured), None) => format!("{} measured", format_rate(measured, unit)),
            (None, Some(theoretical)) => {
                format!("{} theoretical, not measured", format_rate(theoretical, unit))
            }
            (None, None) => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_lists_properties_and_rates_within_80_columns() {
        let report = DeviceReport {
            label: "cuda:0".into(),
            name: "NVIDIA H200".into(),
            kind: "GPU",
            memory: Some(150_121_545_728),
            sm_count: 132,
            clock_hz: Some(1.98e9),
            version: "compute capability 9.0".into(),
            driver: Some("580.65".into()),
            copy: PeakRate { measured: Some(4.09e12), theoretical: Some(4.81e12) },
            f32_flops: PeakRate { measured: Some(60.2e12), theoretical: None },
            f64_flops: PeakRate::default(),
            error: None,
        };
        assert_eq!(
            report.lines(),
            [
                "cuda:0    NVIDIA H200",
                "  kind            GPU",
                "  version         compute capability 9.0",
                "  driver          580.65",
                "  memory          139.8 GiB",
                "  SMs             132 at 1980 MHz",
                "  copy            4.09 TB/s measured, 85% of the theoretical 4.81 TB/s",
                "  f32             60.2 TFLOP/s measured",
                "  f64             -",
            ]
        );
        let opencl = DeviceReport { label: "opencl:0".into(), ..report.clone() };
        assert_eq!(opencl.lines()[5], "  compute units   132 at 1980 MHz");
        let long = DeviceReport { name: "n".repeat(200), error: Some("e".repeat(200)), ..report };
        assert!(long.lines().iter().all(|line| line.chars().count() <= 80));
    }
}
