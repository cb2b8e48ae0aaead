//! What may go wrong with a device: each message is one line that names the device, what was asked and the
//! driver's own word (a compiler's log, which has many lines, follows its line).

use thiserror::Error;

use crate::choice::DeviceChoice;

/// A fault of the machine or a device that is not there. `device` reads "cuda:0 (NVIDIA H200)".
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DeviceError {
    /// The word is none of those that name a device.
    #[error("{0:?} is no device; say auto, cpu, cuda, cuda:0, opencl or opencl:0")]
    BadChoice(String),

    /// Nothing of the kind asked for is here.
    #[error("{choice}: {}", notes.join("; "))]
    NoDevice {
        /// What was asked for.
        choice: DeviceChoice,
        /// Why there is nothing, as in [`crate::DeviceList::notes`].
        notes: Vec<String>,
    },

    /// There are some, but not so many.
    #[error("{choice} is not here; found: {}", found.join(", "))]
    Index {
        /// What was asked for.
        choice: DeviceChoice,
        /// The devices of that kind, each with its name.
        found: Vec<String>,
    },

    /// The kernel's source does not compile.
    #[error("{device}: {name}{} does not compile:\n{log}", with(definitions))]
    Build {
        /// Whose compiler said so.
        device: String,
        /// The kernel file.
        name: String,
        /// Its compile-time values: "BLOCK_SIZE=256 TARGETS=4".
        definitions: String,
        /// The compiler's log, whole.
        log: String,
    },

    /// The module has no kernel of this name.
    #[error("{device}: {module} has no kernel {name:?}")]
    Kernel {
        /// Where the module was built.
        device: String,
        /// The kernel file.
        module: String,
        /// What was looked for.
        name: String,
    },

    /// A kernel could not be started, or (with ORRERY_DEBUG=1) failed as it ran.
    #[error("{device}: kernel {kernel}, {groups} group{} of {group}: {word}", if *groups == 1 { "" } else { "s" })]
    Launch {
        /// Where.
        device: String,
        /// The kernel's name.
        kernel: String,
        /// Groups asked for.
        groups: u32,
        /// Threads a group asked for.
        group: u32,
        /// What the driver says.
        word: String,
    },

    /// Another call to the driver failed.
    #[error("{device}: {call}{}: {word}", of(*size))]
    Call {
        /// Where.
        device: String,
        /// The driver's function.
        call: &'static str,
        /// Bytes it was about, where it was about bytes.
        size: Option<u64>,
        /// What the driver says.
        word: String,
    },

    /// More memory is needed than the device has left.
    #[error("{device}: out of memory: {} needed, {} free", bytes(*needed), bytes(*free))]
    OutOfMemory {
        /// Where.
        device: String,
        /// Bytes asked for.
        needed: u64,
        /// Bytes that were free.
        free: u64,
    },

    /// A slice or buffer does not have the other's length.
    #[error("{device}: a buffer of {expected} elements meets one of {got}")]
    Length {
        /// Where the buffer is.
        device: String,
        /// Elements of the buffer.
        expected: usize,
        /// Elements of what it was to meet.
        got: usize,
    },

    /// A buffer, kernel or event is used on a device that it does not belong to.
    #[error("{what} of {owner} cannot be used on {device}")]
    WrongDevice {
        /// "a buffer", "kernel gravity", "an event".
        what: String,
        /// Where it belongs.
        owner: String,
        /// Where it was to be used.
        device: String,
    },
}

fn with(definitions: &str) -> String {
    if definitions.is_empty() { String::new() } else { format!(" with {definitions}") }
}

fn of(size: Option<u64>) -> String {
    size.map_or_else(String::new, |size| format!(" of {}", bytes(size)))
}

/// A number of bytes as people say it: three digits and a binary unit.
pub(crate) fn bytes(count: u64) -> String {
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
    fn bytes_have_three_digits() {
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
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn messages_read_well() {
        let device = "cuda:0 (NVIDIA H200)".to_owned();
        let out = DeviceError::OutOfMemory { device: device.clone(), needed: 380 << 30, free: 139 << 30 };
        assert_eq!(out.to_string(), "cuda:0 (NVIDIA H200): out of memory: 380 GiB needed, 139 GiB free");
        let launch = DeviceError::Launch {
            device: device.clone(),
            kernel: "gravity".to_owned(),
            groups: 16,
            group: 4096,
            word: "a group has at most 1024 threads".to_owned(),
        };
        assert_eq!(
            launch.to_string(),
            "cuda:0 (NVIDIA H200): kernel gravity, 16 groups of 4096: a group has at most 1024 threads"
        );
        let index = DeviceError::Index { choice: DeviceChoice::Cuda(Some(3)), found: vec![device.clone()] };
        assert_eq!(index.to_string(), "cuda:3 is not here; found: cuda:0 (NVIDIA H200)");
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
