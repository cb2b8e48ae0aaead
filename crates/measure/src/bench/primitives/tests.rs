use super::verify::first_difference;
use super::*;

#[test]
fn every_primitive_is_correct_and_timed_on_the_cpu() {
    let bench = BenchPlace::new(None, Some(3)).unwrap();
    for primitive in PRODUCTION_CASES {
        let result = bench.measure_primitive(primitive, 20_011).unwrap();
        assert!(result.times.fastest() > 0.0 && result.times.count() == 3, "{result:?}");
        assert_eq!(result.share_of_copy(), None, "{result:?}");
    }
}

#[test]
fn every_primitive_is_correct_and_timed_on_a_device() {
    let Some(device) = crate::test_device() else { return };
    let bench = BenchPlace::new(Some(&device), Some(2)).unwrap();
    for (primitive, n) in
        PRODUCTION_CASES.into_iter().flat_map(|primitive| [(primitive, 1), (primitive, 5001)])
    {
        let result = bench.measure_primitive(primitive, n).unwrap();
        assert_eq!((result.n, result.times.count()), (primitive.measured_size(n), 2));
        assert_eq!(result.share_of_copy().is_some(), result.to_json()["unit"] == "bytes/s", "{result:?}");
    }
}

#[test]
fn every_candidate_is_measured_and_named() {
    let bench = BenchPlace::new(None, Some(1)).unwrap();
    for primitive in PRODUCTION_CASES {
        let results = bench.measure_candidates(primitive, 1000).unwrap();
        let names: Vec<String> = results.iter().filter_map(|result| result.strategy.clone()).collect();
        assert_eq!(names, primitive.candidate_names(), "{primitive:?}");
    }
}

#[test]
fn rates_count_the_bytes_that_must_move() {
    let times = Times::from_seconds(vec![3.0, 2.0, 1.0]);
    let result = |primitive| {
        let (times, copy) = (times.clone(), Some(1000.0));
        PrimitiveMeasurement { primitive, strategy: None, n: 100, times, copy }
    };
    assert_eq!(result(SUM_F32).bytes_per_s(), Some(200.0));
    assert_eq!(result(SCAN_U32).share_of_copy(), Some(0.4));
    let sort = result(SORT_U64).to_json();
    assert_eq!((sort["rate"].as_f64(), sort["unit"].as_str()), (Some(50.0), Some("keys/s")));
    assert!(sort["share_of_copy"].is_null() && sort["slowest"] == 3.0);
    assert_eq!((sort["case"].as_str(), sort["input"].as_str()), (Some("sort"), Some("u64 + u32")));
}

#[test]
fn error_of_a_wrong_result_is_one_line() {
    let error = PrimitiveError::WrongResult {
        device: "cuda:0 (NVIDIA H200)".to_owned(),
        name: "scan",
        input: "f32",
        n: 10,
        difference: first_difference(&[1.0], &[2.0]).unwrap(),
    };
    assert_eq!(
        error.to_string(),
        "cuda:0 (NVIDIA H200): scan of 10 elements (f32): result 0 is 1, expected 2"
    );
}

#[test]
fn sums_of_the_random_floats_are_exact() {
    let numbers: Vec<f32> = random_elements(1 << 20, small_whole_number);
    let (mut lowest, mut highest, mut sum) = (0i64, 0i64, 0i64);
    for &number in &numbers {
        assert!(number.fract() == 0.0 && number.abs() <= 8.0);
        sum += number as i64;
        (lowest, highest) = (lowest.min(sum), highest.max(sum));
    }
    // A random walk with a standard deviation of √24 per step: five standard deviations after 2^20
    // steps are 2^14.6.
    assert!(lowest > -(1 << 15) && highest < 1 << 15, "{lowest} {highest}");
}
