//! Runs all ladders on an OpenCL device such as PoCL, and checks tables, JSON and plots.

use orrery_device::Backend;
use orrery_device::testing::test_devices;
use serde_json::{Value, json};

use super::*;

/// Tables and JSON of a ladder that ran on a device.
struct LadderOutput {
    text: String,
    json: Value,
}

impl LadderOutput {
    fn rungs(&self) -> &[Value] {
        self.json["rungs"].as_array().unwrap()
    }

    #[track_caller]
    fn rung(&self, name: &str) -> &Value {
        self.rungs().iter().find(|rung| rung["name"] == name).unwrap_or_else(|| panic!("no rung '{name}'"))
    }

    #[track_caller]
    fn check_texts(&self, expected: &[&str]) {
        for text in expected {
            assert!(self.text.contains(text), "{text}: {}", self.text);
        }
    }
}

/// Returns the first OpenCL device. `None` on a machine that has only CUDA devices or none.
fn opencl_device() -> Option<Device> {
    test_devices().into_iter().find(|device| device.properties().backend == Backend::OpenCl)
}

/// Runs a ladder and checks everything that all ladders have in common. The self-test compares the
/// results of the kernels. Here it is the tables, JSON and plots that are checked.
fn check_ladder(device: &Device, entry: &'static LadderEntry, n: usize) -> LadderOutput {
    let request = LadderRequest { device: Some(device), n, tuning: None, progress: &mut |_| {} };
    let ladder = entry.run(request).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    let lines = all_tables(&ladder);
    for line in &lines {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let output = LadderOutput { text: lines.join("\n"), json: ladder.to_json() };
    let LadderOutput { text, json } = &output;
    assert!(text.starts_with(&format!("{}, ", entry.title)), "{text}");
    assert!(lines.iter().any(|line| line.starts_with(&device.title())), "{text}");
    let is_cpu = device.properties().kind == DeviceKind::Cpu;
    assert_eq!(text.contains("\nThis device is the CPU, through OpenCL: "), is_cpu, "{text}");
    assert_eq!(json["device"], device.title());
    assert_eq!((json["ladder"].as_str(), json["n"].as_u64()), (Some(entry.name), Some(n as u64)));
    let count_of = |list: &Value| list.as_array().map_or(0, Vec::len);
    let values = count_of(&json["parameter"]["values"]);
    let reference_columns = count_of(&json["reference"]["columns"]);
    let svg = ladder.plot().to_svg();
    let rungs = output.rungs();
    assert!(rungs.len() > 5, "{json}");
    assert_eq!((&rungs[0]["gain"], &rungs[0]["total_gain"]), (&1.0.into(), &1.0.into()));
    for rung in rungs {
        let name = rung["name"].as_str().unwrap();
        let shown: String = name.chars().take(24).collect();
        assert!(lines.iter().any(|line| line.starts_with(&format!("  {shown}"))), "{name}: {text}");
        // The plot escapes the signs of comparisons.
        assert!(svg.contains(&name.replace('<', "&lt;").replace('>', "&gt;")), "{name}");
        assert_eq!(rung["unit"], entry.counted.rate_unit);
        for key in ["n", "seconds", "repeats", "rate", "gain", "total_gain"] {
            assert!(rung[key].as_f64().unwrap() > 0.0, "{key}: {rung}");
        }
        assert!([0, values].contains(&count_of(&rung["rates"])), "{rung}");
        assert_eq!(rung["value"].is_string(), count_of(&rung["rates"]) > 0, "{rung}");
        assert!([0, reference_columns].contains(&count_of(&rung["reference"])), "{rung}");
    }
    for plot in ladder.plots() {
        let svg = plot.to_svg();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{}", entry.name);
    }
    output
}

/// Checks the errors and roofs of the rungs.
fn check_errors_and_roofs(ladder: &str, rungs: &[Value]) {
    // The median error of a monopole at theta = 0.5 is below 1e-2. Rounding errors of f32 sums of
    // 256 terms are below 1e-4.
    let error_limit = match ladder {
        "direct" | "hybrid" => Some(1e-4),
        "tree" => Some(1e-2),
        // Pair terms in f32 have errors of about 1e-6, and pair forces cancel.
        "lj" => Some(1e-4),
        // Sums of 16 products of f32.
        "matmul" => Some(1e-6),
        // Sums of 64 terms of f32, relative to the sum of their magnitudes.
        "coulomb" => Some(1e-5),
        // Weights of the interpolation may have 8 fractional bits: 2^-8 per axis.
        "texture" => Some(8e-3),
        _ => None,
    };
    let has_flops_roof = error_limit.is_some() && ladder != "texture";
    let counts_flops =
        has_flops_roof || ["heat", "wave", "saxpy", "divergence", "occupancy"].contains(&ladder);
    for rung in rungs {
        let name = rung["name"].as_str().unwrap();
        let error = rung["error"].as_f64();
        assert_eq!(error.is_some(), error_limit.is_some() && !name.contains("addition"), "{rung}");
        assert!(error.zip(error_limit).is_none_or(|(error, limit)| error < limit), "{rung}");
        // Their roofs are rungs of a device.
        let has_no_roof = ["banks", "fences", "atomics"].contains(&ladder) && name.starts_with("CPU");
        assert_eq!(rung["share_of_roof"].is_f64(), !has_no_roof, "{rung}");
        assert_eq!(rung["flops"].is_f64(), counts_flops, "{rung}");
    }
}

/// Checks the gains and flops of the ladder of fluids, for 256 particles.
fn check_fluids(output: &LadderOutput) {
    output.check_texts(&[
        "21 per pair, 22 damped",
        "37 GFLOP/s",
        "422 GFLOP/s",
        "87%",
        "three errors",
        "dt² a / 2",
    ]);
    for (name, course) in [
        ("CPU, one thread, third law", 1.0),
        ("one thread per particle, if", 5.5),
        ("damped, without the if", 10.0),
    ] {
        assert_eq!(output.rung(name)["reference"], json!([course]), "{name}");
    }
    // Operations per particle: n times those of a pair, or half of them with the third law.
    for (name, flops) in [
        ("CPU, one thread, third law", 12.0 * 256.0),
        ("damped, without the if", 22.0 * 256.0),
        ("one division per pair", 21.0 * 256.0),
    ] {
        assert_eq!(output.rung(name)["flops_per_item"], flops, "{name}");
    }
    // 21 for each of 55.25 neighbours.
    for name in [
        "cells",
        "neighbour lists",
        "several threads per particle",
        "tuned default",
        "small system",
        "several steps per launch",
    ] {
        let flops = output.rung(name)["flops_per_item"].as_f64().unwrap();
        assert!((flops / (21.0 * 55.25) - 1.0).abs() < 1e-3, "{name}: {flops}");
    }
}

/// Checks that the ladder of waves compares two orders with the course.
fn check_waves(output: &LadderOutput) {
    output.check_texts(&[
        "41 flops per point",
        "Order 2 has 14 flops per point",
        "GB/s",
        "3,000 Mpt/s",
        "5/8 of the bytes",
    ]);
    assert_eq!(output.json["parameter"]["values"], json!(["8", "2"]));
    // Two on the CPU, five on the device.
    assert_eq!(output.rungs().len(), 7);
    for rung in output.rungs() {
        let rate = rung["rate"].as_f64().unwrap();
        assert!((rung["bytes_per_s"].as_f64().unwrap() / (16.0 * rate) - 1.0).abs() < 1e-12, "{rung}");
        assert!((rung["reference"][0].as_f64().unwrap() / (rate / 3e9) - 1.0).abs() < 1e-12, "{rung}");
    }
    assert_eq!(
        output.rung("marching planes")["note"],
        "a column of planes in registers; order 2: three planes cycle through registers"
    );
}

#[test]
fn every_ladder_runs_on_a_device() {
    let Some(device) = opencl_device() else { return };
    for entry in LADDERS {
        // The checks of fluids are those of 256 particles.
        let n = if entry.name == "lj" { 256 } else { entry.sizes.opencl_cpu / 16 };
        let output = check_ladder(&device, entry, n);
        match entry.name {
            "lj" => check_fluids(&output),
            "wave" => check_waves(&output),
            _ => {}
        }
        // Operations differ in what is known about them.
        if entry.name != "arithmetic" {
            check_errors_and_roofs(entry.name, output.rungs());
        }
    }
}
