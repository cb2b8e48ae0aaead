//! Choice of a device by the user.

use std::fmt;
use std::str::FromStr;

use crate::error::DeviceError;

/// Interface to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// NVIDIA's CUDA driver and run-time compiler.
    Cuda,
    /// Any OpenCL driver.
    OpenCl,
}

impl Backend {
    /// Returns the prefix of device labels: "cuda" or "opencl".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::OpenCl => "opencl",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "CUDA",
            Self::OpenCl => "OpenCL",
        })
    }
}

/// Device to compute on: "auto", "cpu", "cuda", "cuda:1", "opencl" or "opencl:0".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device, else the first OpenCL GPU with f64, else the CPU.
    #[default]
    Auto,
    /// The CPU, without a device.
    Cpu,
    /// The CUDA device with this index, or the first.
    Cuda(Option<usize>),
    /// The OpenCL device with this index, or the first GPU, or the first device.
    OpenCl(Option<usize>),
}

impl DeviceChoice {
    /// Returns the choice of the device of a backend with this index, or of its first one.
    pub fn of_backend(backend: Backend, index: Option<usize>) -> Self {
        match backend {
            Backend::Cuda => Self::Cuda(index),
            Backend::OpenCl => Self::OpenCl(index),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::BadChoice(text.to_owned());
        let (name, index) = match text.split_once(':') {
            None => (text, None),
            Some((name, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                (name, Some(index.parse().map_err(|_| unknown())?))
            }
            Some(_) => return Err(unknown()),
        };
        match (name, index) {
            ("auto", None) => Ok(Self::Auto),
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", index) => Ok(Self::Cuda(index)),
            ("opencl", index) => Ok(Self::OpenCl(index)),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(index)) => write!(f, "cuda:{index}"),
            Self::OpenCl(None) => f.write_str("opencl"),
            Self::OpenCl(Some(index)) => write!(f, "opencl:{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_valid_name_is_parsed_and_printed() {
        let names = ["auto", "cpu", "cuda", "cuda:0", "cuda:17", "opencl", "opencl:3"];
        for name in names {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Cuda(Some(1))));
        assert_eq!("opencl".parse(), Ok(DeviceChoice::OpenCl(None)));
    }

    #[test]
    fn an_invalid_name_gives_an_error_with_the_valid_ones() {
        let invalid =
            ["", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda:1:2", "cpu:0", "auto:0", ":0"];
        for text in invalid {
            let message = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert_eq!(
                message,
                format!("'{text}' is not a device: expected auto, cpu, cuda, cuda:0, opencl or opencl:0")
            );
        }
        assert!("cuda:99999999999999999999".parse::<DeviceChoice>().is_err());
    }
}
