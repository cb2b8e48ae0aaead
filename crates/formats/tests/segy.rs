//! SEG-Y: written headers, round trips, models, files that are refused, and damage.

use std::fs;
use std::path::Path;

use orrery_formats::{
    FieldValues, Limits, SegyModel, Seismogram, read_model_segy, read_seismograms_segy, write_seismogram_csv,
    write_seismogram_npy, write_seismograms_segy,
};
use orrery_model::Precision;
use orrery_model::rng::philox4x32_10;

/// Returns a shot with three receivers and four samples. All values are exact in f32.
fn shot(number: i32) -> Seismogram {
    Seismogram {
        shot: number,
        dt: 0.0005,
        start: -0.0125,
        source: [1000.5, -20.0, 7.25],
        receivers: vec![[900.0, -20.0, 0.0], [1000.5, 20.0, 0.0], [1100.25, -20.0, 150.0]],
        precision: Precision::Single,
        samples: (0..12).map(|k| f64::from(k) - 5.5).collect(),
    }
}

fn written(shots: &[Seismogram]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shot.sgy");
    write_seismograms_segy(&path, shots, &["CASE two-layer-shot".to_owned()]).unwrap();
    fs::read(&path).unwrap()
}

/// Reads bytes as a file and checks that an error is one line that starts with the path.
fn read_bytes<T>(
    read: fn(&Path, &Limits) -> Result<T, orrery_formats::IoError>,
    bytes: &[u8],
) -> Result<T, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shot.sgy");
    fs::write(&path, bytes).unwrap();
    read(&path, &Limits { memory: 2 << 20 }).map_err(|error| {
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        let start = format!("{}: ", path.display());
        message.strip_prefix(&start).expect("starts with the path").to_owned()
    })
}

fn read_shots(bytes: &[u8]) -> Result<Vec<Seismogram>, String> {
    read_bytes(read_seismograms_segy, bytes)
}

fn read_model(bytes: &[u8]) -> Result<SegyModel, String> {
    read_bytes(read_model_segy, bytes)
}

/// Stores big-endian bytes at a position of the standard, which counts from 1.
fn set(bytes: &mut [u8], position: usize, value: &[u8]) {
    bytes[position - 1..][..value.len()].copy_from_slice(value);
}

fn i16_at(bytes: &[u8], position: usize) -> i16 {
    i16::from_be_bytes([bytes[position - 1], bytes[position]])
}

fn i32_at(bytes: &[u8], position: usize) -> i32 {
    i32::from_be_bytes(bytes[position - 1..position + 3].try_into().unwrap())
}

#[test]
fn headers_have_the_fields_of_the_standard() {
    let bytes = written(&[shot(1), shot(2)]);
    assert_eq!(bytes.len(), 3600 + 6 * (240 + 16));
    // Interval, samples, format, length unit, revision 1.0, fixed length, no extended headers.
    let fields = [3217, 3221, 3225, 3255, 3501, 3503, 3505].map(|position| i16_at(&bytes, position));
    assert_eq!(fields, [500, 4, 5, 1, 0x100, 1, 0]);
    assert_eq!(i16_at(&bytes, 3213), 3);
    // The last receiver of the second shot.
    let trace = &bytes[3600 + 5 * 256..];
    let numbers = [1, 5, 9, 13, 17].map(|position| i32_at(trace, position));
    assert_eq!(numbers, [6, 6, 2, 3, 2]);
    // Offset, elevation of the receiver, depth of the source, source x, y, receiver x, y.
    let lengths = [37, 41, 49, 73, 77, 81, 85].map(|position| i32_at(trace, position));
    assert_eq!(lengths, [100, -15000, 725, 100_050, -2000, 110_025, -2000]);
    // Scalars, delay of -12.5 ms with its scalar, samples, interval.
    let shorts = [69, 71, 109, 215, 115, 117].map(|position| i16_at(trace, position));
    assert_eq!(shorts, [-100, -100, -125, -10, 4, 500]);
    let first = &bytes[3600..];
    assert_eq!((i32_at(first, 37), i32_at(&bytes[3856..], 37)), (-101, 40));
    let samples: Vec<f32> =
        first[240..256].chunks(4).map(|word| f32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(samples, [-5.5, -4.5, -3.5, -2.5]);
}

#[test]
fn seismograms_are_read_back() {
    let shots = [shot(1), Seismogram { source: [0.0, 0.0, 0.5], ..shot(7) }];
    assert_eq!(read_shots(&written(&shots)).unwrap(), shots);
}

/// An interval that is not a whole number of microseconds, and more samples than 16 bits count.
#[test]
fn rev_2_has_what_rev_1_cannot_store() {
    let uneven = Seismogram { dt: 612.372e-6, start: 0.0, ..shot(1) };
    let bytes = written(std::slice::from_ref(&uneven));
    assert_eq!((i16_at(&bytes, 3501), i16_at(&bytes, 3217), i16_at(&bytes, 3600 + 117)), (0x200, 612, 612));
    let found = read_shots(&bytes).unwrap().remove(0);
    assert!((found.dt - uneven.dt).abs() <= 1e-15 * uneven.dt, "{}", found.dt);
    assert_eq!(found.samples, uneven.samples);
    for samples in [32_767, 32_768, 65_535, 65_536] {
        let long = Seismogram {
            receivers: vec![[0.0; 3]],
            samples: (0..samples).map(|k| f64::from(k % 1000)).collect(),
            ..shot(1)
        };
        let bytes = written(std::slice::from_ref(&long));
        assert_eq!(bytes[3500], if samples > 32_767 { 2 } else { 1 });
        let expected = if samples > 65_535 { 0 } else { samples as u16 };
        assert_eq!(i16_at(&bytes, 3221) as u16, expected);
        assert_eq!(read_shots(&bytes).unwrap(), [long]);
    }
    // An ultrasonic experiment: the rounded interval is 0.
    let fast = Seismogram { dt: 1e-9, start: 0.0, ..shot(1) };
    let found = read_shots(&written(std::slice::from_ref(&fast))).unwrap().remove(0);
    assert!((found.dt - 1e-9).abs() <= 1e-24, "{}", found.dt);
}

#[test]
fn seismograms_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shot.sgy");
    let message = |shots: &[Seismogram]| {
        let error = write_seismograms_segy(&path, shots, &[]).unwrap_err().to_string();
        assert!(!path.exists());
        error.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    assert_eq!(message(&[]), "seismograms: got no shot, expected at least one");
    assert_eq!(
        message(&[shot(1), Seismogram { dt: 0.001, ..shot(2) }]),
        "shot 2: got 4 samples from -0.0125 s every 0.001 s, expected 4 samples from -0.0125 s every 0.0005 s"
    );
    for (wrong, expected) in [
        (Seismogram { receivers: vec![], ..shot(3) }, "receivers of shot 3: got none, expected at least one"),
        (
            Seismogram { samples: vec![0.0; 5], ..shot(3) },
            "samples of shot 3: got 5 values for 3 receivers, expected the same number for each, at least one",
        ),
        (
            Seismogram { dt: 0.0, ..shot(3) },
            "time between samples of shot 3: got 0, expected a positive number",
        ),
        (
            Seismogram { start: f64::NAN, ..shot(3) },
            "first time of shot 3: got NaN, expected a finite number",
        ),
        (
            Seismogram { source: [0.0, f64::INFINITY, 0.0], ..shot(3) },
            "positions of shot 3: got [0.0, inf, 0.0], expected finite numbers",
        ),
        (
            Seismogram { source: [1e14, 0.0, 0.0], ..shot(3) },
            "coordinates in m: got 1e14, expected at most 2.147483647e13 in a SEG-Y file",
        ),
    ] {
        assert_eq!(message(&[wrong]), expected);
    }
}

#[test]
fn tables_and_arrays_have_one_row_per_receiver_or_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shot.csv");
    let single = Seismogram { samples: (0..12).map(|k| f64::from(k) / 10.0).collect(), ..shot(1) };
    write_seismogram_csv(&path, &single).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        ["time,x=900 y=-20 depth=0,x=1000.5 y=20 depth=0,x=1100.25 y=-20 depth=150", "-0.0125,0,0.4,0.8"]
    );
    assert_eq!((lines.len(), lines[4]), (5, "-0.011000000000000001,0.3,0.7,1.1"));
    let path = folder.path().join("shot.npy");
    write_seismogram_npy(&path, &single).unwrap();
    let array = orrery_formats::read_field_npy(&path, &Limits::unbounded()).unwrap();
    assert_eq!((array.nx, array.ny, array.precision), (4, 3, Precision::Single));
    assert_eq!(array.values[5], f64::from(0.5f32));
}

#[test]
fn rows_of_a_run_become_traces() {
    // Three times, two receivers.
    let rows = [1.0f32, 10.0, 2.0, 20.0, 3.0, 30.0];
    let samples = Seismogram::samples_from_rows(FieldValues::Single(&rows), 2);
    assert_eq!(samples, [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    assert!(Seismogram::samples_from_rows(FieldValues::Double(&[]), 0).is_empty());
}

/// Returns a file with a trace for each pair of inline and crossline numbers, two samples each.
/// The x coordinate of the ensemble is 25 m times the crossline number, y 50 m times the inline.
fn model_bytes(numbers: &[(i32, i32)]) -> Vec<u8> {
    let traces = Seismogram {
        dt: 0.0125,
        start: 0.0,
        source: [0.0; 3],
        receivers: vec![[0.0; 3]; numbers.len()],
        samples: (0..2 * numbers.len()).map(|k| 1500.0 + k as f64).collect(),
        ..shot(1)
    };
    let mut bytes = written(&[traces]);
    for (k, &(inline, crossline)) in numbers.iter().enumerate() {
        let trace = &mut bytes[3600 + k * 248..];
        for (position, value) in [(181, 25 * crossline), (185, 50 * inline), (189, inline), (193, crossline)]
        {
            set(trace, position, &value.to_be_bytes());
        }
    }
    bytes
}

#[test]
fn traces_are_columns_of_a_section() {
    let model = read_model(&model_bytes(&[(1, 1), (1, 2), (1, 3)])).unwrap();
    assert_eq!(model.data.nodes, [3, 2, 1]);
    // The first row is the surface.
    assert_eq!(model.data.values, [1500.0, 1502.0, 1504.0, 1501.0, 1503.0, 1505.0]);
    assert_eq!(model.spacing, [Some(25.0), Some(12.5), None]);
    // One trace has no neighbour.
    let model = read_model(&model_bytes(&[(1, 1)])).unwrap();
    assert_eq!((model.data.nodes, model.spacing), ([1, 2, 1], [None, Some(12.5), None]));
}

/// A model that starts below the surface would be shifted upwards.
#[test]
fn a_model_with_a_delay_is_refused() {
    let mut bytes = model_bytes(&[(1, 1), (1, 2), (1, 3)]);
    for (trace, delay) in [(2, -4i16), (1, 200)] {
        set(&mut bytes[3600 + trace * 248..], 109, &delay.to_be_bytes());
        let expected = format!(
            "trace {}, first sample: got {delay} ms, expected 0: the first node of a model is at depth 0",
            trace + 1
        );
        assert_eq!(read_model(&bytes).unwrap_err(), expected);
    }
}

#[test]
fn inlines_and_crosslines_are_axes_of_a_volume() {
    // Crosslines vary slowest in the file, and inlines descend.
    let numbers = [(20, 5), (10, 5), (20, 6), (10, 6), (20, 7), (10, 7)];
    let model = read_model(&model_bytes(&numbers)).unwrap();
    assert_eq!(model.data.nodes, [3, 2, 2]);
    let surface = [1502.0, 1506.0, 1510.0, 1500.0, 1504.0, 1508.0];
    assert_eq!(model.data.values[..6], surface);
    assert_eq!(model.data.values[6..], surface.map(|value| value + 1.0));
    assert_eq!(model.spacing, [Some(25.0), Some(500.0), Some(12.5)]);
    assert_eq!(
        read_model(&model_bytes(&numbers[..5])).unwrap_err(),
        "traces: got 5 for 2 inlines and 3 crosslines, expected 6, one each"
    );
    assert_eq!(
        read_model(&model_bytes(&[(1, 1), (2, 1), (1, 2), (1, 1)])).unwrap_err(),
        "trace 4: got inline 1, crossline 1 as in trace 1, expected one trace per position"
    );
    assert_eq!(
        read_model(&model_bytes(&[(1, 1), (1, 2), (1, 5)])).unwrap_err(),
        "trace 2: got a distance of 25 from trace 1, expected equidistant traces, 50 on average"
    );
}

#[test]
fn all_formats_and_both_byte_orders_are_read() {
    let big = written(&[shot(1)]);
    // A trace of four equal samples.
    let samples_of = |code: i16, sample: &[u8]| {
        let mut bytes = big[..3840].to_vec();
        set(&mut bytes, 3225, &code.to_be_bytes());
        bytes.extend(sample.repeat(4));
        read_shots(&bytes).unwrap().remove(0).samples
    };
    assert_eq!(samples_of(1, &[0xc2, 0x76, 0xa0, 0x00]), [-118.625; 4]);
    assert_eq!(samples_of(2, &[0xff, 0xff, 0xff, 0xfe]), [-2.0; 4]);
    assert_eq!(samples_of(3, &[0x01, 0x00]), [256.0; 4]);
    // Swap every field that is read, and all samples.
    let mut little = big.clone();
    let mut swap = |start: usize, position: usize, width: usize| {
        little[start + position - 1..][..width].reverse();
    };
    for position in [3217, 3221, 3225, 3501, 3505] {
        swap(0, position, 2);
    }
    for start in (3600..big.len()).step_by(256) {
        for position in [9, 41, 45, 49, 73, 77, 81, 85, 181, 185, 189, 193] {
            swap(start, position, 4);
        }
        for position in [69, 71, 109, 115, 117, 215] {
            swap(start, position, 2);
        }
        (241..257).step_by(4).for_each(|position| swap(start, position, 4));
    }
    assert_eq!(read_shots(&little).unwrap(), [shot(1)]);
}

#[test]
fn extended_textual_headers_are_skipped() {
    let plain = written(&[shot(1)]);
    let mut bytes = plain[..3600].to_vec();
    set(&mut bytes, 3505, &2i16.to_be_bytes());
    bytes.extend([0x40; 6400]);
    bytes.extend(&plain[3600..]);
    assert_eq!(read_shots(&bytes).unwrap(), [shot(1)]);
    // Rev 0 does not have the field.
    set(&mut bytes, 3501, &[0, 0]);
    let error = read_shots(&bytes).unwrap_err();
    assert!(error.starts_with("trace 1, number of samples: got 16448, expected 4"), "{error}");
}

#[test]
fn inconsistent_headers_are_refused_with_a_clear_line() {
    let whole = written(&[shot(1)]);
    let trace = |k: usize, position: usize| 3600 + 256 * k + position;
    for (position, value, message) in [
        (
            3225,
            &[0, 8][..],
            "binary header, format code: got 8, expected 1 (IBM float), 2 (i32), 3 (i16) or 5 (IEEE f32)",
        ),
        (
            3225,
            &[0, 0],
            "binary header, format code: got 0, expected 1 (IBM float), 2 (i32), 3 (i16) or 5 (IEEE f32)",
        ),
        (3217, &[0, 0], "binary header, sample interval: got 0 us, expected a positive number"),
        (3221, &[0, 0], "binary header, number of samples: got 0, expected at least 1"),
        (3505, &[0xff, 0xff], "binary header, extended textual headers: got -1, expected their number"),
        (
            3505,
            &[0x7f, 0xff],
            "file: got 0 bytes after the headers, expected traces of 256 bytes, 4 samples of 4 each",
        ),
        (
            3221,
            &[0, 5],
            "file: got 768 bytes after the headers, expected traces of 260 bytes, 5 samples of 4 each",
        ),
        (trace(1, 115), &[0, 3], "trace 2, number of samples: got 3, expected 4, that of the binary header"),
        (
            trace(2, 117),
            &[1, 0],
            "trace 3, sample interval: got 256 us, expected 500 us, that of the binary header",
        ),
        (
            trace(2, 73),
            &[0, 0, 0, 0],
            "trace 3, source: got [0.0, -20.0, 7.25], expected [1000.5, -20.0, 7.25], that of shot 1",
        ),
        (trace(1, 109), &[0, 0], "trace 2, first time: got 0 s, expected -0.0125 s, that of shot 1"),
    ] {
        let mut bytes = whole.clone();
        set(&mut bytes, position, value);
        assert_eq!(read_shots(&bytes).unwrap_err(), message);
    }
    assert_eq!(
        read_shots(&whole[..3000]).unwrap_err(),
        "file: got 3000 bytes, expected at least 3600, the headers of SEG-Y"
    );
    assert_eq!(
        read_shots(&whole[..3600]).unwrap_err(),
        "file: got 0 bytes after the headers, expected traces of 256 bytes, 4 samples of 4 each"
    );
    // A trace header with empty fields is as good as one that repeats the binary header.
    let mut bytes = whole;
    set(&mut bytes, trace(1, 115), &[0; 4]);
    assert_eq!(read_shots(&bytes).unwrap(), [shot(1)]);
}

#[test]
fn memory_limit_is_checked_before_samples_are_read() {
    let long = Seismogram { receivers: vec![[0.0; 3]], samples: vec![0.5; 200_000], ..shot(1) };
    let error = read_shots(&written(&[long])).unwrap_err();
    assert_eq!(error, "200000 values need 3.1 MiB of memory, the limit is 2.0 MiB");
}

/// Cuts a file at every byte, and changes every byte. Any result is accepted except a panic or
/// values of another number.
#[test]
fn damaged_files_are_errors_or_data_of_the_announced_size() {
    let whole = model_bytes(&[(1, 1), (1, 2), (2, 1), (2, 2)]);
    let path = tempfile::tempdir().unwrap().keep().join("damaged.sgy");
    let limits = Limits { memory: 1 << 20 };
    let check = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let (shots, model) = (read_seismograms_segy(&path, &limits), read_model_segy(&path, &limits));
        let is_read = shots.is_ok();
        for shot in shots.into_iter().flatten() {
            assert_eq!(shot.samples.len(), shot.receivers.len() * shot.sample_count());
        }
        if let Ok(SegyModel { data, .. }) = &model {
            assert_eq!(data.values.len(), data.nodes.iter().product::<usize>());
        }
        for message in [model.map(drop).map_err(|error| error.to_string()).err()].into_iter().flatten() {
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        is_read
    };
    assert!(check(&whole));
    for length in 0..whole.len() {
        let is_whole_number_of_traces = length > 3600 && (length - 3600) % 248 == 0;
        assert_eq!(check(&whole[..length]), is_whole_number_of_traces, "cut at {length}");
    }
    for offset in 3200..whole.len() {
        let [random, ..] = philox4x32_10([offset as u32, 0, 0, 0], [7, 7]);
        for value in [0xff, whole[offset] ^ 1 << (random % 8)] {
            let mut changed = whole.clone();
            changed[offset] = value;
            check(&changed);
        }
    }
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
