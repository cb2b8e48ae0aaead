//! Check that the error of a faulting kernel is reported and names the kernel.
//!
//! A write to address 0 is the course's example of an error that the host has to ask for. On CUDA
//! the kernel fails after its launch, some later call reports it, and the context is lost: every
//! further call of the process fails. So the kernel runs in a child process, which is this program
//! with the same check. On OpenCL there is nothing to check. PoCL would end with a signal.

use std::process::{Command, Output};

use orrery_device::check::Check;
use orrery_device::{Backend, Device, DeviceChoice, DeviceError, Kernel, KernelFile, Math};

use super::device::{DeviceCheckResult, message_of};
use super::isolated::WorkerCommand;

// SAFETY: the kernel violates the contract on purpose: it writes to an address without a buffer. It
// is launched only in a child process, which has no other work and ends afterwards.
const FAULT: KernelFile = unsafe { KernelFile::new("fault.cu", include_str!("fault.cu")) };

const CHECK_NAME: &str = "device: the error of a faulting kernel names it";
/// Environment variable of the child: label of the device on which the kernel runs.
const CHILD_VARIABLE: &str = "ORRERY_FAULT_DEVICE";
/// Name of the kernel, as messages contain it.
const KERNEL_NAME: &str = "write_to_address";
/// CUDA's error code of a write to an invalid address.
const ERROR_NAME: &str = "CUDA_ERROR_ILLEGAL_ADDRESS";

/// Returns the check of this module.
pub fn checks() -> Vec<Check> {
    vec![Check { name: CHECK_NAME.to_owned(), run: check_fault }]
}

fn check_fault(device: &Device) -> DeviceCheckResult {
    if device.properties().backend != Backend::Cuda {
        return Ok(());
    }
    let build = || device.build(&FAULT, &[], Math::Precise)?.kernel(KERNEL_NAME);
    let kernel = build().map_err(message_of)?;
    if let Some(label) = std::env::var_os(CHILD_VARIABLE) {
        // This is the child. Its result is the error, which its parent finds in its output.
        return if label == *device.label() { Err(cause_fault(device, &kernel)) } else { Ok(()) };
    }
    let choice: DeviceChoice = device.label().parse().map_err(message_of)?;
    if !Device::open(choice).is_ok_and(|opened| opened.as_ref() == Some(device)) {
        return Err(format!("{}: another process cannot open this device", device.label()));
    }
    check_message(&run_child(device, true)?, &[&format!("kernel {KERNEL_NAME}"), ERROR_NAME])?;
    check_message(&run_child(device, false)?, &[ERROR_NAME, "ORRERY_DEBUG=1 names it"])
}

/// Writes to address 0 and returns the message of the error.
fn cause_fault(device: &Device, kernel: &Kernel) -> String {
    let queue = device.queue();
    let run = || -> Result<(), DeviceError> {
        queue.launch(kernel, 1, 1, &[0u64.into()])?;
        queue.finish()
    };
    run().map_or_else(message_of, |()| "a write to address 0 gave no error".to_owned())
}

/// Runs the faulting kernel in a child process and returns its output. With `waits`, the child
/// waits after each launch.
fn run_child(device: &Device, waits: bool) -> Result<String, String> {
    let label = device.label();
    let mut command = match WorkerCommand::of_this_worker() {
        Some(command) => command.worker(Some(&label), &[CHECK_NAME]),
        // In a test program, the arguments select tests with `selftest` in their name.
        None => test_program().map_err(|error| format!("child process: {error}"))?,
    };
    command.env(CHILD_VARIABLE, label).env("ORRERY_DEBUG", if waits { "1" } else { "0" });
    let Output { stdout, stderr, status } =
        command.output().map_err(|error| format!("child process: {error}"))?;
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if status.success() { Err("the child process did not fail".to_owned()) } else { Ok(text) }
}

/// Returns the command that runs the tests of this program with `selftest` in their name.
fn test_program() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["selftest", CHECK_NAME]).envs(orrery_device::child_environment());
    orrery_cluster::detach_from_launcher(&mut command);
    Ok(command)
}

/// Checks that one line of the output contains all texts.
fn check_message(output: &str, texts: &[&str]) -> DeviceCheckResult {
    if output.lines().any(|line| texts.iter().all(|text| line.contains(text))) {
        return Ok(());
    }
    let last = output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("expected a message with '{}', the child ended with '{last}'", texts.join("' and '")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_kernel_and_the_error() {
        let launch = DeviceError::Launch {
            device: "cuda:0 (NVIDIA H200)".to_owned(),
            kernel: KERNEL_NAME.to_owned(),
            grid: 1.into(),
            block: 1.into(),
            message: format!("an illegal memory access was encountered ({ERROR_NAME})"),
        };
        let named = format!("  FAILED {CHECK_NAME}: {launch}\nerror: 1 of 1 checks failed\n");
        let kernel = &format!("kernel {KERNEL_NAME}");
        assert_eq!(check_message(&named, &[kernel, ERROR_NAME]), Ok(()));
        // The kernel on one line and the error on another may belong to different errors.
        for other in [
            String::new(),
            named.replace(ERROR_NAME, "CUDA_ERROR_UNKNOWN"),
            named.replace(KERNEL_NAME, "scale"),
            named.replace(", 1 block", "\n"),
        ] {
            check_message(&other, &[kernel, ERROR_NAME]).unwrap_err();
        }
    }

    #[test]
    fn the_check_does_nothing_on_opencl() {
        for device in orrery_device::testing::test_devices() {
            if device.properties().backend == Backend::OpenCl {
                assert_eq!(check_fault(&device), Ok(()));
            }
        }
    }
}
