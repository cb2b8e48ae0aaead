//! Errors of devices. Each message is one line with the device, the request and the driver's
//! message. A compiler log follows on further lines.

use thiserror::Error;

use crate::choice::DeviceChoice;
use crate::launch::Dim3;

/// An error of a device or driver, or a device that does not exist. `device` is a title such as
/// "cuda:0 (NVIDIA H200)".
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DeviceError {
    /// The text is not the name of a device.
    #[error("'{}' is not a device: expected auto, cpu, cuda, cuda:0, opencl or opencl:0", .0.escape_debug())]
    BadChoice(String),

    /// There is no device of the requested backend.
    #[error("{choice}: {}", notes.join("; "))]
    NoDevice {
        /// Requested device.
        choice: DeviceChoice,
        /// Reasons, as in [`crate::DeviceList::notes`].
        notes: Vec<String>,
    },

    /// The backend has devices, but not one with the requested index.
    #[error("{choice} does not exist, found: {}", found.join(", "))]
    Index {
        /// Requested device.
        choice: DeviceChoice,
        /// Titles of the backend's devices.
        found: Vec<String>,
    },

    /// The kernel's source does not compile.
    #[error("{device}: {name}{} does not compile:\n{log}", with_definitions(definitions))]
    Build {
        /// Device that it was compiled for.
        device: String,
        /// Kernel file.
        name: String,
        /// Compile-time definitions, for example "BLOCK_SIZE=256 TARGETS=4".
        definitions: String,
        /// Complete log of the compiler.
        log: String,
    },

    /// The module has no kernel of this name.
    #[error("{device}: {module} has no kernel '{name}'")]
    Kernel {
        /// Device of the module.
        device: String,
        /// Kernel file.
        module: String,
        /// Requested kernel.
        name: String,
    },

    /// A kernel could not be launched, or (with ORRERY_DEBUG=1) failed while it ran.
    #[error("{device}: kernel {kernel}, {grid} block{} of {block} threads: {message}", plural(*grid))]
    Launch {
        /// Device of the launch.
        device: String,
        /// Name of the kernel.
        kernel: String,
        /// Requested number of blocks.
        grid: Dim3,
        /// Requested threads per block.
        block: Dim3,
        /// Message of the driver, or the reason for the rejection.
        message: String,
    },

    /// Another call to the driver failed.
    #[error("{device}: {call}{}: {message}", of_size(*size))]
    Call {
        /// Device of the call.
        device: String,
        /// Function of the driver.
        call: &'static str,
        /// Size of the memory or copy in bytes, for calls that have one.
        size: Option<u64>,
        /// Message of the driver.
        message: String,
    },

    /// The device has less free memory than requested.
    #[error("{device}: out of memory: {} needed, {} free", format_bytes(*needed), format_bytes(*free))]
    OutOfMemory {
        /// Device of the memory.
        device: String,
        /// Requested bytes.
        needed: u64,
        /// Free bytes.
        free: u64,
    },

    /// A slice or buffer has the wrong length.
    #[error("{device}: expected a buffer of {expected} elements, got {got}")]
    Length {
        /// Device of the buffer.
        device: String,
        /// Expected number of elements.
        expected: usize,
        /// Actual number of elements.
        got: usize,
    },

    /// A range reaches beyond its buffer, or ends before it starts.
    #[error("{device}: elements {start}..{end} of a buffer of {len} elements")]
    Range {
        /// Device of the buffer.
        device: String,
        /// First element of the range.
        start: usize,
        /// End of the range.
        end: usize,
        /// Number of elements.
        len: usize,
    },

    /// A buffer, kernel or event is used on a device that it does not belong to.
    #[error("{what} of {owner} cannot be used on {device}")]
    WrongDevice {
        /// The object, for example "a buffer", "kernel gravity" or "an event".
        what: String,
        /// Device of the object.
        owner: String,
        /// Device on which it was used.
        device: String,
    },
}

fn with_definitions(definitions: &str) -> String {
    if definitions.is_empty() { String::new() } else { format!(" with {definitions}") }
}

fn of_size(size: Option<u64>) -> String {
    size.map_or_else(String::new, |size| format!(" of {}", format_bytes(size)))
}

fn plural(grid: Dim3) -> &'static str {
    if grid.count() == 1 { "" } else { "s" }
}

/// Formats a number of bytes with three digits and a binary unit, for example "1.50 MiB".
pub(crate) fn format_bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") };
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let table = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.00 KiB"),
            (10 * 1024, "10.0 KiB"),
            (999 * 1024, "999 KiB"),
            (1000 * 1024, "0.98 MiB"),
            (139 << 30, "139 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (count, text) in table {
            assert_eq!(format_bytes(count), text);
        }
    }

    #[test]
    fn messages_name_device_request_and_cause() {
        let device = "cuda:0 (NVIDIA H200)".to_owned();
        let out = DeviceError::OutOfMemory { device: device.clone(), needed: 380 << 30, free: 139 << 30 };
        assert_eq!(out.to_string(), "cuda:0 (NVIDIA H200): out of memory: 380 GiB needed, 139 GiB free");
        let launch = DeviceError::Launch {
            device: device.clone(),
            kernel: "gravity".to_owned(),
            grid: 16.into(),
            block: 4096.into(),
            message: "expected 1 to 1024 threads per block".to_owned(),
        };
        assert_eq!(
            launch.to_string(),
            "cuda:0 (NVIDIA H200): kernel gravity, 16 blocks of 4096 threads: expected 1 to 1024 threads per block"
        );
        let index = DeviceError::Index { choice: DeviceChoice::Cuda(Some(3)), found: vec![device.clone()] };
        assert_eq!(index.to_string(), "cuda:3 does not exist, found: cuda:0 (NVIDIA H200)");
        let build = DeviceError::Build {
            device,
            name: "direct.cu".to_owned(),
            definitions: "BLOCK_SIZE=256".to_owned(),
            log: "direct.cu(3): error".to_owned(),
        };
        let first = build.to_string();
        assert_eq!(
            first.lines().next(),
            Some("cuda:0 (NVIDIA H200): direct.cu with BLOCK_SIZE=256 does not compile:")
        );
    }
}
