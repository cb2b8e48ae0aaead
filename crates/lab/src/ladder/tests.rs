use super::*;

fn ladder() -> Ladder {
    let mut ladder = Ladder {
        title: "all-pairs gravity".into(),
        device: "cuda:0, NVIDIA H200".into(),
        n: 65_536,
        counted: "bodies",
        unit: Unit::Interactions,
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
        ["CPU one thread, scalar", "CPU all cores, SIMD", "one GPU thread", "one thread a body, structs"];
    for (k, rate) in rates.into_iter().enumerate() {
        let n = if k == 2 { 1024 } else { 65_536 };
        ladder.push(Measured {
            name: names.get(k).map_or_else(|| format!("rung {k} with a name that is long"), |&s| s.into()),
            n,
            seconds: (n * n) as f64 / rate,
            repeats: 10,
            rate,
            flops: Some(20.0 * rate),
            share_of_peak: Some(20.0 * rate / 66.9e12),
            intensity: Some(if k < 8 { 1.25 } else { 320.0 }),
            registers: Some(32),
            shared_bytes: Some(4096),
            occupancy: Some(0.75),
            error: Some(2.1e-5),
            course: (k > 3).then_some([7781.0, 0.96, 12_150.0]),
            ..Measured::default()
        });
    }
    ladder
}

#[test]
fn tables_fit_80_columns_and_stay_aligned() {
    let ladder = ladder();
    for lines in [figures(&ladder), hardware(&ladder)] {
        for line in &lines {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }
    let lines = figures(&ladder);
    let table: Vec<&String> = lines.iter().skip_while(|line| !line.starts_with("  rung")).collect();
    assert!(table.iter().take(14).all(|line| line.chars().count() == 80), "{table:#?}");
    assert_eq!(
        table[4].as_str(),
        "  one thread a body, structs     9.76 ms      440     13% 48889x   5500x  2.1e-5"
    );
    assert!(lines.iter().any(|line| line == "  one GPU thread: measured with 1,024 bodies"), "{lines:#?}");
    assert!(lines.contains(&"20 flops a pair, median of 10".to_owned()), "{lines:#?}");
}

#[test]
fn gains_are_of_rates() {
    let ladder = ladder();
    assert_eq!((ladder.rungs[0].gain, ladder.rungs[0].total_gain), (1.0, 1.0));
    let thread = &ladder.rungs[2];
    assert!((thread.gain - 9e6 / 2.7e9).abs() < 1e-12 && (thread.total_gain - 9.0 / 80.0).abs() < 1e-12);
}

#[test]
fn json_has_what_readers_rely_on() {
    let json = ladder().json();
    assert_eq!(json["device"], "cuda:0, NVIDIA H200");
    assert_eq!(json["n"], 65_536);
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
fn the_roofline_names_every_rung_once() {
    let svg = ladder().roofline().to_svg();
    for rung in &ladder().rungs {
        assert_eq!(svg.matches(&format!(">{}<", rung.name)).count(), 1, "{}", rung.name);
    }
    assert!(svg.contains("measured: 4.09 TB/s, 60.2 TFLOP/s"));
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

/// A device of which nothing is known still gets tables and a plot.
#[test]
fn unknown_figures_leave_dashes() {
    let mut bare = Ladder { roofs: Roofs::default(), rungs: Vec::new(), flops_per_unit: None, ..ladder() };
    bare.push(Measured { name: "only".into(), n: bare.n, seconds: 1.0, rate: 1e9, ..Measured::default() });
    assert!(figures(&bare).iter().any(|line| line.ends_with("1x      1x       -")), "{:#?}", figures(&bare));
    assert!(!bare.roofline().to_svg().contains("NaN"));
}

/// Rates of trees are in millions, and what the rungs have in common stands above them.
#[test]
fn a_tree_counts_millions_of_bodies() {
    let mut tree = Ladder { unit: Unit::Bodies, remarks: &["all with theta = 0.5"], ..ladder() };
    tree.rungs[0].rate = 1.87e8;
    let lines = figures(&tree);
    assert!(lines.contains(&"all with theta = 0.5".to_owned()), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(" Mbody/s ")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("     187 ")), "{lines:#?}");
    assert_eq!(tree.json()["rungs"][0]["unit"], "bodies/s");
}
