//! List of devices with the figures that their drivers report and with measured peak rates.

use orrery_device::{Device, DeviceChoice, DeviceKind, DeviceList, Properties, ceiling};
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

/// Abilities of a device, as its driver reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceFeatures {
    /// Number of engines that copy between host and device while kernels run.
    pub copy_engines: Option<u32>,
    /// Whether kernels can access host memory over the bus.
    pub can_map_host_memory: bool,
    /// Whether the device has memory whose pages move between host and device.
    pub has_managed_memory: bool,
    /// Whether host and device have one address space.
    pub has_unified_addressing: bool,
    /// Whether the device uses the memory of the host.
    pub is_integrated: bool,
    /// Whether kernels can read textures.
    pub has_textures: bool,
    /// CUDA's compute mode.
    pub compute_mode: Option<&'static str>,
}

impl DeviceFeatures {
    fn new(properties: &Properties) -> Self {
        Self {
            copy_engines: properties.copy_engines,
            can_map_host_memory: properties.can_map_host_memory,
            has_managed_memory: properties.has_managed_memory,
            has_unified_addressing: properties.has_unified_addressing,
            is_integrated: properties.is_integrated,
            has_textures: properties.has_textures,
            compute_mode: properties.compute_mode,
        }
    }

    /// Returns the names and values of the rows of the listing.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let host_access = [
            (self.can_map_host_memory, "mapped memory"),
            (self.has_managed_memory, "managed memory"),
            (self.has_unified_addressing, "unified addressing"),
            (self.is_integrated, "integrated"),
        ];
        let host_access: Vec<_> =
            host_access.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
        let mut rows = Vec::new();
        rows.extend(self.copy_engines.map(|count| ("copy engines", count.to_string())));
        if !host_access.is_empty() {
            rows.push(("host access", host_access.join(", ")));
        }
        rows.push(("textures", if self.has_textures { "yes" } else { "no" }.to_owned()));
        rows.extend(self.compute_mode.map(|mode| ("compute mode", mode.to_owned())));
        rows
    }
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
    /// Abilities of a device. None for the CPU.
    pub features: Option<DeviceFeatures>,
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
        features: None,
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
        features: Some(DeviceFeatures::new(properties)),
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
        add_row("memory", self.memory.map_or_else(|| "-".to_owned(), orrery_formats::format_bytes));
        let clock = self.clock_hz.map_or_else(String::new, |hz| format!(" at {:.0} MHz", hz / 1e6));
        add_row(self.unit_name(), format!("{}{clock}", self.sm_count));
        for (name, value) in self.features.iter().flat_map(DeviceFeatures::rows) {
            add_row(name, value);
        }
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
            features: Some(DeviceFeatures {
                copy_engines: Some(3),
                can_map_host_memory: true,
                has_managed_memory: true,
                has_unified_addressing: true,
                is_integrated: true,
                has_textures: true,
                compute_mode: Some("exclusive process"),
            }),
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
                "  copy engines    3",
                "  host access     mapped memory, managed memory, unified addressing, integrated",
                "  textures        yes",
                "  compute mode    exclusive process",
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
