//! Tests of the commands about devices, on an OpenCL device such as PoCL.

use std::process::Output;

use orrery_device::testing::{is_soak, suite_cases};
use orrery_lab::ladder::LADDERS;
use serde_json::Value;

use crate::common::{TestDir, run_arguments, text};

/// Runs a command with an empty cache folder in the test directory.
fn run_orrery(dir: &TestDir, arguments: &[&str]) -> Output {
    dir.command(arguments).env("ORRERY_CACHE_DIR", dir.path("cache")).output().expect("orrery starts")
}

/// Returns the standard output of a command. Panics if it fails or writes to standard error.
#[track_caller]
pub fn stdout_of(dir: &TestDir, arguments: &[&str]) -> String {
    let output = run_orrery(dir, arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "orrery {}: {stderr}", arguments.join(" "));
    assert_eq!(stderr, "", "orrery {}", arguments.join(" "));
    stdout
}

#[track_caller]
pub fn check_80_columns(stdout: &str) {
    let widest = stdout.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
    assert!(widest.chars().count() <= 80, "{} columns: {widest}", widest.chars().count());
}

/// Whether tests that need a device are skipped. Without this setting they fail if there is none.
pub fn has_no_device() -> bool {
    std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some()
}

pub fn read_json(dir: &TestDir, name: &str) -> Value {
    serde_json::from_str(&dir.text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn devices_are_listed_with_their_speeds() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let stdout = stdout_of(&dir, &["devices", "--json", "devices.json"]);
    check_80_columns(&stdout);
    assert!(stdout.starts_with("cpu "), "{stdout}");
    assert!(stdout.contains("\nopencl:0 "), "{stdout}");
    assert!(stdout.lines().last().unwrap().starts_with("--device auto selects "), "{stdout}");
    let all = read_json(&dir, "devices.json");
    for device in all["devices"].as_array().unwrap() {
        assert!(device["f32_flops"]["measured"].as_f64().unwrap() > 1e6, "{device}");
    }
    assert!(all["devices"][1]["copy"]["measured"].as_f64().unwrap() > 1e6, "{all}");
    assert!(all["auto"].is_string() && all["notes"].is_array());
}

#[test]
fn roofs_of_all_devices_are_measured_and_drawn() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let stdout = stdout_of(&dir, &["devices", "--roofline", "--plot", "roofs.svg", "--json", "roofs.json"]);
    check_80_columns(&stdout);
    assert!(stdout.starts_with("cpu ") && stdout.contains("\nopencl:0 "), "{stdout}");
    let all = read_json(&dir, "roofs.json");
    let devices = all["devices"].as_array().unwrap();
    assert!(devices.len() > 1, "{all}");
    for device in devices {
        assert!(device["error"].is_null() && device["f32_flops"].as_f64().unwrap() > 1e6, "{device}");
        let levels = device["levels"].as_array().unwrap();
        let is_rate = |level: &Value| level["bytes_per_s"].as_f64().is_some_and(|rate| rate > 1e6);
        assert!(!levels.is_empty() && levels.iter().all(is_rate), "{device}");
        assert_eq!(levels.last().unwrap()["name"], "memory", "{device}");
        assert!(device["reads"].as_array().unwrap().iter().all(is_rate), "{device}");
        let label = device["label"].as_str().unwrap().replace(':', "-");
        assert!(dir.text(&format!("roofs-{label}.svg")).contains("f32: "), "{label}");
    }
    assert!(dir.text("roofs.svg").contains("cpu f32: "));
    // No file is replaced without --force.
    let output = run_orrery(&dir, &["devices", "--roofline", "--plot", "roofs.svg"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn selftest_prints_the_number_of_passed_checks() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    // Those of one crate. A test of the lab crate runs all checks.
    let stdout = stdout_of(&dir, &["selftest", "--device", "opencl", "device:"]);
    assert!(stdout.starts_with("opencl:0 ("), "{stdout}");
    let line = stdout.lines().nth(1).unwrap_or_default();
    let counts: Vec<&str> = line.trim().trim_end_matches(" passed").split(" of ").collect();
    let passed = counts[0].trim_start_matches("device").trim();
    assert_eq!(counts[1..], [passed], "{stdout}");
    assert!(passed.parse::<u32>().is_ok_and(|passed| passed > 0), "{stdout}");
    assert!(!stdout.contains("FAILED"), "{stdout}");
    let list = stdout_of(&dir, &["selftest", "--list", "lose no update"]);
    assert_eq!(list, "device: atomics lose no update\n");
    assert!(stdout_of(&dir, &["selftest", "--device", "opencl", "lose no update"]).contains("1 of 1 passed"));
}

/// The program executes the kernels of the cache. Only root can give a folder to another user.
#[cfg(unix)]
#[test]
fn kernels_and_tunings_of_another_user_are_refused() {
    let dir = TestDir::new();
    let cache = dir.path("cache");
    let kernels = cache.join("kernels");
    let tuning = cache.join("tuning");
    std::fs::create_dir_all(&kernels).unwrap();
    std::fs::create_dir(&tuning).unwrap();
    let give_to_other = |path| std::os::unix::fs::chown(path, Some(4321), None).is_ok();
    if has_no_device() || !give_to_other(&kernels) || !give_to_other(&tuning) {
        return;
    }
    let sets = ["grid.nx=20", "grid.ny=20", "time.end=0.01", "image.size=64"];
    let arguments = [run_arguments("sine-decay", "out", &sets), vec!["--device", "opencl"]].concat();
    let output = run_orrery(&dir, &arguments);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    // PoCL does without a cache, so that its kernels would be in that of Orrery.
    let mut command = dir.command(&["selftest", "--device", "opencl", "device: atomics lose no update"]);
    let variables = [("POCL_KERNEL_CACHE", "0"), ("POCL_CACHE_DIR", dir.path("pocl").to_str().unwrap())]
        .map(|(name, value)| (name, value.to_owned()));
    let compiled = command.env("ORRERY_CACHE_DIR", &cache).envs(variables).output().unwrap();
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    for (folder, action) in [(&kernels, "refused, "), (&tuning, "ignored, ")] {
        let expected = format!("warning: {}: {action}it belongs to user 4321, ", folder.display());
        assert_eq!(stderr.matches(&expected).count(), 1, "{expected} in {stderr}");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "{}", folder.display());
    }
    let output = run_orrery(&dir, &["tune", "--device", "opencl"]);
    let expected = format!(
        "error: {}: refused, it belongs to user 4321, expected user 0; remove it, or set ORRERY_CACHE_DIR to \
         another folder\n",
        tuning.display()
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), expected));
}

/// The first image shows the same bodies, so it has the same pixels: bins are sums of integers.
/// Both kinds of images are compared, with bins of the device and with positions.
#[test]
fn images_of_a_device_and_of_the_cpu_agree() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    for (name, size) in [("bins", "200"), ("positions", "\"1920x1080\"")] {
        let images = ["opencl", "cpu"].map(|device| {
            let out = format!("{name}-{device}");
            let case = ["run", "plummer", "--quiet", "--device", device, "--out", &out];
            let size = format!("image.size={size}");
            let settings =
                ["--set", "bodies.n=3000", "--set", "time.end=0.01", "--set", "image.azimuth=0.4", "--set"];
            stdout_of(&dir, &[&case[..], &settings[..], &[&size[..]]].concat());
            let png = dir.bytes(&format!("{out}/images/image_0000.png"));
            // The texts before the pixels name the device.
            let pixels = png.windows(4).position(|bytes| bytes == b"IDAT").expect("pixels");
            png[pixels..].to_vec()
        });
        assert!(images[0] == images[1], "{name}: images differ");
    }
}

/// Without any device, `selftest` fails and the other commands say that there is none.
#[test]
fn a_machine_without_devices_gets_clear_messages() {
    let dir = TestDir::new();
    let run_without_devices = |arguments: &[&str]| {
        let mut command = dir.command(arguments);
        command.env("OCL_ICD_VENDORS", dir.path("none")).env("CUDA_VISIBLE_DEVICES", "");
        let output = command.env("ORRERY_CACHE_DIR", dir.path("cache")).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, stdout, stderr) = run_without_devices(&["selftest"]);
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.starts_with("error: there is no device to test: no CUDA device"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for command in
        [&["tune"][..], &["tune", "--device", "opencl"], &["ladder", "direct", "--device", "opencl"]]
    {
        let (status, stdout, stderr) = run_without_devices(command);
        assert_eq!(
            (status, stdout.as_str(), stderr.lines().count()),
            (Some(2), "", 1),
            "{command:?}: {stderr}"
        );
    }
    let (status, stdout, _) = run_without_devices(&["devices"]);
    assert_eq!(status, Some(0));
    assert!(
        stdout.contains("no OpenCL device") && stdout.ends_with("--device auto selects cpu\n"),
        "{stdout}"
    );
    // A test of the lab crate runs the CPU rungs of all ladders.
    let (status, stdout, stderr) = run_without_devices(&["ladder", "direct", "-n", "100"]);
    assert!(status == Some(0) && stdout.contains("this machine has no device"), "{stdout}{stderr}");
    assert!(stdout.contains("  CPU, one thread"), "{stdout}");
}

/// A ladder with a plot of a sweep, and in `cargo xtask soak` another one. A test of the lab crate
/// runs all ladders.
#[test]
fn ladders_are_printed_and_written_as_json_and_svg() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let ladders = [("banks", "reads of shared memory", "256"), ("reduce", "sum of f32", "65536")];
    for &(name, title, n) in suite_cases(&ladders, 1) {
        let files = ["--force", "--json", "l.json", "--plot", "l.svg"];
        let stdout =
            stdout_of(&dir, &[&["ladder", name, "-n", n, "--device", "opencl"][..], &files].concat());
        check_80_columns(&stdout);
        assert!(stdout.starts_with(&format!("{title}, ")) && stdout.contains("\nopencl:0 ("), "{stdout}");
        let json = read_json(&dir, "l.json");
        assert_eq!((json["ladder"].as_str(), json["n"].to_string()), (Some(name), n.to_owned()));
        let svg = dir.text("l.svg");
        for rung in json["rungs"].as_array().unwrap() {
            let name = rung["name"].as_str().unwrap();
            let shown: String = name.chars().take(24).collect();
            assert!(stdout.lines().any(|line| line.starts_with(&format!("  {shown}"))), "{name}: {stdout}");
            assert!(svg.contains(name), "{name}");
        }
    }
    // The sweep of the first ladder has a separate file.
    assert!(dir.text("l-1.svg").starts_with("<svg "));
}

#[test]
fn bench_tree_and_crossover_run_on_a_device() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let flags = ["--device", "opencl", "-n", "2000", "--repeats", "3", "--force", "--json", "b.json"];
    let stdout = stdout_of(&dir, &[&["bench", "tree"][..], &flags].concat());
    check_80_columns(&stdout);
    for text in ["theta 0.5, geometric", "2,000 bodies, cube, single: ", "2,000 bodies, plummer, mixed: "] {
        assert!(stdout.contains(text), "{stdout}");
    }
    let all = read_json(&dir, "b.json");
    assert_eq!(all["device"]["kind"], "opencl");
    let results = all["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for line in results {
        assert_eq!((line["case"].as_str(), line["unit"].as_str()), (Some("tree"), Some("bodies/s")));
        let strategy = &line["strategy"];
        assert_eq!((strategy["order"].as_str(), strategy["theta"].as_f64()), (Some("quadrupole"), Some(0.5)));
        for key in ["seconds", "rate", "flops", "share_of_measured_peak"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key}: {line}");
        }
        let tree = &line["tree"];
        for key in
            ["build_seconds", "moments_seconds", "walk_seconds", "body_terms_per_body", "bytes_per_body"]
        {
            assert!(tree[key].as_f64().unwrap() > 0.0, "{key}: {line}");
        }
        let mean =
            tree["body_terms_per_body"].as_f64().unwrap() + tree["cell_terms_per_body"].as_f64().unwrap();
        assert!(
            tree["max_terms_per_body"].as_f64().unwrap() >= mean && tree["cells"].as_u64().unwrap() > 1,
            "{line}"
        );
        // The limit of the cube's accuracy test. Few bodies have smaller errors.
        assert!(line["error"]["p99"].as_f64().unwrap() < 2e-3, "{line}");
    }
    let stdout = stdout_of(&dir, &[&["bench", "crossover"][..], &flags].concat());
    assert!(stdout.lines().last().unwrap().starts_with("     2000     mixed "), "{stdout}");
    assert_eq!(read_json(&dir, "b.json")["results"].as_array().unwrap().len(), 2);
    let more = ["--order", "octupole", "--bodies", "cube", "--precision", "single", "--theta", "0.7"];
    stdout_of(&dir, &[&["bench", "tree"][..], &flags, &more].concat());
    let line = &read_json(&dir, "b.json")["results"][0];
    assert_eq!(line["strategy"]["order"], "octupole");
    assert_eq!(
        (line["strategy"]["theta"].as_f64(), line["strategy"]["bodies"].as_str()),
        (Some(0.7), Some("cube"))
    );
}

/// Returns the numbers of results of each solver in a file of tuned strategies.
fn tuned_counts(path: &str) -> [usize; 5] {
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    ["tree", "heat", "entries", "wave", "fluid"].map(|key| file[key].as_array().map_or(0, Vec::len))
}

/// `cargo xtask soak` tunes the other solvers too. Their tuners are tested in the crate `measure`.
#[test]
fn tuned_strategies_are_used_and_reported() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let small = ["--device", "opencl", "-n", "1000", "--precision", "single"];
    let bench = [&["bench", "tree"][..], &small, &["--bodies", "cube", "--repeats", "1"]].concat();
    assert!(!stdout_of(&dir, &bench).contains("tuned: "));
    let stdout = stdout_of(&dir, &[&["tune", "tree"][..], &small, &["--theta", "0.7"]].concat());
    assert!(
        stdout.lines().any(|line| line.starts_with("     1000    single ") && line.contains("leaves of ")),
        "{stdout}"
    );
    let path = stdout.lines().last().unwrap().strip_prefix("stored in ").unwrap().to_owned();
    assert_eq!(tuned_counts(&path), [1, 0, 0, 0, 0]);
    // The tuned strategy is used unless a flag selects another one.
    let cases: [(&[&str], bool); 3] = [(&[], true), (&["--leaf", "16"], false), (&["--no-tuned"], false)];
    for (flags, is_tuned) in cases {
        let stdout = stdout_of(&dir, &[&bench[..], flags].concat());
        assert_eq!(stdout.contains(", cube, single: tuned: groups of 32"), is_tuned, "{flags:?}: {stdout}");
    }
    // Results for heat are added to the file.
    stdout_of(&dir, &["tune", "heat", "--device", "opencl", "-n", "40", "--precision", "single"]);
    assert_eq!(tuned_counts(&path), [1, 2, 0, 0, 0]);
    if is_soak() {
        tune_other_solvers(&dir, &path);
    }
    // A damaged file causes a warning and is ignored.
    std::fs::write(&path, "{").unwrap();
    let output = run_orrery(&dir, &bench);
    let stderr = text(&output.stderr);
    assert!(output.status.success() && !text(&output.stdout).contains("tuned: "), "{stderr}");
    assert!(stderr.starts_with("warning: ") && stderr.contains("ignored, damaged"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert_eq!(text(&run_orrery(&dir, &[&bench[..], &["--no-tuned"]].concat()).stderr), "");
}

/// Adds results for direct sums, waves and fluids to the file at `path`.
fn tune_other_solvers(dir: &TestDir, path: &str) {
    let bench =
        ["bench", "direct", "--device", "opencl", "-n", "300", "--precision", "single", "--repeats", "2"];
    assert!(!stdout_of(dir, &bench).contains("tuned: "));
    stdout_of(dir, &["tune", "--device", "opencl", "-n", "256", "--precision", "single"]);
    assert_eq!(tuned_counts(path), [1, 2, 1, 0, 0]);
    assert!(stdout_of(dir, &bench).contains("; tuned: "));
    assert!(!stdout_of(dir, &[&bench[..], &["--no-tuned"]].concat()).contains("tuned: "));
    // A cube and a square, each uniform and per node.
    let stdout = stdout_of(dir, &["tune", "wave", "--device", "opencl", "-n", "48", "--precision", "single"]);
    assert!(stdout.lines().any(|line| line.starts_with("      48³    single  per node ")), "{stdout}");
    assert_eq!(tuned_counts(path), [1, 2, 1, 4, 0]);
    let stdout = stdout_of(dir, &["tune", "lj", "--device", "opencl", "-n", "256"]);
    let is_row = |line: &str| line.starts_with("      256 ") && line.contains(" skin 0.");
    assert!(stdout.lines().any(is_row), "{stdout}");
    assert_eq!(tuned_counts(path), [1, 2, 1, 4, 1]);
}

#[test]
fn bench_direct_runs_on_a_device() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let arguments = [
        "bench",
        "direct",
        "--device",
        "opencl",
        "-n",
        "300,500",
        "--precision",
        "mixed",
        "--repeats",
        "3",
        "--force",
        "--json",
        "b.json",
    ];
    let stdout = stdout_of(&dir, &arguments);
    check_80_columns(&stdout);
    assert!(stdout.contains("kernels built in "), "{stdout}");
    let all = read_json(&dir, "b.json");
    assert_eq!(all["device"]["kind"], "opencl");
    assert_eq!(all["flops_per_pair"], 20.0);
    let results = all["results"].as_array().unwrap();
    let forces: Vec<_> = results.iter().filter(|line| line["case"] == "direct").collect();
    assert_eq!(forces.len(), 2);
    for line in forces {
        assert_eq!((line["unit"].as_str(), line["repeats"].as_u64()), (Some("interactions/s"), Some(3)));
        assert!(line["fastest"].as_f64() <= line["seconds"].as_f64(), "{line}");
        assert!(line["seconds"].as_f64() <= line["slowest"].as_f64(), "{line}");
        assert!(line["error"]["p99"].as_f64().unwrap() < 1e-3, "{line}");
        assert!(line["share_of_measured_peak"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["strategy"]["block"].is_u64(), "{line}");
    }
    let build = results.iter().find(|line| line["case"] == "build").unwrap();
    assert_eq!(build["first"]["kernels"][0]["origin"], "compiled", "{build}");
    assert_eq!(build["cached"]["kernels"][0]["origin"], "disk", "{build}");
}

#[test]
fn bench_primitives_runs_on_a_device_and_on_the_cpu() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    for (device, kind) in [("opencl", "opencl"), ("cpu", "cpu")] {
        let flags = ["-n", "20000", "--device", device, "--repeats", "3", "--force", "--json", "p.json"];
        let stdout = stdout_of(&dir, &[&["bench", "primitives"][..], &flags].concat());
        check_80_columns(&stdout);
        assert!(stdout.lines().any(|line| line.starts_with("histogram random         20000 ")), "{stdout}");
        let all = read_json(&dir, "p.json");
        assert_eq!(all["device"]["kind"], kind);
        let results = all["results"].as_array().unwrap();
        assert_eq!(results.len(), 10);
        for line in results {
            assert!(line["fastest"].as_f64() <= line["seconds"].as_f64(), "{line}");
            assert!(line["seconds"].as_f64() <= line["slowest"].as_f64(), "{line}");
            // Matrices and images are the largest square: 141 x 141.
            let is_square = ["transpose", "matmul", "label"].contains(&line["case"].as_str().unwrap());
            let n = if is_square { 19_881 } else { 20_000 };
            assert_eq!((line["n"].as_u64(), line["repeats"].as_u64()), (Some(n), Some(3)), "{line}");
            assert!(line["strategy"].is_null(), "{line}");
            assert!(line["rate"].as_f64().unwrap() > 0.0, "{line}");
            let unit = match line["case"].as_str().unwrap() {
                "sort" => "keys/s",
                "matmul" => "flops/s",
                _ => "bytes/s",
            };
            assert_eq!(line["unit"], unit, "{line}");
            assert_eq!(line["share_of_copy"].is_f64(), unit == "bytes/s" && kind != "cpu", "{line}");
        }
    }
}

#[test]
fn invalid_flags_give_one_line_and_write_nothing() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    let ladders = LADDERS.map(|ladder| ladder.name).join(", ");
    let unknown_ladder = format!(
        "error: invalid value 'redcue' for '<NAME>' [possible values: {ladders}]; tip: a similar value exists: 'reduce'"
    );
    let cases: [(&[&str], &str); 46] = [
        (&["ladder", "cube"], "error: invalid value 'cube' for '<NAME>'"),
        (&["ladder", "direct", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (&["ladder", "direct", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["ladder", "direct", "--plot", "x.png"], "error: x.png: expected a name ending in .svg"),
        (&["ladder", "direct", "--json", "no/x.json"], "error: no/x.json: the folder no does not exist"),
        (
            &["ladder", "direct", "--device", "gpu"],
            "error: invalid value 'gpu' for '--device <DEVICE>': expected auto",
        ),
        (
            &["ladder", "direct", "--device", "opencl:99"],
            "error: opencl:99 does not exist, found: opencl:0 (",
        ),
        (&["selftest", "--device", "cpu"], "error: --device cpu: there is no device to test"),
        (&["selftest", "--device", "opencl:99"], "error: opencl:99 does not exist, found: opencl:0 ("),
        (&["selftest", "nothing like it"], "error: no check has 'nothing like it' in its name"),
        (&["tune", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (&["tune", "heat", "-n", "2"], "error: -n 2 is outside 3 <= n <= 1048576"),
        (&["tune", "wave", "-n", "47"], "error: -n 47 is outside 48 <= n <= 8192"),
        (&["tune", "sort"], "error: invalid value 'sort' for '[SOLVER]'"),
        (&["tune", "tree", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["tune", "tree", "--theta", "1.3"], "error: --theta 1.3 is outside 0 < theta <= 1.2"),
        (&["tune", "--theta", "0.5"], "error: --theta is for tune tree"),
        (
            &["tune", "primitives", "--precision", "double"],
            "error: --precision double: expected no precision for primitives",
        ),
        (
            &["tune", "lj", "--precision", "double"],
            "error: --precision double: expected mixed for lj on a device",
        ),
        (
            &["bench", "lj", "--precision", "single"],
            "error: --precision single: expected mixed or double for lj",
        ),
        (
            &["bench", "lj", "--device", "opencl", "--precision", "double"],
            "error: --precision double: expected mixed for lj on a device",
        ),
        (
            &["bench", "lj", "--simd", "avx2"],
            "error: --simd: bench lj uses the best instruction set of the CPU",
        ),
        (&["bench", "lj", "-n", "67108865"], "error: -n 67108865 is outside n <= 67108864"),
        (
            &["bench", "checkpoint", "--device", "opencl"],
            "error: --device opencl: bench checkpoint runs on the CPU, expected cpu",
        ),
        (
            &["bench", "tree", "--device", "opencl", "--rms", "1e-3"],
            "error: --rms is for the tree on the CPU",
        ),
        (&["bench", "tree", "--device", "cpu", "--order", "octupole"], "error: --order is for the tree on a"),
        (
            &["bench", "direct", "--device", "opencl", "--leaf", "8"],
            "error: --leaf is for the tree on a device",
        ),
        (
            &["bench", "tree", "--device", "opencl", "--group", "0"],
            "error: invalid value '0' for '--group <N>'",
        ),
        (&["bench", "tree", "--order", "dipole"], "error: invalid value 'dipole' for '--order <ORDER>'"),
        (&["bench", "primitives", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (
            &["bench", "heat", "-n", "1000000"],
            "error: -n 1000000: 1000000000000 nodes need 29.1 TiB of memory",
        ),
        (&["bench", "wave", "-n", "47"], "error: -n 47 is outside 48 <= n <= 8192"),
        (&["bench", "wave", "-n", "8192"], "error: -n 8192: 549755813888 nodes need 32.0 TiB of memory"),
        (
            &["bench", "wave", "--precision", "mixed"],
            "error: --precision mixed: expected single or double for waves",
        ),
        (&["bench", "heat", "-n", "2"], "error: -n 2 is outside 3 <= n <= 1048576"),
        (
            &["bench", "heat", "--precision", "mixed"],
            "error: --precision mixed: expected single or double for heat",
        ),
        (&["bench", "primitives", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["ladder", "redcue"], &unknown_ladder),
        (&["ladder", "reduce", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["ladder", "histogram", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (&["ladder", "transpose", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (&["bench", "heat", "--candidates"], "error: --candidates is for bench primitives"),
        (
            &["bench", "primitives", "--candidates", "--device", "cpu"],
            "error: --candidates needs a device, expected --device",
        ),
        (&["devices", "--json", "no/x.json"], "error: no/x.json: the folder no does not exist"),
        (&["devices", "--roofline", "--plot", "x.png"], "error: x.png: expected a name ending in .svg"),
        (&["devices", "--plot", "x.svg"], "error: the following required arguments were not provided"),
    ];
    for (arguments, expected) in cases {
        let output = run_orrery(&dir, arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(expected), "{arguments:?}: {stderr}");
        assert_eq!(
            (stderr.lines().count(), text(&output.stdout).as_str()),
            (1, ""),
            "{arguments:?}: {stderr}"
        );
    }
    assert!(dir.content().is_empty(), "{:?}", dir.content().keys());
}
