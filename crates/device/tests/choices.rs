//! Which device is taken, and what is said when there is none, or not that one. Machines that this one is
//! not are made in processes of their own: drivers hidden, or PoCL told to show two devices.

mod common;

use std::fs;

use common::{child, choice, devices, is_cuda, said};
use orrery_device::{Device, DeviceChoice, DeviceError, DeviceKind};

#[test]
fn every_device_opens_by_its_label_and_is_itself() {
    let devices = devices();
    for (i, device) in devices.iter().enumerate() {
        assert_eq!(Device::open(choice(device)).unwrap().as_ref(), Some(device));
        for (j, other) in devices.iter().enumerate() {
            assert_eq!(device == other, i == j);
        }
        let properties = device.properties();
        assert!(!properties.name.is_empty() && properties.name.trim() == properties.name);
        assert!(properties.memory > 0 && properties.sm_count > 0 && properties.max_block_size >= 64);
        assert!(properties.warp_size > 0 && properties.shared_bytes >= 16 << 10);
        assert!(!properties.driver.is_empty() && !properties.compiler.is_empty());
        assert_eq!(device.title(), format!("{} ({})", device.label(), properties.name));
        assert!(!device.can_reach(device));
    }
}

#[test]
fn auto_takes_a_gpu_or_nothing_and_cpu_takes_nothing() {
    assert_eq!(Device::open(DeviceChoice::Cpu), Ok(None));
    let is_good = |device: &&Device| {
        is_cuda(device) || (device.properties().kind == DeviceKind::Gpu && device.properties().has_f64)
    };
    assert_eq!(Device::open(DeviceChoice::Auto).unwrap().as_ref(), devices().iter().find(is_good));
}

#[test]
fn a_number_that_is_not_there_is_told_what_is() {
    for device in devices() {
        let (word, _) = device.label().split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let asked: DeviceChoice = format!("{word}:99").parse().unwrap();
        let message = Device::open(asked).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{word}:99 is not here; found: ")), "{message}");
        assert!(message.contains(&device.title()), "{message}");
    }
}

#[test]
#[ignore = "run by the other tests"]
fn child_lists() {
    let listing = Device::list();
    for device in &listing.devices {
        println!("said: device {}", device.label());
    }
    for note in &listing.notes {
        println!("said: note {note}");
    }
    println!(
        "said: auto {:?}",
        Device::open(DeviceChoice::Auto).map(|device| device.map(|device| device.label()))
    );
    for choice in [DeviceChoice::Cuda(None), DeviceChoice::OpenCl(Some(1))] {
        if let Err(error) = Device::open(choice) {
            println!("said: {error}");
        }
    }
}

/// Libraries that cannot be loaded stand before those of the machine: no panic, a word for each.
#[test]
fn without_libraries_there_is_a_word_for_each() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libOpenCL.so.1", "libOpenCL.so", "libcuda.so", "libcuda.so.1"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let said = said(&child("child_lists", &[("LD_LIBRARY_PATH", folder.path().to_str().unwrap())]));
    let cuda = "no CUDA device: there is no NVIDIA driver here (libcuda cannot be loaded)";
    let opencl = "no OpenCL device: there is no OpenCL loader here (libOpenCL cannot be loaded)";
    assert_eq!(
        said,
        [
            format!("note {cuda}"),
            format!("note {opencl}"),
            "auto Ok(None)".to_owned(),
            format!("cuda: {cuda}"),
            format!("opencl:1: {opencl}")
        ]
    );
}

#[test]
fn without_drivers_there_is_a_word_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    let said = said(&child("child_lists", &[("OCL_ICD_VENDORS", empty), ("OCL_ICD_FILENAMES", "")]));
    if !said.iter().any(|line| line.contains("libOpenCL")) {
        assert!(
            said.contains(&"note no OpenCL device: no OpenCL driver is installed".to_owned()),
            "{said:?}"
        );
    }
}

#[test]
#[ignore = "run by `two_devices_keep_apart`"]
fn child_has_two() {
    let devices: Vec<_> = devices().into_iter().filter(|device| !is_cuda(device)).collect();
    let [a, b] = &devices[..] else { panic!("{devices:?}") };
    assert_ne!(a, b);
    let of_a = a.upload(&[1, 2, 3]).unwrap();
    let of_b = b.zeros::<i32>(3).unwrap();
    let definitions = [];
    let text = "KERNEL(32) f(GLOBAL int* x)\n{\n}\n";
    let kernel = a.build(&common::source(text, &definitions)).unwrap().kernel("f").unwrap();
    let says = |result: Result<(), DeviceError>| println!("said: {}", result.unwrap_err());
    says(a.queue().launch(&kernel, 1, 32, &[(&of_b).into()]));
    says(b.queue().launch(&kernel, 1, 32, &[(&of_b).into()]));
    says(a.queue().read(&of_b, &mut [0; 3]));
    says(a.queue().copy(&of_a, &of_b));
    says(b.queue().wait_for(&a.queue().record().unwrap()));
    says(b.queue().record().unwrap().seconds_since(&a.queue().record().unwrap()).map(|_| ()));
    says(a.enable_peer(b));
    assert!(!a.can_reach(b));
    // Both still work.
    assert_eq!((of_a.to_vec().unwrap(), of_b.to_vec().unwrap()), (vec![1, 2, 3], vec![0; 3]));
}

#[test]
fn two_devices_keep_apart() {
    let pocl = devices().iter().any(|device| device.properties().version.contains("PoCL"));
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(pocl || excused, "this test needs PoCL, which can show two devices");
    if !pocl {
        return;
    }
    let said = said(&child("child_has_two", &[("POCL_DEVICES", "pthread pthread")]));
    let starts = [
        "argument 1 of kernel f of opencl:1 (",
        "kernel f of opencl:0 (",
        "a buffer of opencl:1 (",
        "a buffer of opencl:1 (",
        "an event of opencl:0 (",
        "an event of opencl:0 (",
        "a buffer of opencl:1 (",
    ];
    assert_eq!(said.len(), starts.len(), "{said:?}");
    for (line, start) in said.iter().zip(starts) {
        assert!(line.starts_with(start) && line.contains(" cannot be used on opencl:"), "{line}");
    }
}
