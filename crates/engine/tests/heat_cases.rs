//! Valid cases of heat: defaults, forms of their keys, files, the automatic step, and the resolved
//! text.

use std::fs;
use std::path::Path;

use orrery_engine::case::{
    Case, CaseSource, EdgeCondition, EdgeProfile, Every, HeatCase, InitialState, NodeValues, SnapshotFormat,
    StopRange,
};
use orrery_formats::{FieldValues, write_field_npy};
use orrery_gravity::settings::StepChoice;
use orrery_model::grid::{Grid, InitialField, SpotShape};
use orrery_model::{Precision, Units};

use crate::cases::{assert_round_trip, load, source};

/// Returns the text of a case of 5 x 4 nodes, with `rest` after its first lines.
fn plate(rest: &str) -> String {
    format!("grid = {{ nx = 5, ny = 4, hx = 0.5 }}\ntime = {{ step = 0.01, end = 1 }}\n{rest}")
}

fn load_text(text: &str) -> Case {
    load(&source(text), &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn heat(case: &Case) -> &HeatCase {
    case.heat().expect("a case of heat")
}

fn fixed(value: f64) -> EdgeCondition {
    EdgeCondition::Fixed(EdgeProfile::Constant(value))
}

#[test]
fn missing_keys_have_defaults() {
    let case = load_text(
        "heat = {}\ngrid = { nx = 5, ny = 4, hx = 0.5 }\ninitial.state = \"uniform\"\ntime.end = 1\n",
    );
    assert_eq!(case.units, Units::Dimensionless);
    let heat = heat(&case);
    assert_eq!(heat.grid, Grid { nx: 5, ny: 4, hx: 0.5, hy: 0.5 });
    assert_eq!(heat.conductivity, NodeValues::Uniform(1.0));
    assert_eq!(heat.source, NodeValues::Uniform(0.0));
    assert_eq!(heat.edges, [const { EdgeCondition::Insulated }; 4]);
    assert_eq!((heat.precision, heat.unit.as_str(), heat.stop), (Precision::Double, "", None));
    assert_eq!(heat.initial, InitialState::Formula(InitialField::Uniform { value: 0.0 }));
    assert_eq!((heat.view.colour_map, heat.view.low, heat.view.high), ("inferno", None, None));
    // 0.9 h²/4 = 0.05625, rounded down.
    assert_eq!(case.time.step, StepChoice::Fixed(0.0562));
    assert_eq!(case.time.start, Some(0.0));
    assert_eq!(case.output.format, SnapshotFormat::Npy);
    assert_eq!(case.output.record_every, Every::Steps(10));
    assert_eq!(case.limits.drift, Some(0.001));
    assert_round_trip(&case);
}

#[test]
fn spacings_follow_from_extents_and_periodic_edges() {
    let ring = "heat.west.condition = \"periodic\"\nheat.east.condition = \"periodic\"\n";
    for (grid, edges, expected) in [
        ("hx = 0.5", "", [0.5, 0.5]),
        ("hx = 0.5, hy = 0.25", "", [0.5, 0.25]),
        ("width = 2", "", [0.5, 0.5]),
        ("width = 2, height = 3", "", [0.5, 1.0]),
        ("width = 2, hy = 2", "", [0.5, 2.0]),
        // The east edge is one space beyond the last node.
        ("width = 2", ring, [0.4, 0.4]),
        ("width = 2, height = 3", ring, [0.4, 1.0]),
    ] {
        let text = format!(
            "grid = {{ nx = 5, ny = 4, {grid} }}\nheat.conductivity = 1\n{edges}\
             initial.state = \"uniform\"\ntime = {{ step = 0.01, end = 1 }}\n"
        );
        let case = load_text(&text);
        assert_eq!([heat(&case).grid.hx, heat(&case).grid.hy], expected, "{grid}");
        assert_round_trip(&case);
    }
}

#[test]
fn hot_spots_have_the_centre_of_the_plate_by_default() {
    let spot = |rest: &str| {
        let case = load_text(&plate(&format!("heat = {{}}\ninitial = {{ state = \"hot-spot\"{rest} }}")));
        assert_round_trip(&case);
        let InitialState::Formula(InitialField::HotSpot { centre, radius, shape, .. }) = heat(&case).initial
        else {
            panic!("{case:?}")
        };
        (centre, radius, shape)
    };
    // The plate is 2 wide and 1.5 high.
    let (centre, radius, shape) = spot("");
    assert_eq!((centre, shape), ([1.0, 0.75], SpotShape::Gaussian));
    assert!((radius - 0.15).abs() < 1e-15);
    assert_eq!(spot(", x = -1, radius = 2, shape = \"disc\""), ([-1.0, 0.75], 2.0, SpotShape::Disc));
}

/// Writes the files of [`every_form_reads_back_from_the_resolved_text`].
fn write_fields(folder: &Path) {
    let grid = Grid { nx: 5, ny: 4, hx: 0.5, hy: 0.5 };
    write_field_npy(&folder.join("field.npy"), &grid, FieldValues::Double(&[0.7; 20])).unwrap();
    for name in ["edge.npy", "start.png"] {
        fs::write(folder.join(name), "").unwrap();
    }
}

#[test]
fn every_form_reads_back_from_the_resolved_text() {
    let folder = tempfile::tempdir().unwrap();
    write_fields(folder.path());
    let uniform = "initial.state = \"uniform\"\n";
    let edge = |edge: &str| format!("heat.west = {{ {edge} }}\n{uniform}");
    let with_initial = |initial: &str| format!("heat = {{}}\ninitial = {{ {initial} }}\n");
    let region = |region: &str| format!("heat.region = [{{ {region} }}]\n{uniform}");
    let forms = [
        edge("condition = \"insulated\""),
        edge("condition = \"fixed\", value = -3.5"),
        edge("condition = \"fixed\", profile = [1, 2.5, -1e-7]"),
        edge("condition = \"fixed\", file = \"edge.npy\""),
        edge("condition = \"flux\", value = 1e-300"),
        edge("condition = \"flux\", profile = [0, 1]"),
        edge("condition = \"flux\", file = \"edge.npy\""),
        edge("condition = \"periodic\" }\nheat.east = { condition = \"periodic\""),
        region("shape = \"disc\", x = 1, y = -1, radius = 0.1, source = 3"),
        region("shape = \"rectangle\", x = 0, y = 0, width = 1, height = 2, conductivity = 0.5"),
        region(
            "shape = \"disc\", x = 1, y = 1, radius = 1, source = -1 }, \
             { shape = \"rectangle\", x = 0, y = 0, width = 1, height = 2, conductivity = 2, source = 0",
        ),
        format!("heat.conductivity_file = \"field.npy\"\nheat.source_file = \"field.npy\"\n{uniform}"),
        format!("heat.heat_capacity_file = \"field.npy\"\n{uniform}"),
        region("shape = \"disc\", x = 1, y = 1, radius = 1, heat_capacity = 0.5"),
        format!("heat.heat_capacity = 3.44e6\n{uniform}"),
        format!("heat.conductivity = 2e-5\nheat.source = -1.5\n{uniform}"),
        format!("heat = {{ precision = \"single\", unit = \"°C \\\"x\\\"\" }}\n{uniform}"),
        format!("heat = {{ stop_range = 0.25, stop_every = 7 }}\n{uniform}"),
        with_initial("state = \"uniform\", value = 293.15"),
        with_initial("state = \"sine-mode\", m = 3, n = 2, amplitude = -1"),
        with_initial("state = \"hot-spot\", shape = \"disc\", x = 1, y = 0, value = 5, background = 1"),
        with_initial("state = \"checkerboard\", columns = 2, rows = 3, first = -1, second = 4"),
        with_initial("file = \"field.npy\""),
        with_initial("image = \"start.png\", low = 3, high = -3"),
        format!("heat = {{}}\n{uniform}output.format = \"vti\"\nlimits.on_heat_error = \"stop\"\n"),
        format!("heat = {{}}\n{uniform}image = {{ colormap = \"diverging\", low = -1, high = 1 }}\n"),
        format!("heat = {{}}\n{uniform}limits.heat_error = \"none\"\ntime.start = 0.5\n"),
    ];
    for form in forms {
        let text = match form.contains("time.start") {
            true => plate(&form.replace("time.start = 0.5\n", "")).replace("end = 1", "start = 0.5, end = 1"),
            false => plate(&form),
        };
        let source =
            CaseSource::Text { label: "case.toml".into(), text: text.clone(), folder: folder.path().into() };
        let case = load(&source, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_round_trip(&case);
    }
}

#[test]
fn resolved_cases_keep_the_units_of_the_user() {
    let case = load_text(
        "units = \"si\"\ngrid = { nx = 5, ny = 4, hx = \"5 mm\", height = \"20 cm\" }\n\
         heat.conductivity = 1e-4\ninitial = { state = \"hot-spot\", radius = \"2mm\" }\n\
         heat.region = [{ shape = \"disc\", x = \"1 cm\", y = 0.01, radius = \"3 mm\", source = 1 }, \
         { shape = \"rectangle\", x = \"-1 cm\", y = \"2 mm\", width = \"1 m\", height = \"1 m\", source = 2 }]\n\
         time = { step = \"10 ms\", end = \"2 min\" }\noutput.image_every = \"5 s\"\n",
    );
    let resolved = case.to_toml();
    for line in [
        "hx = \"5 mm\"",
        "radius = \"2 mm\"",
        "radius = \"3 mm\"",
        "x = \"1 cm\"",
        "x = \"-1 cm\"",
        "y = 0.01",
        "step = \"10 ms\"",
        "end = \"2 min\"",
        "image_every = \"5 s\"",
    ] {
        assert!(resolved.lines().any(|found| found == line), "{line}\n{resolved}");
    }
    assert_eq!(case.time.end, 120.0);
    assert!((heat(&case).grid.hy - 0.2 / 3.0).abs() < 1e-17);
    assert_round_trip(&case);
    let numbers = load_text(&case.to_plain_toml());
    assert_eq!(numbers, case);
    assert!(!numbers.to_toml().contains("mm\""));
}

/// Returns the step of a case with a conductivity of 0.7 and a spacing of 0.1, where the longest
/// stable step is 0.01/(4 × 0.7) = 0.0035714.
fn auto_step(heat: &str, end: f64, folder: &Path) -> Case {
    let text = format!(
        "grid = {{ nx = 21, ny = 11, hx = 0.1 }}\n{heat}\ninitial.state = \"uniform\"\ntime.end = {end}\n"
    );
    let source = CaseSource::Text { label: "case.toml".into(), text, folder: folder.into() };
    load(&source, &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn automatic_steps_are_rounded_down_from_the_stability_limit_for_any_end() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid { nx: 21, ny: 11, hx: 0.1, hy: 0.1 };
    let mut values = vec![0.7; grid.len()];
    write_field_npy(&folder.path().join("uniform.npy"), &grid, FieldValues::Double(&values)).unwrap();
    values[grid.index(9, 5)..][..3].fill(7.0);
    write_field_npy(&folder.path().join("bar.npy"), &grid, FieldValues::Double(&values)).unwrap();
    let inlay = |k: f64| {
        format!(
            "heat.region = [{{ shape = \"rectangle\", x = 0.5, y = 0.3, width = 1, height = 0.4, conductivity = {k} }}]\n"
        )
    };
    for (heat, expected) in [
        ("heat.conductivity = 0.7".to_owned(), 0.00321),
        // 0.9 × 0.01/(4 × 7), inside of the region.
        ("heat.conductivity = 0.7\n".to_owned() + &inlay(7.0), 0.000321),
        // A poor conductor does not change the limit of the plate around it.
        ("heat.conductivity = 0.7\n".to_owned() + &inlay(0.07), 0.00321),
        ("heat.conductivity_file = \"uniform.npy\"".to_owned(), 0.00321),
        // The middle of the bar has faces of 7 along x, and 2/(1/7 + 1/0.7) = 1.2727 along y:
        // 0.9 × 0.01/(2 (7 + 1.2727)) = 0.00054396.
        ("heat.conductivity_file = \"bar.npy\"".to_owned(), 0.000543),
    ] {
        for end in [0.0035, 1.0, 30.0, 31.007] {
            let case = auto_step(&heat, end, folder.path());
            assert_eq!(case.time.step, StepChoice::Fixed(expected), "{heat}, end {end}");
            assert!(case.to_toml().contains(&format!("\nstep = {expected:?}\n")));
            assert_round_trip(&case);
        }
    }
}

/// The limit itself is stable, and the next number is not.
#[test]
fn steps_up_to_the_stability_limit_are_accepted() {
    let with_step = |step: f64| {
        let text = format!("heat = {{}}\ninitial.state = \"uniform\"\n{}", plate(""));
        load(&source(&text), &[&format!("time.step={step:?}")])
    };
    let limit = 0.0625;
    assert_eq!(with_step(limit).unwrap().time.step, StepChoice::Fixed(limit));
    let message = with_step(limit.next_up()).unwrap_err().to_string();
    assert_eq!(
        message,
        "--set time.step=0.06250000000000001: time.step = 0.06250000000000001 is unstable on this grid, \
         expected at most 0.0625, or \"auto\""
    );
}

#[test]
fn relative_paths_start_from_the_folder_of_the_case() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("fields")).unwrap();
    write_fields(&folder.path().join("fields"));
    let text = plate(
        "heat.conductivity_file = \"fields/field.npy\"\nheat.source_file = \"fields/field.npy\"\n\
         heat.south = { condition = \"flux\", file = \"fields/edge.npy\" }\n\
         initial.image = \"fields/start.png\"\n",
    );
    let path = folder.path().join("case.toml");
    fs::write(&path, text).unwrap();
    let case = load(&CaseSource::File(path), &[]).unwrap();
    let files = ["edge.npy", "field.npy", "field.npy", "start.png"];
    assert_eq!(case.input_files(), files.map(|name| folder.path().join("fields").join(name)));
    let absolute = case.with_absolute_paths();
    let elsewhere =
        CaseSource::Text { label: "copy".into(), text: absolute.to_toml(), folder: "elsewhere".into() };
    assert_eq!(load(&elsewhere, &[]).unwrap().input_files(), case.input_files());
}

#[test]
fn settings_replace_keys_of_edges_and_add_regions() {
    let preset = CaseSource::from_argument("sine-decay").unwrap();
    let set = |sets: &[&str]| load(&preset, sets).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(heat(&set(&["heat.west.value=3"])).edges[0], fixed(3.0));
    assert_eq!(heat(&set(&["heat.west.value=3"])).edges[1], fixed(0.0));
    let case = set(&["heat.north={ condition = \"flux\", profile = [1, 2] }", "heat.precision=single"]);
    assert_eq!(heat(&case).edges[3], EdgeCondition::Flux(EdgeProfile::Points(vec![1.0, 2.0])));
    assert_eq!(heat(&case).precision, Precision::Single);
    let region = "heat.region=[{ shape = \"disc\", x = 0.5, y = 0.5, radius = 0.1, source = 2 }]";
    assert_eq!(heat(&set(&[region])).regions[0].source, Some(2.0));
    assert_eq!(heat(&set(&["heat.stop_range=0.1"])).stop, Some(StopRange { below: 0.1, every: 100 }));
    assert_eq!(heat(&set(&["grid.nx=1e2"])).grid.nx, 100);
}

#[test]
fn inline_tables_are_sections() {
    let inline = load_text(
        "grid = { nx = 5, ny = 4, hx = 0.5 }\ntime = { step = 0.01, end = 1 }\n\
         initial = { state = \"uniform\", value = 2 }\n\
         heat = { west = { condition = \"fixed\", value = 1 }, region = [\n\
         { shape = \"disc\", x = 1, y = 1, radius = 1, source = 3 } ] }\n",
    );
    let sections = load_text(
        "[grid]\nnx = 5\nny = 4\nhx = 0.5\n[heat.west]\ncondition = \"fixed\"\nvalue = 1\n\
         [[heat.region]]\nshape = \"disc\"\nx = 1\ny = 1\nradius = 1\nsource = 3\n\
         [initial]\nstate = \"uniform\"\nvalue = 2\n[time]\nstep = 0.01\nend = 1\n",
    );
    assert_eq!(inline, sections);
    assert_eq!(inline.to_toml(), sections.to_toml());
}

/// A checkpoint may come from anywhere, so no file is read to compute a step.
#[test]
fn the_case_of_a_resumed_run_has_its_step() {
    let text = "grid = { nx = 5, ny = 4, hx = 0.5 }\nheat.conductivity_file = \"/dev/zero\"\n\
                initial.state = \"uniform\"\ntime = { step = \"auto\", end = 1 }\n";
    let error = Case::load_from_checkpoint(text, "checkpoint", &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "checkpoint:4:17: time.step = \"auto\" is for a new run, expected the step of the run"
    );
    let number = text.replace("\"auto\"", "0.01");
    assert!(Case::load_from_checkpoint(&number, "checkpoint", &[]).is_ok());
}
