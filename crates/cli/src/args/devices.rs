//! The devices of a run: one, a list, or all of a kind.

use orrery_device::{Backend, Device, DeviceChoice, DeviceError};

/// Devices of a run. Several ranks compute on several devices, one rank per device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunDevices {
    /// One device, or the CPU. Ranks of MPI get devices without an index in turn.
    One(DeviceChoice),
    /// One rank per device of the list, which has at least two. A device may be named twice.
    List(Vec<DeviceChoice>),
    /// One rank per device of this backend.
    All(Backend),
}

impl RunDevices {
    /// Returns the devices of the ranks of this process, which no launcher started. There is at
    /// least one.
    pub fn of_threads(&self) -> Result<Vec<DeviceChoice>, DeviceError> {
        match self {
            Self::One(choice) => Ok(vec![*choice]),
            Self::List(choices) => Ok(choices.clone()),
            Self::All(backend) => {
                let indices = Device::indices(*backend)?;
                Ok(indices.into_iter().map(|index| DeviceChoice::of_backend(*backend, Some(index))).collect())
            }
        }
    }

    /// Returns the device of a process that a launcher started. The processes on a computer get the
    /// devices of a list in turn.
    pub fn of_process(&self, local_rank: usize) -> DeviceChoice {
        match self {
            Self::One(choice) => *choice,
            Self::List(choices) => choices[local_rank % choices.len()],
            Self::All(backend) => DeviceChoice::of_backend(*backend, None),
        }
    }
}

/// Parses the devices of a run, such as `auto`, `cuda:1`, `cuda:0,cuda:1` or `cuda:all`.
pub fn parse_run_devices(text: &str) -> Result<RunDevices, String> {
    match text {
        "cuda:all" => return Ok(RunDevices::All(Backend::Cuda)),
        "opencl:all" => return Ok(RunDevices::All(Backend::OpenCl)),
        _ => {}
    }
    let expected = || {
        "expected auto, cpu, cuda, cuda:0, opencl or opencl:0, or several such as cuda:0,cuda:1 or cuda:all"
            .to_owned()
    };
    let parse = |name: &str| name.parse::<DeviceChoice>().map_err(|_| expected());
    if !text.contains(',') {
        return parse(text).map(RunDevices::One);
    }
    let choices = text.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    if choices.contains(&DeviceChoice::Cpu) {
        return Err(
            "the CPU is not one of several devices; expected devices such as cuda:0,cuda:1, or cpu with \
                    --threads for its cores"
                .to_owned(),
        );
    }
    if choices.contains(&DeviceChoice::Auto) {
        return Err("auto is one device, expected devices such as cuda:0,cuda:1, or cuda:all".to_owned());
    }
    Ok(RunDevices::List(choices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_accepted_alone_in_lists_and_as_all_of_a_kind() {
        let [first, second] = [0, 1].map(|index| DeviceChoice::Cuda(Some(index)));
        for (text, devices) in [
            ("auto", RunDevices::One(DeviceChoice::Auto)),
            ("cpu", RunDevices::One(DeviceChoice::Cpu)),
            ("opencl:12", RunDevices::One(DeviceChoice::OpenCl(Some(12)))),
            ("cuda:all", RunDevices::All(Backend::Cuda)),
            ("opencl:all", RunDevices::All(Backend::OpenCl)),
            ("cuda:0,cuda:1", RunDevices::List(vec![first, second])),
            ("cuda:1,cuda:1,cuda:0", RunDevices::List(vec![second, second, first])),
            (
                "cuda,opencl:0",
                RunDevices::List(vec![DeviceChoice::Cuda(None), DeviceChoice::OpenCl(Some(0))]),
            ),
        ] {
            assert_eq!(parse_run_devices(text), Ok(devices), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_no_device_or_list_is_refused() {
        for text in
            ["", "gpu", "CPU", "cuda:", "cpu:0", "cpu:all", "all", "cuda:0,", ",cuda:0", "cuda:0 cuda:1"]
        {
            let message = parse_run_devices(text).unwrap_err();
            assert!(message.starts_with("expected auto, cpu, cuda, "), "{text:?}: {message}");
        }
        for text in ["cpu,cpu", "cuda:0,cpu"] {
            assert!(parse_run_devices(text).unwrap_err().contains("cpu with --threads"), "{text:?}");
        }
        assert!(parse_run_devices("auto,cuda:0").unwrap_err().starts_with("auto is one device"));
        // Names of all devices of a kind are not part of a list.
        assert!(parse_run_devices("cuda:all,cuda:0").is_err());
    }

    #[test]
    fn processes_get_the_devices_of_a_list_in_turn() {
        let devices = parse_run_devices("cuda:2,cuda:5").unwrap();
        let found = [0, 1, 2].map(|local_rank| devices.of_process(local_rank));
        assert_eq!(found, [2, 5, 2].map(|index| DeviceChoice::Cuda(Some(index))));
        assert_eq!(devices.of_threads(), Ok(vec![found[0], found[1]]));
        let all = RunDevices::All(Backend::Cuda);
        assert_eq!(all.of_process(1), DeviceChoice::Cuda(None));
    }
}
