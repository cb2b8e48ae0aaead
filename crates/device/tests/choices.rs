//! Selection of a device, and the errors if there is none. Other machines are simulated in separate
//! processes: with hidden drivers, or with PoCL configured to have two devices.

use std::fs;

use crate::common::{self, child_lines, choice_of, is_cuda, run_child};
use orrery_device::testing::test_devices;
use orrery_device::{Device, DeviceChoice, DeviceError, DeviceKind};

#[test]
fn every_device_can_be_opened_by_its_label() {
    let devices = test_devices();
    for (i, device) in devices.iter().enumerate() {
        assert_eq!(Device::open(choice_of(device)).unwrap().as_ref(), Some(device));
        for (j, other) in devices.iter().enumerate() {
            assert_eq!(device == other, i == j);
        }
        let properties = device.properties();
        assert!(!properties.name.is_empty() && properties.name.trim() == properties.name);
        assert!(properties.memory > 0 && properties.sm_count > 0 && properties.max_block_size >= 64);
        assert!(properties.warp_size > 0 && properties.shared_bytes >= 16 << 10);
        let is_nvidia_driver = is_cuda(device) || properties.version.starts_with("OpenCL 3.0 CUDA");
        let is_pocl_on_cpu = properties.version.contains("PoCL") && properties.kind == DeviceKind::Cpu;
        assert!(properties.has_warp_shuffle || !is_nvidia_driver);
        assert!(!properties.has_warp_shuffle || !is_pocl_on_cpu);
        assert!(!properties.driver.is_empty() && !properties.compiler.is_empty());
        assert_eq!(device.title(), format!("{} ({})", device.label(), properties.name));
        assert!(!device.can_access(device));
    }
}

#[test]
fn auto_selects_a_gpu_or_the_cpu_and_cpu_selects_no_device() {
    assert_eq!(Device::open(DeviceChoice::Cpu), Ok(None));
    let is_suitable = |device: &&Device| {
        is_cuda(device) || (device.properties().kind == DeviceKind::Gpu && device.properties().has_f64)
    };
    assert_eq!(Device::open(DeviceChoice::Auto).unwrap().as_ref(), test_devices().iter().find(is_suitable));
}

/// The ranks of a computer get the devices of a backend in turn. An index selects the device
/// itself.
#[test]
fn ranks_get_the_devices_in_turn() {
    for device in test_devices() {
        let backend = device.properties().backend;
        let indices = Device::indices(backend).unwrap();
        let open = |index| Device::open(DeviceChoice::of_backend(backend, index)).unwrap();
        let open_for =
            |index, rank| Device::open_for_rank(DeviceChoice::of_backend(backend, index), rank).unwrap();
        for rank in 0..2 * indices.len() + 1 {
            assert_eq!(open_for(None, rank), open(Some(indices[rank % indices.len()])));
            let index = device.properties().index;
            assert_eq!(open_for(Some(index), rank).as_ref(), Some(&device));
        }
        assert_eq!(open_for(None, 0), open(None));
    }
    for rank in [0, 3] {
        assert_eq!(Device::open_for_rank(DeviceChoice::Cpu, rank), Ok(None));
    }
    assert_eq!(Device::open_for_rank(DeviceChoice::Auto, 0), Device::open(DeviceChoice::Auto));
}

#[test]
fn each_rank_of_a_device_has_a_queue() {
    for device in test_devices() {
        let of_rank = |rank| device.for_rank(rank).unwrap();
        let (first, second) = (of_rank(0), of_rank(1));
        assert!(first == device && second == device);
        assert!(std::ptr::eq(first.queue(), device.queue()));
        assert!(!std::ptr::eq(second.queue(), first.queue()));
        assert!(std::ptr::eq(second.queue(), of_rank(1).queue()));
        assert!(std::ptr::eq(second.for_rank(0).unwrap().queue(), first.queue()));
        // Buffers of a handle are read after the work of its queue.
        let (from, to) = (second.upload(&[7u32; 1000]).unwrap(), second.zeros(1000).unwrap());
        second.queue().copy(&from, &to).unwrap();
        assert_eq!(to.to_vec().unwrap(), [7; 1000]);
    }
}

#[test]
fn a_missing_index_gives_an_error_with_the_available_devices() {
    for device in test_devices() {
        let backend = device.properties().backend.as_str();
        let missing: DeviceChoice = format!("{backend}:99").parse().unwrap();
        let message = Device::open(missing).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{backend}:99 does not exist, found: ")), "{message}");
        assert!(message.contains(&device.title()), "{message}");
    }
}

#[test]
#[ignore = "run by the other tests"]
fn child_lists_devices() {
    let list = Device::list();
    for device in &list.devices {
        println!("child: device {}", device.label());
    }
    for note in &list.notes {
        println!("child: note {note}");
    }
    println!(
        "child: auto {:?}",
        Device::open(DeviceChoice::Auto).map(|device| device.map(|device| device.label()))
    );
    for choice in [DeviceChoice::Cuda(None), DeviceChoice::OpenCl(Some(1))] {
        if let Err(error) = Device::open(choice) {
            println!("child: {error}");
        }
    }
}

/// Files that cannot be loaded hide the libraries of the machine.
#[test]
fn missing_libraries_give_a_note_each() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libOpenCL.so.1", "libOpenCL.so", "libcuda.so", "libcuda.so.1"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let lines = child_lines(&run_child(
        "choices::child_lists_devices",
        &[("LD_LIBRARY_PATH", folder.path().to_str().unwrap())],
    ));
    let cuda = "no CUDA device: no NVIDIA driver is installed (libcuda cannot be loaded)";
    let opencl = "no OpenCL device: no OpenCL loader is installed (libOpenCL cannot be loaded)";
    assert_eq!(
        lines,
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
fn missing_opencl_drivers_give_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    let lines = child_lines(&run_child(
        "choices::child_lists_devices",
        &[("OCL_ICD_VENDORS", empty), ("OCL_ICD_FILENAMES", "")],
    ));
    if !lines.iter().any(|line| line.contains("libOpenCL")) {
        assert!(
            lines.contains(&"note no OpenCL device: no OpenCL driver is installed".to_owned()),
            "{lines:?}"
        );
    }
}

#[test]
#[ignore = "run by `objects_cannot_be_used_on_another_device`"]
fn child_uses_two_devices() {
    let devices: Vec<_> = test_devices().into_iter().filter(|device| !is_cuda(device)).collect();
    let [first, second] = &devices[..] else { panic!("{devices:?}") };
    assert_ne!(first, second);
    let on_first = first.upload(&[1, 2, 3]).unwrap();
    let on_second = second.zeros::<i32>(3).unwrap();
    let text = "KERNEL(32) f(GLOBAL int* x)\n{\n}\n";
    let kernel = first
        .build(&common::test_file(text), &[], orrery_device::Math::Precise)
        .unwrap()
        .kernel("f")
        .unwrap();
    let print_error = |result: Result<(), DeviceError>| println!("child: {}", result.unwrap_err());
    print_error(first.queue().launch(&kernel, 1, 32, &[(&on_second).into()]));
    print_error(second.queue().launch(&kernel, 1, 32, &[(&on_second).into()]));
    print_error(first.queue().read(&on_second, &mut [0; 3]));
    print_error(first.queue().copy(&on_first, &on_second));
    let event = first.queue().record().unwrap();
    print_error(second.queue().wait_for(&event));
    print_error(second.queue().record().unwrap().seconds_since(&event).map(|_| ()));
    print_error(first.enable_peer(second));
    assert!(!first.can_access(second));
    let mapped = second.mapped::<i32>(3).unwrap();
    print_error(first.queue().launch(&kernel, 1, 32, &[(&mapped).into()]));
    let rows = second.pitched::<i32>(3, 1).unwrap();
    print_error(first.queue().write_2d(&rows, &[0; 3]));
    print_error(second.queue().copy_2d(&rows, &first.pitched(3, 1).unwrap()));
    let text = "KERNEL(32) g(TEXTURE_1D(t))\n{\n}\n";
    let module = first.build(&common::test_file(text), &[], orrery_device::Math::Precise).unwrap();
    let texture = second.texture_1d(&[1.0]).unwrap();
    print_error(first.queue().launch(&module.kernel("g").unwrap(), 1, 32, &[(&texture).into()]));
    // Both devices still work, also at the same time.
    let results: Vec<Vec<i32>> = std::thread::scope(|scope| {
        let run = |device: &Device| {
            let text = "KERNEL(64) sum(GLOBAL int* x, int n)\n{\n    const int i = BLOCK_INDEX * 64 + THREAD;\n    \
                        if (i < n)\n        for (int k = 0; k <= i; k++)\n            x[i] += k;\n}\n";
            let module = device.build(&common::test_file(text), &[], orrery_device::Math::Precise).unwrap();
            let (sum, buffer) = (module.kernel("sum").unwrap(), device.zeros::<i32>(5000).unwrap());
            for _ in 0..10 {
                device.queue().launch(&sum, 79, 64, &[(&buffer).into(), 5000.into()]).unwrap();
            }
            buffer.to_vec().unwrap()
        };
        let threads = [first, second].map(|device| scope.spawn(move || run(device)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let expected: Vec<i32> = (0..5000).map(|i| 10 * (i * (i + 1) / 2)).collect();
    assert!(results.iter().all(|result| *result == expected));
    assert_eq!((on_first.to_vec().unwrap(), on_second.to_vec().unwrap()), (vec![1, 2, 3], vec![0; 3]));
}

#[test]
fn objects_cannot_be_used_on_another_device() {
    let has_pocl = test_devices().iter().any(|device| device.properties().version.contains("PoCL"));
    let may_be_missing = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(has_pocl || may_be_missing, "this test needs PoCL, which can have two devices");
    if !has_pocl {
        return;
    }
    let lines =
        child_lines(&run_child("choices::child_uses_two_devices", &[("POCL_DEVICES", "pthread pthread")]));
    let starts = [
        "argument 1 of kernel f of opencl:1 (",
        "kernel f of opencl:0 (",
        "a buffer of opencl:1 (",
        "a buffer of opencl:1 (",
        "an event of opencl:0 (",
        "an event of opencl:0 (",
        "a buffer of opencl:1 (",
        "argument 1 of kernel f of opencl:1 (",
        "an array of opencl:1 (",
        "an array of opencl:0 (",
        "argument 1 of kernel g of opencl:1 (",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start) && line.contains(" cannot be used on opencl:"), "{line}");
    }
}
