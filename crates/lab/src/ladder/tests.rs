use super::*;

fn example_ladder() -> Ladder {
    let mut ladder = Ladder {
        title: "all-pairs gravity".into(),
        device: "cuda:0, NVIDIA H200".into(),
        n: 65_536,
        size_unit: "bodies",
        unit: RateUnit::Interactions,
        flops_per_unit: Some(20.0),
        remarks: &[],
        roofs: Roofs {
            bandwidth: Some(4.09e12),
            flops: Some(60.2e12),
            theoretical_bandwidth: Some(4.8e12),
            theoretical_flops: Some(66.9e12),
        },
        rungs: Vec::new(),
    };
    let rates =
        [8e7, 2.7e9, 9e6, 4.4e11, 4.3e11, 4.31e11, 7e11, 7e11, 8.8e11, 9.5e11, 1.5e12, 1.6e12, 1.7e12];
    let names =
        ["CPU one thread, scalar", "CPU all cores, SIMD", "one GPU thread", "one thread per body, structs"];
    for (index, rate) in rates.into_iter().enumerate() {
        let n = if index == 2 { 1024 } else { 65_536 };
        let long_name = || format!("rung {index} with a name that is long");
        ladder.add_rung(RungResult {
            name: names.get(index).map_or_else(long_name, |&name| name.into()),
            n,
            seconds: (n * n) as f64 / rate,
            repeats: 10,
            rate,
            flops: Some(20.0 * rate),
            share_of_peak: Some(20.0 * rate / 66.9e12),
            intensity: Some(if index < 8 { 1.25 } else { 320.0 }),
            registers: Some(32),
            shared_bytes: Some(4096),
            occupancy: Some(0.75),
            error: Some(2.1e-5),
            course: (index > 3).then_some([7781.0, 0.96, 12_150.0]),
            ..RungResult::default()
        });
    }
    ladder
}

#[test]
fn tables_fit_80_columns_and_are_aligned() {
    let ladder = example_ladder();
    for lines in [results_table(&ladder), hardware_table(&ladder)] {
        for line in &lines {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }
    let lines = results_table(&ladder);
    let table: Vec<&String> = lines.iter().skip_while(|line| !line.starts_with("  rung")).collect();
    assert!(table.iter().take(14).all(|line| line.chars().count() == 80), "{table:#?}");
    assert_eq!(
        table[4].as_str(),
        "  one thread per body, structs    9.76 ms     440     13% 48889x   5500x  2.1e-5"
    );
    assert!(lines.iter().any(|line| line == "  one GPU thread: measured with 1,024 bodies"), "{lines:#?}");
    assert!(lines.contains(&"20 flops per pair, median of 10 runs".to_owned()), "{lines:#?}");
    let peak = "f32 peak: 66.9 TFLOP/s (60.2 TFLOP/s measured); CPU and f64 peaks differ";
    assert!(lines.contains(&peak.to_owned()), "{lines:#?}");
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
fn json_of_each_rung_has_its_unit_rate_and_error() {
    let json = example_ladder().to_json();
    assert_eq!(json["device"], "cuda:0, NVIDIA H200");
    assert_eq!((json["n"].as_u64(), json["size_unit"].as_str()), (Some(65_536), Some("bodies")));
    let rungs = json["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 13);
    for rung in rungs {
        assert_eq!(rung["unit"], "interactions/s");
        for key in ["seconds", "rate", "share_of_peak", "error"] {
            assert!(rung[key].is_f64(), "{key}: {}", rung[key]);
        }
        assert!(rung["name"].is_string());
    }
}

#[test]
fn roofline_names_every_rung_once() {
    let svg = example_ladder().roofline().to_svg();
    for rung in &example_ladder().rungs {
        assert_eq!(svg.matches(&format!(">{}<", rung.name)).count(), 1, "{}", rung.name);
    }
    assert!(svg.contains("measured: 4.09 TB/s, 60.2 TFLOP/s"));
    assert!(svg.contains("20 flops per pair"));
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

/// Unknown peaks and errors must not break the table or the plot.
#[test]
fn unknown_values_are_shown_as_dashes() {
    let mut bare =
        Ladder { roofs: Roofs::default(), rungs: Vec::new(), flops_per_unit: None, ..example_ladder() };
    let rung =
        RungResult { name: "only".into(), n: bare.n, seconds: 1.0, rate: 1e9, ..RungResult::default() };
    bare.add_rung(rung);
    let lines = results_table(&bare);
    assert!(lines.iter().any(|line| line.ends_with("1x      1x       -")), "{lines:#?}");
    assert!(!bare.roofline().to_svg().contains("NaN"));
}

#[test]
fn tree_rates_are_in_millions_of_bodies_and_remarks_follow_the_heading() {
    let mut tree = Ladder { unit: RateUnit::Bodies, remarks: &["all with theta = 0.5"], ..example_ladder() };
    tree.rungs[0].rate = 1.87e8;
    let lines = results_table(&tree);
    assert!(lines.contains(&"all with theta = 0.5".to_owned()), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(" Mbody/s ")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("    187 ")), "{lines:#?}");
    assert_eq!(tree.to_json()["rungs"][0]["unit"], "bodies/s");
}
