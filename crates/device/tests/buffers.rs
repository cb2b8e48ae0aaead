//! Copies between host and device, on every device.

use crate::common::{self, test_file};
use orrery_device::testing::{random_bits, test_devices};
use orrery_device::{Arg, Device, DeviceError, Element, Math};

const LENGTHS: [usize; 8] = [0, 1, 2, 3, 31, 257, 1000, 65_537];

fn round_trip<T: Element>(device: &Device, make: fn(u64) -> T) {
    for len in LENGTHS {
        let data: Vec<T> = (0..len as u64).map(|i| make(random_bits(i))).collect();
        let buffer = device.upload(&data).unwrap();
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        assert_eq!(buffer.to_vec().unwrap(), data, "{buffer:?}");

        let other = device.zeros::<T>(len).unwrap();
        assert_eq!(other.to_vec().unwrap(), vec![T::default(); len], "{other:?}");
        device.queue().copy(&buffer, &other).unwrap();
        assert_eq!(other.to_vec().unwrap(), data, "{other:?}");

        let reversed: Vec<T> = data.iter().rev().copied().collect();
        let mut pinned = device.pinned::<T>(len).unwrap();
        pinned.copy_from_slice(&reversed);
        let event = device.queue().write_async(&buffer, &mut pinned).unwrap();
        // Waits for the copy, so it does not change what is copied.
        pinned.fill(T::default());
        assert!(event.is_done().unwrap());
        assert_eq!(buffer.to_vec().unwrap(), reversed, "{buffer:?}");

        device.queue().write(&buffer, &data).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), data, "{buffer:?}");
        device.queue().write(&buffer, &reversed).unwrap();
        let mut pinned = device.pinned::<T>(len).unwrap();
        assert_eq!(*pinned, vec![T::default(); len]);
        let event = device.queue().read_async(&buffer, &mut pinned).unwrap();
        event.wait().unwrap();
        assert!(event.is_done().unwrap());
        assert_eq!(*pinned, reversed, "{pinned:?}");
    }
}

#[test]
fn every_element_type_is_copied_unchanged() {
    for device in test_devices() {
        round_trip::<f32>(&device, |bits| (bits >> 40) as f32 - 1e5);
        round_trip::<f64>(&device, |bits| bits as f64 - 1e18);
        round_trip::<u8>(&device, |bits| bits as u8);
        round_trip::<u32>(&device, |bits| bits as u32);
        round_trip::<i32>(&device, |bits| bits as i32);
        round_trip::<u64>(&device, |bits| bits);
        round_trip::<i64>(&device, |bits| bits as i64);
        round_trip::<[f32; 4]>(&device, |bits| [bits as f32, 1.0, -2.0, (bits >> 9) as f32]);
        round_trip::<[f64; 4]>(&device, |bits| [bits as f64, 1.0, -2.0, (bits >> 9) as f64]);
    }
}

#[test]
fn a_wrong_length_gives_an_error() {
    for device in test_devices() {
        let buffer = device.upload(&[1.0, 2.0, 3.0]).unwrap();
        let other = device.zeros::<f64>(4).unwrap();
        let mut pinned = device.pinned::<f64>(4).unwrap();
        let queue = device.queue();
        let expected = DeviceError::Length { device: device.title(), expected: 3, got: 4 };
        assert_eq!(queue.write(&buffer, &[0.0; 4]), Err(expected.clone()));
        assert_eq!(queue.read(&buffer, &mut [0.0; 4]), Err(expected.clone()));
        assert_eq!(queue.read_async(&buffer, &mut pinned).unwrap_err(), expected);
        assert_eq!(queue.write_async(&buffer, &mut pinned).unwrap_err(), expected);
        assert_eq!(queue.copy(&other, &buffer), Err(expected.clone()));
        let message = format!("{}: expected a buffer of 3 elements, got 4", device.title());
        assert_eq!(expected.to_string(), message);
        assert_eq!(buffer.to_vec().unwrap(), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn copies_may_use_the_first_elements_of_pinned_memory() {
    for device in test_devices() {
        let (buffer, queue) = (device.upload(&[1u32, 2, 3]).unwrap(), device.queue());
        let mut pinned = device.pinned::<u32>(5).unwrap();
        pinned.copy_from_slice(&[9; 5]);
        queue.read_async(&buffer, pinned.first(3)).unwrap();
        assert_eq!(*pinned, [1, 2, 3, 9, 9]);
        queue.write_async(buffer.range(1..3).unwrap(), pinned.first(2)).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 1, 2]);
        assert!(queue.read_async(&buffer, pinned.first(2)).is_err());
    }
}

#[test]
#[should_panic(expected = "expected at most 5 elements, got 6")]
fn pinned_memory_has_no_elements_behind_its_end() {
    let mut pinned = test_devices()[0].pinned::<u32>(5).unwrap();
    let _ = pinned.first(6);
}

/// Reads, writes and drops of pinned memory wait for a running copy.
#[test]
fn pinned_memory_waits_for_its_copy() {
    for device in test_devices() {
        let data: Vec<u64> = (0..2_000_000).map(random_bits).collect();
        let buffer = device.upload(&data).unwrap();
        for _ in 0..5 {
            let mut pinned = device.pinned::<u64>(data.len()).unwrap();
            let _ = device.queue().read_async(&buffer, &mut pinned).unwrap();
            drop(pinned);
            let mut pinned = device.pinned::<u64>(data.len()).unwrap();
            let _ = device.queue().read_async(&buffer, &mut pinned).unwrap();
            assert!(*pinned == data[..], "read before the copy was done");
            let _ = device.queue().read_async(&buffer, &mut pinned).unwrap();
            pinned[0] = 1;
            assert_eq!((pinned[0], pinned[1]), (1, data[1]));
        }
    }
}

/// Pieces of one allocation are copied by two queues at the same time, and each waits for its copy.
#[test]
fn pieces_of_pinned_memory_are_copied_independently() {
    for device in test_devices() {
        let queues = [device.new_queue().unwrap(), device.new_queue().unwrap()];
        for (len, piece_len, expected) in [
            (100_000, 30_000, &[30_000, 30_000, 30_000, 10_000][..]),
            (7, 7, &[7]),
            (7, 100, &[7]),
            (0, 1, &[]),
        ] {
            let data: Vec<u64> = (0..len as u64).map(random_bits).collect();
            let buffer = device.zeros::<u64>(len).unwrap();
            let mut pinned = device.pinned::<u64>(len).unwrap();
            pinned.copy_from_slice(&data);
            let mut pieces = pinned.into_pieces(piece_len);
            assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), expected);
            let range_of = |i: usize, n: usize| buffer.range(i * piece_len..i * piece_len + n).unwrap();
            for (i, piece) in pieces.iter_mut().enumerate() {
                queues[i % 2].write_async(range_of(i, piece.len()), piece).unwrap();
            }
            queues.iter().for_each(|queue| queue.finish().unwrap());
            assert!(buffer.to_vec().unwrap() == data, "{len} in pieces of {piece_len}");
            for (i, piece) in pieces.iter_mut().enumerate() {
                piece.fill(0);
                queues[i % 2].read_async(range_of(i, piece.len()), piece).unwrap();
            }
            // The first piece is dropped while the others are in use.
            let rest = pieces.split_off(pieces.len().min(1));
            drop(pieces);
            for (i, piece) in rest.iter().enumerate() {
                let first = (i + 1) * piece_len;
                assert!(**piece == data[first..first + piece.len()], "piece {i}");
            }
        }
    }
}

/// Sizes that no machine has are rejected before anything is allocated.
#[test]
fn out_of_memory_error_has_needed_and_free_bytes() {
    for device in test_devices() {
        let held = device.held_bytes();
        let memory = device.memory().unwrap();
        assert!(memory.free <= memory.total && memory.total > 0, "{memory:?}");
        for len in [1_000_000_000_000_000, usize::MAX] {
            match device.zeros::<u8>(len) {
                Err(DeviceError::OutOfMemory { device: name, needed, free }) => {
                    assert_eq!((name, needed), (device.title(), len as u64));
                    assert!(free > 0 && free <= memory.total, "{free}");
                }
                other => panic!("{other:?}"),
            }
        }
        let message = device.zeros::<f64>(125_000_000_000_000).unwrap_err().to_string();
        let start = format!("{}: out of memory: 909 TiB needed, ", device.title());
        assert!(message.starts_with(&start) && message.ends_with(" free"), "{message}");
        assert!(device.pinned::<u8>(usize::MAX).is_err());
        assert!(device.pinned::<f64>(1 << 61).is_err());
        assert!(device.held_bytes() <= held + (64 << 20), "rejected buffers are not counted");
    }
}

/// Runs in a separate process, because other tests allocate buffers too.
#[test]
#[ignore = "run by `held_bytes_count_existing_buffers`"]
fn child_counts_held_bytes() {
    for device in test_devices() {
        assert_eq!(device.held_bytes(), 0);
        let buffer = device.zeros::<f64>(1000).unwrap();
        let empty = device.zeros::<f32>(0).unwrap();
        assert_eq!(device.held_bytes(), 8000 + 4);
        drop(buffer);
        drop(empty);
        assert_eq!(device.held_bytes(), 0);
        assert!(device.zeros::<u8>(1_000_000_000_000_000).is_err());
        assert_eq!(device.held_bytes(), 0);
        println!("child: {}", device.label());
    }
}

#[test]
fn held_bytes_count_existing_buffers() {
    let lines = common::child_lines(&common::run_child("buffers::child_counts_held_bytes", &[]));
    assert_eq!(lines.len(), test_devices().len());
}

/// Several threads use buffers, queues and a kernel at the same time, each with other numbers.
#[test]
fn threads_can_share_a_device() {
    let text = "KERNEL(64) add(GLOBAL float* x, float amount, int n)\n{\n    int i = BLOCK_INDEX * 64 + THREAD;\n    \
                if (i < n)\n        x[i] += amount;\n}\n";
    for device in test_devices() {
        let kernel = device.build(&test_file(text), &[], Math::Precise).unwrap().kernel("add").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (device, kernel) = (device.clone(), kernel.clone());
                scope.spawn(move || {
                    let thread_queue = device.new_queue().unwrap();
                    for round in 0..20 {
                        let n = 100 + 37 * thread + round;
                        let buffer = device.upload(&vec![thread as f32; n]).unwrap();
                        let amount = (thread + 10) as f32;
                        let queue = if round % 2 == 0 { &thread_queue } else { device.queue() };
                        let args = [Arg::from(&buffer), amount.into(), (n as i32).into()];
                        queue.launch(&kernel, n.div_ceil(64) as u32, 64, &args).unwrap();
                        let mut host = vec![0.0; n];
                        queue.read(&buffer, &mut host).unwrap();
                        assert_eq!(host, vec![thread as f32 + amount; n]);
                    }
                });
            }
        });
    }
}

#[test]
fn copies_of_ranges_leave_the_rest_unchanged() {
    for device in test_devices() {
        let queue = device.queue();
        let data: Vec<u32> = (0..100).collect();
        let buffer = device.upload(&data).unwrap();
        for (start, end) in [(0, 0), (0, 1), (3, 7), (50, 100), (99, 100), (0, 100), (100, 100)] {
            let range = buffer.range(start..end).unwrap();
            assert_eq!((range.len(), range.is_empty()), (end - start, start == end));
            let mut host = vec![0; end - start];
            queue.read(range, &mut host).unwrap();
            assert_eq!(host, data[start..end]);
            let mut pinned = device.pinned(end - start).unwrap();
            queue.read_async(range, &mut pinned).unwrap();
            assert_eq!(pinned[..], data[start..end]);

            let target = device.zeros::<u32>(100).unwrap();
            let mut expected = vec![0; 100];
            expected[start..end].copy_from_slice(&data[start..end]);
            queue.copy(range, target.range(start..end).unwrap()).unwrap();
            assert_eq!(target.to_vec().unwrap(), expected);
            expected[start..end].fill(7);
            queue.write(target.range(start..end).unwrap(), &vec![7; end - start]).unwrap();
            assert_eq!(target.to_vec().unwrap(), expected);
            expected[start..end].fill(8);
            pinned.fill(8);
            queue.write_async(target.range(start..end).unwrap(), &mut pinned).unwrap();
            assert_eq!(target.to_vec().unwrap(), expected);
        }
        let words = device.upload(&[[1.0f32, 2.0, 3.0, 4.0]; 2]).unwrap();
        let mut bits = [0u32; 4];
        queue.read(words.range(1..).unwrap().reinterpret().unwrap(), &mut bits).unwrap();
        assert_eq!(bits, [1.0f32, 2.0, 3.0, 4.0].map(f32::to_bits));
        let error = buffer.range(..3).unwrap().reinterpret::<f64>().unwrap_err().to_string();
        let expected = format!("{}: reinterpret of 12 bytes: expected a multiple of 8 bytes", device.title());
        assert_eq!(error, expected);
        let part = buffer.range(10..20).unwrap().range(2..=3).unwrap();
        let mut host = [0; 2];
        queue.read(part, &mut host).unwrap();
        assert_eq!(host, [12, 13]);
    }
}

#[test]
fn a_range_outside_its_buffer_gives_an_error() {
    for device in test_devices() {
        let buffer = device.zeros::<f32>(10).unwrap();
        let message =
            |start, end| format!("{}: elements {start}..{end} of a buffer of 10 elements", device.title());
        assert_eq!(buffer.range(5..11).unwrap_err().to_string(), message(5, 11));
        assert_eq!(buffer.range(11..).unwrap_err().to_string(), message(11, 10));
        let (start, end) = (7, 6);
        assert_eq!(buffer.range(start..end).unwrap_err().to_string(), message(7, 6));
        assert_eq!(buffer.range(..=usize::MAX).unwrap_err().to_string(), message(0, usize::MAX));
        assert!(buffer.range(2..5).unwrap().range(..4).is_err());
        let (first, second) = (buffer.range(0..4).unwrap(), buffer.range(3..7).unwrap());
        let error = device.queue().copy(first, second).unwrap_err().to_string();
        let expected = format!("{}: copy of 16 bytes: the two ranges of a copy overlap", device.title());
        assert_eq!(error, expected);
        device.queue().copy(first, buffer.range(4..8).unwrap()).unwrap();
    }
}

/// A kernel that gets a range sees its first element as element 0 and changes nothing outside.
#[test]
fn a_range_can_be_the_argument_of_a_kernel() {
    let text = "KERNEL(64) add(GLOBAL const float* from, GLOBAL float* to, int n)\n{\n    \
                int i = BLOCK_INDEX * 64 + THREAD;\n    if (i < n)\n        to[i] += from[i];\n}\n";
    for device in test_devices() {
        let add = device.build(&test_file(text), &[], Math::Precise).unwrap().kernel("add").unwrap();
        let step = device.properties().range_alignment / 4;
        let data: Vec<f32> = (0..6 * step).map(|i| i as f32).collect();
        let buffer = device.upload(&data).unwrap();
        // Both ranges are parts of one buffer.
        let (from, to) = (buffer.range(step..3 * step - 5).unwrap(), buffer.range(4 * step..).unwrap());
        let args = [from.into(), to.into(), (from.len() as i32).into()];
        for _ in 0..2 {
            device.queue().launch(&add, from.len().div_ceil(64) as u32, 64, &args).unwrap();
        }
        let mut expected = data.clone();
        for i in 0..from.len() {
            expected[4 * step + i] += 2.0 * data[step + i];
        }
        assert_eq!(buffer.to_vec().unwrap(), expected);

        let odd = buffer.range(1..).unwrap();
        let error = device.queue().launch(&add, 1, 64, &[odd.into(), to.into(), 1.into()]).unwrap_err();
        let expected = format!(
            "{}: kernel add, 1 block of 64 threads: argument 1: the range starts at byte 4, expected a multiple of {}",
            device.title(),
            4 * step
        );
        assert_eq!(error.to_string(), expected);
    }
}
