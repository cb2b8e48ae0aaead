//! Errors in cases of heat that are found in their files, or when the run starts. Each gives one
//! line with the location, the value found and the expected value, exit status 2, and no files.

use crate::common::TestDir;
use crate::mistakes::check_messages;

/// Returns a numpy file of f64 numbers.
fn npy(shape: &str, values: &[f64]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}");
    header.extend(std::iter::repeat_n(' ', 117 - header.len()));
    header.push('\n');
    let mut bytes = [&b"\x93NUMPY\x01\x00"[..], &[118, 0], header.as_bytes()].concat();
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Returns `n` ones, with `value` at `index`.
fn ones(n: usize, index: usize, value: f64) -> Vec<f64> {
    (0..n).map(|k| if k == index { value } else { 1.0 }).collect()
}

/// Returns a case of 5 x 4 nodes with these lines in `[heat]` and `[initial]`.
fn plate(heat: &str, initial: &str) -> String {
    format!(
        "[grid]\nnx = 5\nny = 4\nhx = 1\n[heat]\n{heat}\n[initial]\n{initial}\n[time]\nstep = 0.1\nend = 1\n"
    )
}

/// Returns a directory with valid and invalid files of fields.
fn dir_with_fields() -> TestDir {
    let dir = TestDir::new();
    dir.write("ones.npy", npy("4, 5", &[1.0; 20]));
    dir.write("turned.npy", npy("5, 4", &[1.0; 20]));
    dir.write("flat.npy", npy("20,", &[1.0; 20]));
    dir.write("nan.npy", npy("4, 5", &ones(20, 7, f64::NAN)));
    dir.write("zero.npy", npy("4, 5", &ones(20, 19, 0.0)));
    dir.write("negative.npy", npy("4, 5", &ones(20, 0, -2.5)));
    dir.write("edge.npy", npy("4,", &[1.0; 4]));
    dir.write("short.npy", npy("3,", &[1.0; 3]));
    dir.write("infinite.npy", npy("4,", &ones(4, 2, f64::INFINITY)));
    dir.write("cut.npy", &npy("4, 5", &[1.0; 20])[..200]);
    dir.write("letter.npy", "Dear Sir or Madam,\n");
    dir.write("letter.png", "Dear Sir or Madam,\n");
    std::fs::create_dir(dir.path("folder.npy")).unwrap();
    let image = orrery_draw::picture::Image::filled(6, 4, [9; 3]);
    orrery_draw::picture::write_png(&dir.path("wide.png"), &image, &[]).unwrap();
    dir
}

/// Checks the message of `orrery run` for each case.
fn check_cases(dir: &TestDir, cases: &[(String, &str)]) {
    let names: Vec<String> = (0..cases.len()).map(|k| format!("case{k}.toml")).collect();
    for (name, (case, _)) in names.iter().zip(cases) {
        dir.write(name, case);
    }
    let arguments: Vec<[&str; 5]> =
        names.iter().map(|name| ["run", name, "--quiet", "--out", "out"]).collect();
    let expected: Vec<String> =
        names.iter().zip(cases).map(|(name, (_, expected))| expected.replace("CASE", name)).collect();
    let mistakes: Vec<(&[&str], &str)> = arguments
        .iter()
        .zip(&expected)
        .map(|(arguments, expected)| (&arguments[..], &expected[..]))
        .collect();
    check_messages(dir, &mistakes);
}

#[test]
fn files_of_the_plate() {
    let uniform = "state = \"uniform\"";
    let nodes = |key: &str, file: &str| plate(&format!("{key}_file = \"{file}\""), uniform);
    check_cases(
        &dir_with_fields(),
        &[
            (
                nodes("conductivity", "turned.npy"),
                "CASE:6:21: turned.npy: 4 x 5 values, expected 5 x 4 as [grid] nodes",
            ),
            (
                nodes("conductivity", "flat.npy"),
                "CASE:6:21: flat.npy: array flat: got shape [20], expected shape [ny, nx]",
            ),
            (
                nodes("conductivity", "nan.npy"),
                "CASE:6:21: nan.npy: the conductivity is NaN at node (2, 1), expected a number from 1e-20 to 1e20",
            ),
            (
                nodes("conductivity", "zero.npy"),
                "CASE:6:21: zero.npy: the conductivity is 0.0 at node (4, 3), expected a number from 1e-20 to 1e20",
            ),
            (
                nodes("conductivity", "negative.npy"),
                "CASE:6:21: negative.npy: the conductivity is -2.5 at node (0, 0), expected a number from 1e-20 to 1e20",
            ),
            (
                nodes("conductivity", "letter.npy"),
                "CASE:6:21: letter.npy: array letter: got no npy magic, expected a numpy array",
            ),
            (
                nodes("conductivity", "cut.npy"),
                "CASE:6:21: cut.npy: array cut: got 72 bytes of data, expected shape [4, 5] of 8 bytes each",
            ),
            (
                nodes("conductivity", "missing.npy"),
                "CASE:6:21: heat.conductivity_file = \"missing.npy\" does not exist, expected an NPY file",
            ),
            (
                nodes("conductivity", "folder.npy"),
                "CASE:6:21: heat.conductivity_file = \"folder.npy\" is not a file, expected an NPY file",
            ),
            (
                nodes("source", "turned.npy"),
                "CASE:6:15: turned.npy: 4 x 5 values, expected 5 x 4 as [grid] nodes",
            ),
            (
                nodes("source", "edge.npy"),
                "CASE:6:15: edge.npy: array edge: got shape [4], expected shape [ny, nx]",
            ),
            (
                nodes("source", "nan.npy"),
                "CASE:6:15: nan.npy: the source is NaN at node (2, 1), x = 2.0, y = 1.0, expected a finite number in double precision",
            ),
            (
                nodes("source", "letter.png"),
                "CASE:6:15: letter.png: array letter: got no npy magic, expected a numpy array",
            ),
            (
                plate("conductivity_file = \"ones.npy\"\nsource_file = \"nan.npy\"", uniform),
                "CASE:7:15: nan.npy: the source is NaN at node (2, 1), x = 2.0, y = 1.0, expected a finite number in double precision",
            ),
            (
                plate("source = 1e39\nprecision = \"single\"", uniform),
                "CASE:5:1: [heat]: the source is 1e39 at node (0, 0), x = 0.0, y = 0.0, expected a finite number in single precision",
            ),
        ],
    );
}

#[test]
fn files_of_the_edges() {
    let edge = |file: &str| {
        plate(&format!("west = {{ condition = \"fixed\", file = \"{file}\" }}"), "state = \"uniform\"")
    };
    let flux = |edge: &str| {
        plate(&format!("{edge} = {{ condition = \"flux\", file = \"edge.npy\" }}"), "state = \"uniform\"")
    };
    check_cases(
        &dir_with_fields(),
        &[
            (edge("short.npy"), "CASE:6:38: short.npy: 3 values, expected 4, one per node of the west edge"),
            (edge("ones.npy"), "CASE:6:38: ones.npy: array ones: got shape [4, 5], expected shape [n]"),
            (
                edge("infinite.npy"),
                "CASE:6:38: infinite.npy: the west edge has the value inf at node 2, expected a finite number",
            ),
            (
                edge("letter.npy"),
                "CASE:6:38: letter.npy: array letter: got no npy magic, expected a numpy array",
            ),
            (
                edge("missing.npy"),
                "CASE:6:38: heat.west.file = \"missing.npy\" does not exist, expected an NPY file",
            ),
            (
                edge("folder.npy"),
                "CASE:6:38: heat.west.file = \"folder.npy\" is not a file, expected an NPY file",
            ),
            (flux("south"), "CASE:6:38: edge.npy: 4 values, expected 5, one per node of the south edge"),
            (
                plate(
                    "east = { condition = \"flux\", value = 1e308 }\nconductivity = 1e-9",
                    "state = \"uniform\"",
                ),
                "CASE:5:1: [heat]: the boundary flux is 1e308 at node (4, 0), x = 4.0, y = 0.0, expected a finite number in double precision",
            ),
            (
                plate(
                    "precision = \"single\"\nnorth = { condition = \"fixed\", profile = [1, 1e39] }",
                    "state = \"uniform\"",
                ),
                "CASE:5:1: [heat]: the boundary value is 5e38 at node (2, 3), x = 2.0, y = 3.0, expected a finite number in single precision",
            ),
        ],
    );
}

#[test]
fn files_of_the_initial_state() {
    let file = |file: &str| plate("", &format!("file = \"{file}\""));
    let image = |file: &str| plate("", &format!("image = \"{file}\""));
    check_cases(
        &dir_with_fields(),
        &[
            (file("turned.npy"), "CASE:8:8: turned.npy: 4 x 5 values, expected 5 x 4 as [grid] nodes"),
            (
                file("nan.npy"),
                "CASE:8:8: nan.npy: the initial state is NaN at node (2, 1), x = 2.0, y = 1.0, expected a finite number in double precision",
            ),
            (file("flat.npy"), "CASE:8:8: flat.npy: array flat: got shape [20], expected shape [ny, nx]"),
            (
                file("cut.npy"),
                "CASE:8:8: cut.npy: array cut: got 72 bytes of data, expected shape [4, 5] of 8 bytes each",
            ),
            (
                file("letter.npy"),
                "CASE:8:8: letter.npy: array letter: got no npy magic, expected a numpy array",
            ),
            (
                file("missing.npy"),
                "CASE:8:8: initial.file = \"missing.npy\" does not exist, expected an NPY file",
            ),
            (file("wide.png"), "CASE:8:8: wide.png: array wide: got no npy magic, expected a numpy array"),
            (image("wide.png"), "CASE:8:9: wide.png: 6 x 4 pixels, expected 5 x 4 as [grid] nodes"),
            (
                image("letter.png"),
                "CASE:8:9: letter.png: image: got \"Invalid PNG signature\", expected an intact PNG image",
            ),
            (
                image("ones.npy"),
                "CASE:8:9: ones.npy: image: got \"Invalid PNG signature\", expected an intact PNG image",
            ),
            (
                image("folder.npy"),
                "CASE:8:9: initial.image = \"folder.npy\" is not a file, expected a PNG image",
            ),
            (
                image("missing.png"),
                "CASE:8:9: initial.image = \"missing.png\" does not exist, expected a PNG image",
            ),
            (
                plate("precision = \"single\"", "state = \"uniform\"\nvalue = 1e39"),
                "CASE:7:1: [initial]: the initial state is 1e39 at node (0, 0), x = 0.0, y = 0.0, expected a finite number in single precision",
            ),
            (
                plate("", "state = \"hot-spot\"\nvalue = 1e308\nbackground = -1e308"),
                "CASE:7:1: [initial]: the initial state is inf at node (0, 0), x = 0.0, y = 0.0, expected a finite number in double precision",
            ),
        ],
    );
}

#[test]
fn settings_of_a_preset() {
    let run = |set: &'static str| vec!["run", "sine-decay", "--quiet", "--set", set];
    let with_memory = |memory: &'static str| vec!["run", "sine-decay", "--quiet", "--max-memory", memory];
    let mistakes = [
        (
            run("time.step=1e-3"),
            "--set time.step=1e-3: time.step = 1e-3 is unstable on this grid, expected at most 3.814e-6, or \"auto\"",
        ),
        (run("grid.nx=2"), "--set grid.nx=2: grid.nx = 2 is outside 3 <= nx <= 1073741824"),
        (
            run("grid.nx=1e6"),
            "preset sine-decay:30:16: output.record_every = \"100 steps\" gives 4444444444 rows until end = 0.1, expected at most 1e7",
        ),
        (
            run("heat.west.condition=periodic"),
            "--set heat.west.condition=periodic: heat.west.condition = \"periodic\" and the east edge is not periodic, expected both or neither",
        ),
        (
            run("heat.west.value=hot"),
            "--set heat.west.value=hot: heat.west.value = \"hot\": 'hot' is not a quantity, expected a plain number",
        ),
        (
            run("heat.region=disc"),
            "--set heat.region=disc: heat.region = \"disc\" is a string, expected a list of sections [[heat.region]]",
        ),
        (
            run("heat.region.source=1"),
            "--set heat.region.source=1: heat.region is a table, expected a list of sections [[heat.region]]",
        ),
        (
            run("bodies.n=100"),
            "--set bodies.n=100: [bodies] is for gravity, and the section [heat] selects heat",
        ),
        (
            run("gravity.theta=0.5"),
            "--set gravity.theta=0.5: [gravity] and [heat] are both present, expected one physics per case",
        ),
        (
            run("time.integrator=yoshida4"),
            "--set time.integrator=yoshida4: time.integrator is for gravity, and the section [heat] selects heat",
        ),
        (
            run("time.end=1e300"),
            "--set time.end=1e300: time.step = \"auto\" (default) takes 3e305 steps to end = 1e300, expected at most 2^53 steps",
        ),
        (
            run("output.format=hdf5"),
            "--set output.format=hdf5: output.format = \"hdf5\" is for gravity, expected npy or vti",
        ),
        (
            run("image.high=-1"),
            "--set image.high=-1: image.low = 0.0 is not below image.high = -1, expected low < high",
        ),
        (with_memory("1.5 MB"), "[grid]: ..."),
        (
            with_memory("100 kB"),
            "preset sine-decay:10:6: 257 x 257 nodes need 1.0 MiB of memory, 97.7 KiB are available",
        ),
    ];
    let mistakes: Vec<(&[&str], &str)> =
        mistakes.iter().map(|(arguments, expected)| (&arguments[..], *expected)).collect();
    check_messages(&TestDir::new(), &mistakes);
}
