//! Measured roofs of a machine, for the CPU and every device.
//!
//! The roofline model (Williams, Waterman & Patterson 2009): a computation with I operations per
//! byte reaches at most min(P, I B) operations per second, where P is the peak of the arithmetic
//! and B the bandwidth of the level of the memory that the bytes come from. Both roofs meet at the
//! ridge I = P / B. A computation with a smaller intensity is limited by that level.

use orrery_device::{Device, DeviceError, DeviceList, ceiling};
use orrery_draw::plot::{Axis, Plot, Series, Style};
use orrery_formats::format_bytes;
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_simd::InstructionSet;
use serde::Serialize;

use crate::devices::cpu_name;
use crate::format::{format_number, format_rate, truncate_text, wrap_text};
use crate::{cpu_bandwidth, cpu_peak};

/// Width of the tables.
const WIDTH: usize = 80;

/// Bandwidth of one level of the memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelRoof {
    /// Name, for example `L2`.
    pub name: &'static str,
    /// Bytes per second of all cores or SMs together.
    pub bytes_per_s: f64,
}

/// Rate of reads of a working set of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSetRate {
    /// Size of the working set in bytes. For the CPU, of each thread.
    pub bytes: u64,
    /// Bytes per second of all cores or SMs together.
    pub bytes_per_s: f64,
}

/// Roofs of one device or of the CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceRoofs {
    /// Value for `--device`, for example `cuda:0`.
    pub label: String,
    /// Product name.
    pub name: String,
    /// f32 operations per second.
    pub f32_flops: Option<f64>,
    /// f64 operations per second. `None` if the device has no f64.
    pub f64_flops: Option<f64>,
    /// Levels of the memory, from the fastest to the memory.
    pub levels: Vec<LevelRoof>,
    /// Rates of reads, by size of the working set in ascending order.
    pub reads: Vec<WorkingSetRate>,
    /// Error of the measurement, if it failed.
    pub error: Option<String>,
}

/// Roofs of the CPU and of all devices of this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineRoofs {
    /// The CPU, then CUDA devices, then OpenCL devices.
    pub devices: Vec<DeviceRoofs>,
    /// One line for each backend without a device, with the reason.
    pub notes: Vec<String>,
}

impl MachineRoofs {
    /// Measures the CPU and the devices of the list. Calls `progress` with each label before.
    pub fn measure(list: &DeviceList, progress: &mut dyn FnMut(&str)) -> Self {
        progress("cpu");
        let mut devices = vec![measure_cpu()];
        for device in &list.devices {
            progress(&device.label());
            devices.push(measure_device(device).unwrap_or_else(|error| DeviceRoofs {
                error: Some(error.to_string()),
                ..unmeasured(device.label(), device.properties().name.clone())
            }));
        }
        Self { devices, notes: list.notes.clone() }
    }

    /// Formats the roofs as lines of at most 80 characters.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.devices.iter().flat_map(DeviceRoofs::lines).collect();
        lines.push("ridge: flops per byte at which the roof meets that of f32".to_owned());
        lines.extend(self.notes.iter().flat_map(|note| wrap_text(note, WIDTH)));
        lines
    }

    /// Draws the memory, f32 and f64 of all devices.
    pub fn plot(&self) -> Plot {
        let (low, high) = intensity_range(&self.devices);
        let lines_of = |device: &DeviceRoofs| {
            let memory = device.levels.last().map(|level| level.bytes_per_s);
            let line = |name: &str, flops: Option<f64>, style| {
                let (flops, bandwidth) = (flops?, memory?);
                let name = format!("{} {name}: {}", device.label, format_rate(flops, "FLOP/s"));
                Some(Series { name, points: roof_points(bandwidth, flops, low, high), style })
            };
            [line("f32", device.f32_flops, Style::Line), line("f64", device.f64_flops, Style::Dashed)]
        };
        let series = self.devices.iter().flat_map(lines_of).flatten().collect();
        new_plot("measured roofs", "memory and arithmetic of each device", series)
    }
}

/// Returns a device without measured rates.
fn unmeasured(label: String, name: String) -> DeviceRoofs {
    let (levels, reads) = (Vec::new(), Vec::new());
    DeviceRoofs { label, name, f32_flops: None, f64_flops: None, levels, reads, error: None }
}

fn measure_cpu() -> DeviceRoofs {
    let bandwidths = cpu_bandwidth::measure_bandwidths();
    let flops = |precision| Some(cpu_peak::flops_per_second(InstructionSet::best(), precision));
    let level =
        |level: &cpu_bandwidth::CpuLevel| LevelRoof { name: level.name, bytes_per_s: level.bytes_per_s };
    let read = |read: &cpu_bandwidth::CpuReadRate| WorkingSetRate {
        bytes: read.bytes_per_thread,
        bytes_per_s: read.bytes_per_s,
    };
    DeviceRoofs {
        f32_flops: flops(Precision::Single),
        f64_flops: flops(Precision::Double),
        levels: bandwidths.levels.iter().map(level).collect(),
        reads: bandwidths.reads.iter().map(read).collect(),
        ..unmeasured("cpu".to_owned(), cpu_name())
    }
}

fn measure_device(device: &Device) -> Result<DeviceRoofs, DeviceError> {
    let peaks = ceiling::measure(device)?;
    let caches = ceiling::measure_caches(device)?;
    let level = |name, bytes_per_s| LevelRoof { name, bytes_per_s };
    let read =
        |read: &ceiling::ReadRate| WorkingSetRate { bytes: read.working_set, bytes_per_s: read.bytes_per_s };
    Ok(DeviceRoofs {
        f32_flops: Some(peaks.f32_flops),
        f64_flops: peaks.f64_flops,
        levels: vec![
            level("shared", caches.shared_bytes_per_s),
            level("L2", caches.l2_bytes_per_s()),
            level("memory", peaks.copy_bytes_per_s),
        ],
        reads: caches.reads.iter().map(read).collect(),
        ..unmeasured(device.label(), device.properties().name.clone())
    })
}

impl DeviceRoofs {
    fn lines(&self) -> Vec<String> {
        let fit = |line: String| truncate_text(line.trim_end(), WIDTH);
        let mut lines = vec![fit(format!("{:<9} {}", self.label, self.name))];
        if let Some(error) = &self.error {
            lines.push(fit(format!("  not measured: {error}")));
            return lines;
        }
        for (name, flops) in [("f32", self.f32_flops), ("f64", self.f64_flops)] {
            let rate = flops.map_or_else(|| "-".to_owned(), |flops| format_rate(flops, "FLOP/s"));
            lines.push(format!("  {name:<8}{rate:>14}"));
        }
        for level in &self.levels {
            let ridge = self.f32_flops.map_or_else(String::new, |flops| {
                format!("   ridge {}", format_number(flops / level.bytes_per_s))
            });
            lines.push(format!("  {:<8}{:>14}{ridge}", level.name, format_rate(level.bytes_per_s, "B/s")));
        }
        lines.extend(self.working_set_lines());
        lines
    }

    /// Formats the rates of reads by working set, three per line.
    fn working_set_lines(&self) -> Vec<String> {
        if self.reads.is_empty() {
            return Vec::new();
        }
        let owner = if self.label == "cpu" { " of each thread" } else { "" };
        let cell = |read: &WorkingSetRate| {
            format!("{:>10} {:>11}", format_bytes(read.bytes), format_rate(read.bytes_per_s, "B/s"))
        };
        let rows = self.reads.chunks(3).map(|row| {
            let cells: Vec<String> = row.iter().map(cell).collect();
            format!("  {}", cells.join("  "))
        });
        std::iter::once(format!("  reads by working set{owner}")).chain(rows).collect()
    }

    /// Draws the roofs of all levels of the memory, with those of f32 and f64.
    pub fn plot(&self) -> Plot {
        let (low, high) = intensity_range(std::slice::from_ref(self));
        let fastest = self.levels.iter().map(|level| level.bytes_per_s).fold(0.0, max_or_nan);
        let mut series = Vec::new();
        if let Some(flops) = self.f32_flops.filter(|_| fastest > 0.0) {
            for level in &self.levels {
                let name = format!("{}: {}", level.name, format_rate(level.bytes_per_s, "B/s"));
                series.push(Series::line(name, roof_points(level.bytes_per_s, flops, low, high)));
            }
        }
        let flat = |name: &str, flops: Option<f64>| {
            let flops = flops.filter(|_| fastest > 0.0)?;
            let name = format!("{name}: {}", format_rate(flops, "FLOP/s"));
            let ends = [flops / fastest, high].map(|intensity| (intensity, flops / 1e9));
            Some(Series { name, points: ends.to_vec(), style: Style::Dashed })
        };
        series.extend([flat("f32", self.f32_flops), flat("f64", self.f64_flops)].into_iter().flatten());
        new_plot("measured roofs", &format!("{}, {}", self.label, self.name), series)
    }
}

fn new_plot(title: &str, subtitle: &str, series: Vec<Series>) -> Plot {
    Plot {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: Axis::log("arithmetic intensity, flops per byte"),
        y: Axis::log("GFLOP/s"),
        series,
    }
}

/// Returns the corners of a roof: intensity and GFLOP/s.
fn roof_points(bandwidth: f64, flops: f64, low: f64, high: f64) -> Vec<(f64, f64)> {
    let ridge = (flops / bandwidth).clamp(low, high);
    [low, ridge, high].map(|intensity| (intensity, (bandwidth * intensity).min(flops) / 1e9)).to_vec()
}

/// Returns a range of intensities that contains all ridges, with a margin on both sides.
fn intensity_range(devices: &[DeviceRoofs]) -> (f64, f64) {
    let ridges_of = |device: &DeviceRoofs| {
        let flops: Vec<f64> = [device.f32_flops, device.f64_flops].into_iter().flatten().collect();
        let ridges = device.levels.iter().flat_map(move |level| {
            let bandwidth = level.bytes_per_s;
            flops.clone().into_iter().map(move |flops| flops / bandwidth)
        });
        ridges.collect::<Vec<f64>>()
    };
    let ridges = devices.iter().flat_map(ridges_of);
    let (low, high) = ridges.fold((1.0f64, 1.0f64), |(low, high), ridge| (low.min(ridge), high.max(ridge)));
    (low / 10.0, high * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> MachineRoofs {
        let level = |name, bytes_per_s| LevelRoof { name, bytes_per_s };
        let read = |bytes, bytes_per_s| WorkingSetRate { bytes, bytes_per_s };
        let cpu = DeviceRoofs {
            f32_flops: Some(4e11),
            f64_flops: Some(2e11),
            levels: vec![level("L1", 8e11), level("L2", 2e11), level("memory", 4e10)],
            reads: vec![
                read(8 << 10, 8e11),
                read(16 << 10, 7.9e11),
                read(1 << 20, 2e11),
                read(1 << 26, 3.5e10),
            ],
            ..unmeasured("cpu".into(), "Example".into())
        };
        let gpu = DeviceRoofs {
            f32_flops: Some(6e13),
            levels: vec![level("shared", 3e13), level("L2", 6e12), level("memory", 4.2e12)],
            ..unmeasured("cuda:0".into(), "NVIDIA H200".into())
        };
        let broken =
            DeviceRoofs { error: Some("e".repeat(200)), ..unmeasured("opencl:0".into(), "n".repeat(200)) };
        MachineRoofs { devices: vec![cpu, gpu, broken], notes: vec!["no OpenCL device: none".into()] }
    }

    #[test]
    fn table_has_rates_and_ridges_within_80_columns() {
        let lines = example().lines();
        for line in &lines {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for line in [
            "cpu       Example",
            "  f32        400 GFLOP/s",
            "  memory         40 GB/s   ridge 10",
            "  reads by working set of each thread",
            "     8.0 KiB    800 GB/s    16.0 KiB    790 GB/s     1.0 MiB    200 GB/s",
            "  f64                  -",
            "  shared         30 TB/s   ridge 2",
            "no OpenCL device: none",
        ] {
            assert!(lines.iter().any(|found| found == line), "expected {line:?} in\n{}", lines.join("\n"));
        }
    }

    /// Corners: the slope is the bandwidth, and the roof is flat from the ridge on.
    #[test]
    fn roofs_have_the_slope_of_the_bandwidth_and_a_flat_part() {
        assert_eq!(roof_points(4e10, 4e11, 0.1, 100.0), [(0.1, 4.0), (10.0, 400.0), (100.0, 400.0)]);
    }

    #[test]
    fn plots_name_every_roof() {
        let machine = example();
        let svg = machine.plot().to_svg();
        for name in ["cpu f32: 400 GFLOP/s", "cpu f64: 200 GFLOP/s", "cuda:0 f32: 60 TFLOP/s"] {
            assert!(svg.contains(name), "{name}");
        }
        let svg = machine.devices[0].plot().to_svg();
        for name in
            ["L1: 800 GB/s", "L2: 200 GB/s", "memory: 40 GB/s", "f32: 400 GFLOP/s", "f64: 200 GFLOP/s"]
        {
            assert!(svg.contains(name), "{name}");
        }
        for device in &machine.devices {
            let svg = device.plot().to_svg();
            assert!(svg.starts_with("<svg ") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
