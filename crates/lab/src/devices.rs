//! What there is to compute with: each device's figures by its driver, and as measured.

use orrery_device::{Device, DeviceChoice, DeviceKind, DeviceList, ceiling};
use orrery_particles::settings::Precision;
use orrery_particles::simd::{InstructionSet, peak};
use serde::Serialize;

use crate::show::{rate_of, share};

/// A figure as measured and by the data sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// As measured just now.
    pub measured: Option<f64>,
    /// By clock, width and count of units.
    pub theoretical: Option<f64>,
}

/// One device, the processor included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// What `--device` takes.
    pub label: String,
    /// The maker's name for it.
    pub name: String,
    /// Processor, GPU or other.
    pub kind: &'static str,
    /// Bytes of its memory.
    pub memory: Option<u64>,
    /// Multiprocessors, or threads in use.
    pub multiprocessors: u32,
    /// Cycles a second.
    pub clock_hz: Option<f64>,
    /// Compute capability, OpenCL version or instruction set.
    pub version: String,
    /// The driver's version.
    pub driver: Option<String>,
    /// Bytes a second copied, read and write both counted.
    pub copy: Figure,
    /// f32 operations a second.
    pub f32_flops: Figure,
    /// f64 operations a second.
    pub f64_flops: Figure,
    /// Why it could not be measured.
    pub fault: Option<String>,
}

/// Everything found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// The processor, then CUDA, then OpenCL.
    pub devices: Vec<About>,
    /// Why a kind has none.
    pub notes: Vec<String>,
    /// What `--device auto` takes.
    pub auto: String,
}

/// Finds and measures all. `memory` is what the processor's programs may use.
pub fn survey(memory: Option<u64>) -> Survey {
    let DeviceList { devices, notes } = Device::list();
    let mut found = vec![processor(memory)];
    found.extend(devices.iter().map(about));
    let auto = Device::open(DeviceChoice::Auto).ok().flatten();
    Survey { devices: found, notes, auto: auto.map_or_else(|| "cpu".to_owned(), |device| device.label()) }
}

fn processor(memory: Option<u64>) -> About {
    let set = InstructionSet::best();
    let measured =
        |precision| Figure { measured: Some(peak::flops_per_second(set, precision)), theoretical: None };
    About {
        label: "cpu".to_owned(),
        name: cpu_name(),
        kind: "processor",
        memory,
        multiprocessors: rayon::current_num_threads() as u32,
        clock_hz: None,
        version: set.name().to_owned(),
        driver: None,
        copy: Figure::default(),
        f32_flops: measured(Precision::Single),
        f64_flops: measured(Precision::Double),
        fault: None,
    }
}

fn about(device: &Device) -> About {
    let told = device.properties();
    let (found, fault) = match ceiling::measure(device) {
        Ok(found) => (Some(found), None),
        Err(fault) => (None, Some(fault.to_string())),
    };
    let figure = |measured, theoretical| Figure { measured, theoretical };
    About {
        label: device.label(),
        name: told.name.clone(),
        kind: match told.kind {
            DeviceKind::Gpu => "GPU",
            DeviceKind::Cpu => "processor",
            DeviceKind::Other => "other",
        },
        memory: Some(told.memory),
        multiprocessors: told.sm_count,
        clock_hz: Some(told.clock_hz).filter(|clock| *clock > 0.0),
        version: told.version.clone(),
        driver: Some(told.driver.clone()),
        copy: figure(found.as_ref().map(|found| found.copy_bytes_per_s), told.peak_bandwidth),
        f32_flops: figure(found.as_ref().map(|found| found.f32_flops), told.peak_f32),
        f64_flops: figure(found.as_ref().and_then(|found| found.f64_flops), told.peak_f64),
        fault,
    }
}

/// The processor's name, as the system tells it.
pub fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    name.unwrap_or("unknown processor").to_owned()
}

impl Survey {
    /// In words, at most 80 columns.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.devices.iter().flat_map(About::lines).collect();
        lines.push(String::new());
        lines.extend(self.notes.iter().flat_map(|note| crate::show::wrapped(note, 78)));
        lines.push(format!("--device auto takes {}", self.auto));
        lines
    }
}

impl About {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![cut(&format!("{:<9} {}", self.label, self.name))];
        let mut line = |what: &str, text: String| lines.push(cut(&format!("  {what:<16}{text}")));
        line("kind", self.kind.to_owned());
        line("version", self.version.clone());
        self.driver.iter().for_each(|driver| line("driver", driver.clone()));
        let memory = self.memory.map_or_else(|| "-".to_owned(), orrery_io::format_bytes);
        line("memory", memory);
        let clock = self.clock_hz.map_or_else(String::new, |hz| format!(" at {:.0} MHz", hz / 1e6));
        let units = if self.label == "cpu" { "threads" } else { "multiprocessors" };
        line(units, format!("{}{clock}", self.multiprocessors));
        match &self.fault {
            Some(fault) => line("not measured", fault.clone()),
            None => {
                line("copy", self.copy.show("B/s"));
                line("f32", self.f32_flops.show("FLOP/s"));
                line("f64", self.f64_flops.show("FLOP/s"));
            }
        }
        lines
    }
}

impl Figure {
    /// `4.09 TB/s, 85% of 4.81 TB/s`; a dash for what is not known.
    fn show(&self, unit: &str) -> String {
        let known = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| rate_of(value, unit));
        match self.measured.zip(self.theoretical) {
            Some((measured, theoretical)) => format!(
                "{} measured, {} of {} in theory",
                known(self.measured),
                share(Some(measured / theoretical)),
                known(self.theoretical)
            ),
            None => format!("{} measured, {} in theory", known(self.measured), known(self.theoretical)),
        }
    }
}

fn cut(line: &str) -> String {
    if line.chars().count() <= 80 {
        return line.trim_end().to_owned();
    }
    format!("{}…", line.chars().take(79).collect::<String>().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_words() {
        let about = About {
            label: "cuda:0".into(),
            name: "NVIDIA H200".into(),
            kind: "GPU",
            memory: Some(150_121_545_728),
            multiprocessors: 132,
            clock_hz: Some(1.98e9),
            version: "compute capability 9.0".into(),
            driver: Some("580.65".into()),
            copy: Figure { measured: Some(4.09e12), theoretical: Some(4.81e12) },
            f32_flops: Figure { measured: Some(60.2e12), theoretical: None },
            f64_flops: Figure::default(),
            fault: None,
        };
        assert_eq!(
            about.lines(),
            [
                "cuda:0    NVIDIA H200",
                "  kind            GPU",
                "  version         compute capability 9.0",
                "  driver          580.65",
                "  memory          139.8 GiB",
                "  multiprocessors 132 at 1980 MHz",
                "  copy            4.09 TB/s measured, 85% of 4.81 TB/s in theory",
                "  f32             60.2 TFLOP/s measured, - in theory",
                "  f64             - measured, - in theory",
            ]
        );
        let long = About { name: "n".repeat(200), fault: Some("f".repeat(200)), ..about };
        assert!(long.lines().iter().all(|line| line.chars().count() <= 80));
    }
}
