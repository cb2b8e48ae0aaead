//! Tests of the benchmarks of heat and waves, on an OpenCL device such as PoCL.

use crate::common::TestDir;
use crate::devices::{check_80_columns, has_no_device, read_json, stdout_of};

#[test]
fn bench_heat_runs_on_a_device_and_on_the_cpu() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    for (device, kind) in [("opencl", "opencl"), ("cpu", "cpu")] {
        let flags = ["-n", "40", "--precision", "single", "--device", device, "--repeats", "2"];
        let json = ["--force", "--json", "h.json"];
        let stdout = stdout_of(&dir, &[&["bench", "heat"][..], &flags, &json].concat());
        check_80_columns(&stdout);
        assert!(
            stdout.lines().any(|line| line.starts_with("    40    single uniform          1 ")),
            "{stdout}"
        );
        let all = read_json(&dir, "h.json");
        assert_eq!(all["device"]["kind"], kind);
        let results = all["results"].as_array().unwrap();
        // Uniform and per node, each with one and with several steps per pass.
        assert_eq!(results.len(), 4);
        for line in results {
            assert_eq!((line["n"].as_u64(), line["unit"].as_str()), (Some(40), Some("points/s")), "{line}");
            let rate = 1600.0 / line["seconds"].as_f64().unwrap();
            assert!((line["rate"].as_f64().unwrap() / rate - 1.0).abs() < 1e-12, "{line}");
        }
        assert_eq!(
            (results[0]["steps_per_pass"].as_u64(), &results[2]["conductivity"]),
            (Some(1), &"per node".into())
        );
        assert!(results[1]["steps_per_pass"].as_u64() > Some(1));
    }
}

#[test]
fn bench_wave_runs_on_a_device_and_on_the_cpu() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    for (device, kind) in [("opencl", "opencl"), ("cpu", "cpu")] {
        let flags = ["-n", "48", "--precision", "single", "--device", device, "--repeats", "2"];
        let json = ["--force", "--json", "w.json"];
        let stdout = stdout_of(&dir, &[&["bench", "wave"][..], &flags, &json].concat());
        check_80_columns(&stdout);
        for row in ["    48³    single uniform       - ", "   768²    single per node     20 "] {
            assert!(stdout.lines().any(|line| line.starts_with(row)), "{stdout}");
        }
        let all = read_json(&dir, "w.json");
        assert_eq!(all["device"]["kind"], kind);
        let results = all["results"].as_array().unwrap();
        let sizes = [(3, 48, 110_592.0), (2, 768, 589_824.0)];
        let media =
            [("uniform", 0, 12.0), ("per node", 0, 16.0), ("per node", 10, 16.0), ("per node", 20, 16.0)];
        let expected: Vec<_> = sizes.iter().flat_map(|size| media.map(|medium| (size, medium))).collect();
        assert_eq!(results.len(), expected.len());
        for (line, ((dimensions, side, nodes), (velocity, layer_nodes, bytes))) in
            results.iter().zip(expected)
        {
            assert_eq!(
                (line["dimensions"].as_u64(), line["n"].as_u64(), line["order"].as_u64()),
                (Some(*dimensions), Some(*side), Some(8)),
                "{line}"
            );
            assert_eq!(
                (line["velocity"].as_str(), line["layer_nodes"].as_u64(), line["bytes_per_point"].as_f64()),
                (Some(velocity), Some(layer_nodes), Some(bytes)),
                "{line}"
            );
            let rate = nodes / line["seconds"].as_f64().unwrap();
            assert!((line["rate"].as_f64().unwrap() / rate - 1.0).abs() < 1e-12, "{line}");
            assert!((line["bytes_per_s"].as_f64().unwrap() / (bytes * rate) - 1.0).abs() < 1e-12, "{line}");
            assert_eq!(line["share_of_copy"].is_f64(), kind == "opencl", "{line}");
        }
    }
}
