//! Tests of the benchmark of Lennard-Jones fluids, on an OpenCL device such as PoCL.

use crate::common::TestDir;
use crate::devices::{check_80_columns, has_no_device, read_json, stdout_of};

#[test]
fn bench_lj_runs_on_a_device_and_on_the_cpu() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    for (device, strategy) in
        [("opencl", "lanes 1, build lanes 1, block 128, steps 1, skin 0.500"), ("cpu", "skin 0.300")]
    {
        let flags = ["-n", "256,500", "--device", device, "--repeats", "2", "--force", "--json", "f.json"];
        let stdout = stdout_of(&dir, &[&["bench", "lj"][..], &flags].concat());
        check_80_columns(&stdout);
        assert!(stdout.lines().any(|line| line.starts_with("      256     mixed ")), "{stdout}");
        assert!(stdout.lines().any(|line| line.trim_start().starts_with(strategy)), "{stdout}");
        let all = read_json(&dir, "f.json");
        assert_eq!(all["device"]["kind"], device);
        let results = all["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        for (line, n) in results.iter().zip([256, 500]) {
            assert_eq!(
                (line["n"].as_u64(), line["unit"].as_str(), line["repeats"].as_u64()),
                (Some(n), Some("particle-steps/s"), Some(2)),
                "{line}"
            );
            let seconds = line["seconds"].as_f64().unwrap();
            assert!((line["rate"].as_f64().unwrap() * seconds / n as f64 - 1.0).abs() < 1e-12, "{line}");
            assert!((line["steps_per_s"].as_f64().unwrap() * seconds - 1.0).abs() < 1e-12, "{line}");
            // -6.773 for the lattice and 1.5 kT (1 - 1 / n). Pairs that cross the cutoff change the
            // sum.
            let energy = line["energy_per_particle"].as_f64().unwrap();
            assert!((energy + 6.773 - 1.5 * 1.44).abs() < 0.1, "{line}");
        }
    }
}
