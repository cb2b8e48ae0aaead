//! What the user may ask for.

use std::fmt;
use std::str::FromStr;

use crate::error::DeviceError;

/// Who drives a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// NVIDIA's driver and its run-time compiler.
    Cuda,
    /// Any OpenCL driver.
    OpenCl,
}

impl Backend {
    /// The word in front of a device's number: "cuda", "opencl".
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

/// Where to compute: "auto", "cpu", "cuda", "cuda:1", "opencl", "opencl:0".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device, else the first OpenCL GPU with f64, else the processor.
    #[default]
    Auto,
    /// The processor, without a device.
    Cpu,
    /// A CUDA device: this one, or the first.
    Cuda(Option<usize>),
    /// An OpenCL device: this one, or the first.
    OpenCl(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let bad = || DeviceError::BadChoice(text.to_owned());
        let (word, index) = match text.split_once(':') {
            None => (text, None),
            Some((word, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
                (word, Some(index.parse().map_err(|_| bad())?))
            }
            Some(_) => return Err(bad()),
        };
        match (word, index) {
            ("auto", None) => Ok(Self::Auto),
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", index) => Ok(Self::Cuda(index)),
            ("opencl", index) => Ok(Self::OpenCl(index)),
            _ => Err(bad()),
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
    fn each_form_reads_back() {
        let forms = ["auto", "cpu", "cuda", "cuda:0", "cuda:17", "opencl", "opencl:3"];
        for form in forms {
            assert_eq!(form.parse::<DeviceChoice>().unwrap().to_string(), form);
        }
        assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Cuda(Some(1))));
        assert_eq!("opencl".parse(), Ok(DeviceChoice::OpenCl(None)));
    }

    #[test]
    fn anything_else_is_named_with_what_is_allowed() {
        let bad =
            ["", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda:1:2", "cpu:0", "auto:0", ":0"];
        for text in bad {
            let message = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert_eq!(
                message,
                format!("{text:?} is no device; say auto, cpu, cuda, cuda:0, opencl or opencl:0")
            );
        }
        assert!("cuda:99999999999999999999".parse::<DeviceChoice>().is_err());
    }
}
