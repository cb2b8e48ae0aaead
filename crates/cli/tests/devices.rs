//! The commands about devices, on whatever OpenCL device this machine has; the tests' own is PoCL.

mod common;

use std::process::Output;

use common::{Room, text};
use serde_json::Value;

/// Runs a command with a cache folder of its own.
fn orrery(room: &Room, arguments: &[&str]) -> Output {
    room.command(arguments).env("ORRERY_CACHE_DIR", room.path("cache")).output().expect("orrery starts")
}

/// What it says; it must succeed without a word on standard error.
#[track_caller]
fn says(room: &Room, arguments: &[&str]) -> String {
    let output = orrery(room, arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "orrery {}: {stderr}", arguments.join(" "));
    assert_eq!(stderr, "", "orrery {}", arguments.join(" "));
    stdout
}

#[track_caller]
fn fits_80_columns(said: &str) {
    let widest = said.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
    assert!(widest.chars().count() <= 80, "{} columns: {widest}", widest.chars().count());
}

/// A machine without an OpenCL device fails these tests unless it is said that it has none.
fn without_a_device() -> bool {
    std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some()
}

fn json(room: &Room, name: &str) -> Value {
    serde_json::from_str(&room.text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn devices_are_listed_with_their_figures() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let said = says(&room, &["devices", "--json", "devices.json"]);
    fits_80_columns(&said);
    assert!(said.starts_with("cpu "), "{said}");
    assert!(said.contains("\nopencl:0 "), "{said}");
    assert!(said.lines().last().unwrap().starts_with("--device auto selects "), "{said}");
    let all = json(&room, "devices.json");
    for device in all["devices"].as_array().unwrap() {
        assert!(device["f32_flops"]["measured"].as_f64().unwrap() > 1e6, "{device}");
    }
    assert!(all["devices"][1]["copy"]["measured"].as_f64().unwrap() > 1e6, "{all}");
    assert!(all["auto"].is_string() && all["notes"].is_array());
}

#[test]
fn selftest_counts_what_passed() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let said = says(&room, &["selftest", "--device", "opencl"]);
    assert!(said.starts_with("opencl:0 ("), "{said}");
    assert!(said.contains("\n  device       9 of 9 passed\n"), "{said}");
    assert!(!said.contains("FAILED"), "{said}");
    let list = says(&room, &["selftest", "--list", "atomics"]);
    assert_eq!(list, "device: atomics lose no update\n");
    assert!(says(&room, &["selftest", "--device", "opencl", "atomics"]).contains("1 of 1 passed"));
}

/// Without any driver's device there is nothing to test, and that is no success.
#[test]
fn no_device_at_all_is_said() {
    let room = Room::new();
    let alone = |arguments: &[&str]| {
        let mut command = room.command(arguments);
        command.env("OCL_ICD_VENDORS", room.path("none")).env("CUDA_VISIBLE_DEVICES", "");
        let output = command.env("ORRERY_CACHE_DIR", room.path("cache")).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, said, wrong) = alone(&["selftest"]);
    assert_eq!((status, said.as_str()), (Some(1), ""), "{wrong}");
    assert!(wrong.starts_with("error: there is no device to test: no CUDA device"), "{wrong}");
    assert_eq!(wrong.lines().count(), 1, "{wrong}");
    for command in
        [&["tune"][..], &["tune", "--device", "opencl"], &["ladder", "direct", "--device", "opencl"]]
    {
        let (status, said, wrong) = alone(command);
        assert_eq!((status, said.as_str(), wrong.lines().count()), (Some(2), "", 1), "{command:?}: {wrong}");
    }
    let (status, said, _) = alone(&["devices"]);
    assert_eq!(status, Some(0));
    assert!(said.contains("no OpenCL device") && said.ends_with("--device auto selects cpu\n"), "{said}");
    for ladder in ["direct", "tree", "reduce", "histogram"] {
        let (status, said, wrong) = alone(&["ladder", ladder, "-n", "100"]);
        assert!(status == Some(0) && said.contains("there is no device here"), "{said}{wrong}");
        assert!(said.contains("  CPU, one thread"), "{said}");
    }
}

#[test]
fn the_ladder_in_words_json_and_svg() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let arguments =
        ["ladder", "direct", "-n", "300", "--device", "opencl", "--json", "l.json", "--plot", "l.svg"];
    let said = says(&room, &arguments);
    fits_80_columns(&said);
    assert!(said.starts_with("all-pairs gravity, 300 bodies\nopencl:0 ("), "{said}");
    assert!(said.contains("20 flops per pair, median of"), "{said}");
    let ladder = json(&room, "l.json");
    assert!(ladder["device"].as_str().unwrap().starts_with("opencl:0 ("), "{ladder}");
    assert_eq!(ladder["n"], 300);
    let rungs = ladder["rungs"].as_array().unwrap();
    let svg = room.text("l.svg");
    for rung in rungs {
        assert_eq!(rung["unit"], "interactions/s");
        for key in ["seconds", "rate", "share_of_peak"] {
            assert!(rung[key].as_f64().unwrap() > 0.0, "{key}: {rung}");
        }
        // f32 sums of 300 terms; a wrong kernel is off by far more.
        assert!(rung["error"].as_f64().unwrap() < 1e-4, "{rung}");
        assert!(svg.contains(rung["name"].as_str().unwrap()), "{rung}");
    }
    assert!(rungs.len() > 5, "{ladder}");
    assert_eq!(rungs[0]["total_gain"], 1.0);
}

#[test]
fn the_ladder_of_the_tree() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let said = says(&room, &["ladder", "tree", "-n", "2000", "--device", "opencl", "--json", "t.json"]);
    fits_80_columns(&said);
    assert!(said.starts_with("Barnes-Hut, Plummer sphere, 2,000 bodies\nopencl:0 ("), "{said}");
    assert!(said.contains("all rungs: theta = 0.5, geometric"), "{said}");
    let ladder = json(&room, "t.json");
    let rungs = ladder["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 11, "{ladder}");
    for rung in rungs {
        assert_eq!(rung["unit"], "bodies/s");
        for key in ["seconds", "rate", "share_of_peak"] {
            assert!(rung[key].as_f64().unwrap() > 0.0, "{key}: {rung}");
        }
        // Half of the bodies err by less than a monopole does at theta = 0.5.
        assert!(rung["error"].as_f64().unwrap() < 1e-2, "{rung}");
    }
}

#[test]
fn ladders_of_the_primitives() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    for (name, columns, last) in [("reduce", 6, "1024"), ("histogram", 2, "equal")] {
        let said = says(&room, &["ladder", name, "-n", "10000", "--device", "opencl", "--json", "p.json"]);
        fits_80_columns(&said);
        assert!(said.contains("  CPU, all cores"), "{said}");
        assert!(said.lines().any(|line| line.starts_with("  rung ") && line.contains(last)), "{said}");
        let ladder = json(&room, "p.json");
        assert!(ladder["copy_bytes_per_s"].as_f64().unwrap() > 0.0, "{ladder}");
        assert_eq!((ladder["n"].as_u64(), ladder["cpu"].as_array().unwrap().len()), (Some(10_000), 2));
        let rungs = ladder["rungs"].as_array().unwrap();
        assert!(rungs.len() >= 6, "{ladder}");
        for rung in rungs {
            assert_eq!(rung["rates"].as_array().unwrap().len(), columns, "{rung}");
            assert!(rung["rate"].as_f64().unwrap() > 0.0 && rung["share_of_copy"].is_f64(), "{rung}");
        }
    }
}

#[test]
fn bench_of_the_tree_on_a_device() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let flags = ["--device", "opencl", "-n", "2000", "--repeats", "3", "--json", "b.json"];
    let said = says(&room, &[&["bench", "tree"][..], &flags].concat());
    fits_80_columns(&said);
    for word in ["theta 0.5, geometric", "2,000 bodies, cube, single: ", "2,000 bodies, plummer, mixed: "] {
        assert!(said.contains(word), "{said}");
    }
    let all = json(&room, "b.json");
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
        // The bar of the cube; few bodies err less.
        assert!(line["error"]["p99"].as_f64().unwrap() < 2e-3, "{line}");
    }
    let said = says(&room, &[&["bench", "crossover"][..], &flags].concat());
    assert!(said.lines().last().unwrap().starts_with("     2000     mixed "), "{said}");
    assert_eq!(json(&room, "b.json")["results"].as_array().unwrap().len(), 2);
    let more = ["--order", "octupole", "--bodies", "cube", "--precision", "single", "--theta", "0.7"];
    says(&room, &[&["bench", "tree"][..], &flags, &more].concat());
    let line = &json(&room, "b.json")["results"][0];
    assert_eq!(line["strategy"]["order"], "octupole");
    assert_eq!(
        (line["strategy"]["theta"].as_f64(), line["strategy"]["bodies"].as_str()),
        (Some(0.7), Some("cube"))
    );
}

#[test]
fn what_was_tuned_is_used_and_said() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let bench =
        ["bench", "direct", "--device", "opencl", "-n", "300", "--precision", "single", "--repeats", "2"];
    assert!(!says(&room, &bench).contains("tuned: "));
    let said = says(&room, &["tune", "--device", "opencl", "-n", "256", "--precision", "single"]);
    let path = said.lines().last().unwrap().strip_prefix("kept in ").unwrap().to_owned();
    let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((file["entries"][0]["n"].as_u64(), file["entries"].as_array().unwrap().len()), (Some(256), 1));
    assert!(says(&room, &bench).contains("; tuned: "));
    assert!(!says(&room, &[&bench[..], &["--no-tuned"]].concat()).contains("tuned: "));
    // A damaged file costs a word and nothing else.
    std::fs::write(&path, "{").unwrap();
    let output = orrery(&room, &bench);
    let warned = text(&output.stderr);
    assert!(output.status.success() && !text(&output.stdout).contains("tuned: "), "{warned}");
    assert!(warned.starts_with("warning: ") && warned.contains("ignored, damaged"), "{warned}");
    assert_eq!(warned.lines().count(), 1, "{warned}");
    assert_eq!(text(&orrery(&room, &[&bench[..], &["--no-tuned"]].concat()).stderr), "");
}

#[test]
fn bench_on_a_device_in_words_and_json() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let arguments =
        ["bench", "direct", "--device", "opencl", "-n", "300,500", "--repeats", "3", "--json", "b.json"];
    let said = says(&room, &arguments);
    fits_80_columns(&said);
    assert!(said.contains("kernels built in "), "{said}");
    let all = json(&room, "b.json");
    assert_eq!(all["device"]["kind"], "opencl");
    assert_eq!(all["flops_per_pair"], 20.0);
    let results = all["results"].as_array().unwrap();
    let forces: Vec<_> = results.iter().filter(|line| line["case"] == "direct").collect();
    assert_eq!(forces.len(), 6);
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
fn bench_of_the_primitives() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    for (device, kind) in [("opencl", "opencl"), ("cpu", "cpu")] {
        let flags = ["-n", "20000", "--device", device, "--repeats", "3", "--json", "p.json"];
        let said = says(&room, &[&["bench", "primitives"][..], &flags].concat());
        fits_80_columns(&said);
        assert!(said.lines().any(|line| line.starts_with("histogram random         20000 ")), "{said}");
        let all = json(&room, "p.json");
        assert_eq!(all["device"]["kind"], kind);
        let results = all["results"].as_array().unwrap();
        assert_eq!(results.len(), 7);
        for line in results {
            assert!(line["fastest"].as_f64() <= line["seconds"].as_f64(), "{line}");
            assert!(line["seconds"].as_f64() <= line["slowest"].as_f64(), "{line}");
            assert_eq!((line["n"].as_u64(), line["repeats"].as_u64()), (Some(20_000), Some(3)), "{line}");
            assert!(line["rate"].as_f64().unwrap() > 0.0, "{line}");
            let is_sort = line["case"] == "sort";
            assert_eq!(line["unit"] == "keys/s", is_sort, "{line}");
            assert_eq!(line["share_of_copy"].is_f64(), !is_sort && kind != "cpu", "{line}");
        }
    }
}

#[test]
fn mistakes_are_one_line_and_write_nothing() {
    if without_a_device() {
        return;
    }
    let room = Room::new();
    let cases: [(&[&str], &str); 22] = [
        (&["ladder", "cube"], "error: invalid value 'cube' for '<NAME>'"),
        (&["ladder", "direct", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (&["ladder", "direct", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["ladder", "direct", "--plot", "x.png"], "error: x.png: expected a name ending in .svg"),
        (&["ladder", "direct", "--json", "no/x.json"], "error: no/x.json: the folder no does not exist"),
        (
            &["ladder", "direct", "--device", "gpu"],
            "error: invalid value 'gpu' for '--device <DEVICE>': expected auto",
        ),
        (&["ladder", "direct", "--device", "opencl:99"], "error: opencl:99 is not here; found: opencl:0 ("),
        (&["selftest", "--device", "cpu"], "error: --device cpu: there is no device to test"),
        (&["selftest", "nothing like it"], "error: \"nothing like it\" is in no check's name"),
        (&["tune", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (
            &["bench", "checkpoint", "--device", "opencl"],
            "error: --device opencl: bench checkpoint does not run there, expected cpu",
        ),
        (
            &["bench", "tree", "--device", "opencl", "--rms", "1e-3"],
            "error: --rms is for the processor's tree",
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
        (&["bench", "primitives", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["ladder", "tree", "--plot", "x.svg"], "error: --plot: only ladder direct has a roofline"),
        (&["ladder", "reduce", "-n", "1000000000000000"], "error: -n 1000000000000000: "),
        (&["ladder", "histogram", "-n", "0"], "error: -n 0 is outside n >= 1"),
        (&["devices", "--json", "no/x.json"], "error: no/x.json: the folder no does not exist"),
    ];
    for (arguments, expected) in cases {
        let output = orrery(&room, arguments);
        let wrong = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {wrong}");
        assert!(wrong.starts_with(expected), "{arguments:?}: {wrong}");
        assert_eq!((wrong.lines().count(), text(&output.stdout).as_str()), (1, ""), "{arguments:?}: {wrong}");
    }
    assert!(room.content().is_empty(), "{:?}", room.content().keys());
}

#[test]
fn help_of_the_new_commands_fits_80_columns() {
    let room = Room::new();
    for command in ["devices", "selftest", "ladder", "tune", "bench"] {
        let output = room.command(&[command, "--help"]).env("COLUMNS", "80").output().unwrap();
        fits_80_columns(&text(&output.stdout));
    }
}
