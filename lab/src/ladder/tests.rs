use std::collections::HashSet;

use orrery_measure::timing::Times;

use super::*;

fn example_ladder() -> Ladder {
    let mut ladder = Ladder {
        roofs: Roofs {
            bandwidth: Some(4.09e12),
            flops: Some(60.2e12),
            theoretical_bandwidth: Some(4.8e12),
            theoretical_flops: Some(66.9e12),
            ..Roofs::default()
        },
        reference: Some(ReferenceTable {
            caption: "gain in the course".into(),
            columns: vec!["1.3".into(), "3.0".into()],
            legend: &["1.3: Quadro FX 5800"],
        }),
        remarks: vec!["all with eps = 0.01".into()],
        ..Ladder::new(&direct::LADDER, "cuda:0, NVIDIA H200".into(), 65_536)
    };
    ladder.roof = ladder.roofs.peak_roof();
    let rates =
        [8e7, 2.7e9, 9e6, 4.4e11, 4.3e11, 4.31e11, 7e11, 7e11, 8.8e11, 9.5e11, 1.5e12, 1.6e12, 1.7e12];
    let names =
        ["CPU one thread, scalar", "CPU all cores, SIMD", "one GPU thread", "one thread per body, structs"];
    for (index, rate) in rates.into_iter().enumerate() {
        let n = if index == 2 { 1024 } else { 65_536 };
        let long_name = || format!("rung {index} with a name that is long");
        let bytes = if index < 8 { 16.0 } else { 0.0625 };
        ladder.add_rung(RungResult {
            name: names.get(index).map_or_else(long_name, |&name| name.into()),
            n,
            seconds: (n * n) as f64 / rate,
            repeats: 10,
            rate,
            work: Work { flops: Some(20.0), bytes: Some(bytes) },
            roof: Some(66.9e12 / 20.0),
            registers: Some(32),
            shared_bytes: Some(4096),
            occupancy: Some(0.75),
            error: Some(2.1e-5),
            reference: if index > 3 { vec![7781.0, 0.96] } else { Vec::new() },
            ..RungResult::default()
        });
    }
    ladder
}

/// Returns runs of 2^28 bytes at a rate in GB/s. `None` for a rate of zero.
fn runs_at(gigabytes_per_s: f64) -> Option<TimedRuns> {
    let (n, items) = (1 << 26, f64::from(1 << 28));
    let times = Times::from_seconds(vec![items / (1e9 * gigabytes_per_s)]);
    (gigabytes_per_s > 0.0).then_some(TimedRuns { n, items, times })
}

fn example_sweep(shown: ShownValue) -> Ladder {
    let mut ladder = Ladder::new(&reduce::LADDER, "cuda:0, NVIDIA H200".into(), 1 << 26);
    ladder.roofs.bandwidth = Some(4.2e12);
    ladder.roof = ladder.roofs.copy_roof();
    let values = [32, 64, 128, 256, 512, 1024].map(|block| block.to_string()).to_vec();
    ladder.reference = Some(ReferenceTable {
        caption: "GB/s reported in the course".into(),
        columns: values.clone(),
        legend: &[],
    });
    ladder.parameter = Some(Parameter { name: "threads per block", values, shown });
    ladder.add_rung(RungResult::new("CPU, one thread", &runs_at(3.1).unwrap()));
    for (name, rates, reference) in [
        (
            "interleaved, divergent",
            [400.0, 512.6, 800.0, 1210.0, 1100.0, 0.0],
            vec![7.39, 12.57, 16.77, 14.67, 12.33, 9.05],
        ),
        ("vector loads, many items per thread", [2000.0, 3000.0, 3900.0, 4010.0, 4030.0, 4020.0], Vec::new()),
    ] {
        let result = RungResult::with_sweep(name, &rates.map(runs_at), shown).unwrap();
        ladder.add_rung(RungResult { roof: Some(4.2e12), reference, ..result });
    }
    ladder
}

#[track_caller]
fn check_lines(lines: &[String], expected: &[&str]) {
    for line in lines {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    for line in expected {
        assert!(lines.iter().any(|found| found == line), "expected {line:?} in\n{}", lines.join("\n"));
    }
}

#[test]
fn registry_entries_have_what_the_command_line_needs() {
    let names: HashSet<&str> = LADDERS.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), LADDERS.len());
    for entry in LADDERS {
        assert!(std::ptr::eq(find_ladder(entry.name).unwrap(), entry));
        assert!(entry.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", entry.name);
        assert!(entry.description.starts_with(|c: char| c.is_uppercase()), "{}", entry.description);
        assert!(!entry.description.ends_with('.'), "{}", entry.description);
        assert!(entry.counted.heading.len() <= 7, "{}", entry.counted.heading);
        assert!(entry.counted.rate_unit.ends_with("/s"), "{}", entry.counted.rate_unit);
        let DefaultSizes { gpu, opencl_cpu, host } = entry.sizes;
        assert!(gpu > 0 && opencl_cpu > 0 && host > 0 && (entry.host_bytes)(1) > 0, "{}", entry.name);
        assert_eq!(entry.sizes.for_device(None), host);
    }
    assert!(find_ladder("cube").is_none());
}

#[test]
fn tables_fit_80_columns_and_are_aligned() {
    check_lines(
        &all_tables(&example_ladder()),
        &[
            "all-pairs gravity, 65,536 bodies",
            "20 flops per pair, median of 10 runs",
            "of peak: f32 66.9 TFLOP/s (60.2 TFLOP/s measured); CPU and f64 peaks differ",
            "all with eps = 0.01",
            "  rung                                time Gpair/s of peak   gain  total  error",
            "  one thread per body, structs     9.76 ms     440     13% 48889x  5500x 2.1e-5",
            "  one GPU thread: measured with 1,024 bodies",
            "gain in the course",
            "  rung 12 with a name that is long  7781  0.960",
            "  1.3: Quadro FX 5800",
            "  rung 12 with a name that is long    32   4,096     75%    34000    106",
        ],
    );
}

#[test]
fn rates_over_a_parameter_have_a_table_and_the_fastest_is_marked() {
    check_lines(
        &all_tables(&example_sweep(ShownValue::Fastest)),
        &[
            "of copy: 4.20 TB/s, reads and writes counted",
            "time and gains: with the fastest threads per block (* below)",
            "  CPU, one thread                      86.6 ms  3.10        -     1x     1x",
            "  interleaved, divergent                222 µs  1210      29%   390x   390x",
            "GB/s by threads per block",
            "  interleaved, divergent                400   513   800  *1210   1100     -",
            "GB/s reported in the course",
            "  interleaved, divergent  7.39  12.6  16.8  14.7  12.3  9.05",
        ],
    );
    let first = all_tables(&example_sweep(ShownValue::First));
    check_lines(&first, &["time and gains: with the threads per block '32'"]);
    assert!(!first.iter().any(|line| line.contains('*')));
}

/// The sweep of a later ladder may have more values than fit next to each other.
#[test]
fn many_columns_are_printed_in_parts() {
    let mut ladder = example_sweep(ShownValue::First);
    let values: Vec<String> = (0..33).map(|offset| offset.to_string()).collect();
    let rates: Vec<_> = values.iter().map(|_| runs_at(123.0)).collect();
    ladder.parameter = Some(Parameter { name: "offset", values, shown: ShownValue::First });
    ladder.reference = None;
    ladder.rungs.truncate(1);
    ladder.add_rung(RungResult::with_sweep("copy", &rates, ShownValue::First).unwrap());
    let lines = all_tables(&ladder);
    check_lines(&lines, &["GB/s by offset"]);
    let table = lines.iter().skip_while(|line| *line != "GB/s by offset").skip(1);
    let headings: Vec<&str> =
        table.filter_map(|line| line.strip_prefix("  rung")).flat_map(str::split_whitespace).collect();
    assert_eq!(headings, (0..33).map(|offset| offset.to_string()).collect::<Vec<_>>());
    assert_eq!(lines.join(" ").matches(" 123").count(), 34);
}

#[test]
fn gains_are_ratios_of_rates() {
    let ladder = example_ladder();
    assert_eq!((ladder.rungs[0].gain, ladder.rungs[0].total_gain), (1.0, 1.0));
    let one_thread = &ladder.rungs[2];
    assert!((one_thread.gain - 9e6 / 2.7e9).abs() < 1e-12);
    assert!((one_thread.total_gain - 9.0 / 80.0).abs() < 1e-12);
}

#[test]
fn figures_of_a_rung_follow_from_its_rate_and_work() {
    let rung = RungResult {
        rate: 3.0,
        work: Work { flops: Some(20.0), bytes: Some(4.0) },
        roof: Some(12.0),
        ..RungResult::default()
    };
    assert_eq!((rung.flops(), rung.intensity(), rung.share_of_roof()), (Some(60.0), Some(5.0), Some(0.25)));
    let unknown = RungResult { work: Work { flops: Some(20.0), bytes: None }, roof: None, ..rung };
    assert_eq!((unknown.flops(), unknown.intensity(), unknown.share_of_roof()), (Some(60.0), None, None));
}

#[test]
fn a_sweep_without_the_shown_value_is_no_result() {
    let runs = [None, runs_at(2.0), runs_at(1.0)];
    let fastest = RungResult::with_sweep("", &runs, ShownValue::Fastest).unwrap();
    assert_eq!((fastest.value, fastest.rates.len(), fastest.rates[0]), (Some(1), 3, None));
    assert_eq!(RungResult::with_sweep("", &runs, ShownValue::First), None);
    assert_eq!(RungResult::with_sweep("", &[None, None], ShownValue::Fastest), None);
}

#[test]
fn json_has_the_same_keys_for_all_ladders() {
    let (ladder, sweep) = (example_ladder().to_json(), example_sweep(ShownValue::Fastest).to_json());
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&ladder), keys(&sweep));
    assert_eq!(keys(&ladder["rungs"][0]), keys(&sweep["rungs"][1]));
    assert_eq!((ladder["ladder"].as_str(), ladder["roof"]["name"].as_str()), (Some("direct"), Some("peak")));
    assert_eq!((ladder["n"].as_u64(), ladder["size_unit"].as_str()), (Some(65_536), Some("bodies")));
    assert_eq!(ladder["rungs"].as_array().unwrap().len(), 13);
    for rung in ladder["rungs"].as_array().unwrap() {
        assert_eq!((rung["unit"].as_str(), rung["value"].as_str()), (Some("interactions/s"), None));
        for key in ["seconds", "rate", "share_of_roof", "flops", "intensity", "error"] {
            assert!(rung[key].is_f64(), "{key}: {}", rung[key]);
        }
    }
    let vector_loads = &sweep["rungs"][2];
    assert_eq!(
        (vector_loads["value"].as_str(), vector_loads["unit"].as_str()),
        (Some("512"), Some("bytes/s"))
    );
    assert!((vector_loads["share_of_roof"].as_f64().unwrap() - 4030.0 / 4200.0).abs() < 1e-12);
    assert!(sweep["rungs"][1]["rates"][5].is_null() && vector_loads["flops"].is_null());
    assert_eq!(
        (sweep["parameter"]["name"].as_str(), &sweep["parameter"]["values"][5]),
        (Some("threads per block"), &"1024".into())
    );
    assert_eq!(sweep["rungs"][1]["reference"][2], 16.77);
}

#[test]
fn roofline_names_every_rung_once() {
    let svg = example_ladder().plot().to_svg();
    for rung in &example_ladder().rungs {
        assert_eq!(svg.matches(&format!(">{}<", rung.name)).count(), 1, "{}", rung.name);
    }
    assert!(svg.contains("measured: 4.09 TB/s, 60.2 TFLOP/s"));
    assert!(svg.contains("20 flops per pair"));
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

/// Ladders without operations or bytes show rates: over the parameter, or over the rungs.
#[test]
fn plots_of_rates_name_every_rung_once() {
    let over_values = example_sweep(ShownValue::Fastest);
    let mut over_names = over_values.clone();
    over_names.parameter.as_mut().unwrap().values =
        ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
    for (ladder, x_label) in [(over_values, "threads per block"), (over_names, "rung")] {
        let svg = ladder.plot().to_svg();
        for rung in &ladder.rungs {
            assert_eq!(svg.matches(&format!(">{}<", rung.name)).count(), 1, "{}", rung.name);
        }
        assert!(svg.contains(&format!(">{x_label}<")) && svg.contains(">GB/s<"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

/// Unknown peaks and errors must not break the table or the plot.
#[test]
fn unknown_values_are_left_out() {
    let mut bare = Ladder::new(&tree::LADDER, "cpu".into(), 1000);
    let rung = RungResult { name: "only".into(), n: 1000, seconds: 1.0, rate: 1e9, ..RungResult::default() };
    bare.add_rung(rung);
    let lines = all_tables(&bare);
    check_lines(&lines, &["  rung  time  Mbody/s  gain  total", "  only   1 s     1000    1x     1x"]);
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(!bare.plot().to_svg().contains("NaN"));
}

#[test]
fn every_ladder_has_rungs_of_the_cpu_without_a_device() {
    for entry in LADDERS {
        let mut ladder = Ladder::new(entry, "cpu".into(), 100);
        let mut request = LadderRequest { device: None, n: 100, tuning: None, progress: &mut |_| {} };
        (entry.measure)(&mut request, &mut ladder).unwrap();
        assert!(ladder.rungs[0].name.starts_with("CPU, "), "{}", entry.name);
        assert!(ladder.rungs.iter().any(|rung| rung.name.starts_with("CPU, one thread")), "{}", entry.name);
        assert!(ladder.rungs.iter().all(|rung| rung.name.starts_with("CPU")), "{}", entry.name);
    }
}
