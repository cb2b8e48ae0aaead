use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::wave::device::{WaveDeviceStrategy, WaveShape};
use orrery_fluids::FluidStrategy;
use orrery_fluids::sample::melt_settings;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_gravity::solver::tree::device::TreeDeviceStrategy;
use orrery_model::wave::WaveGrid;

use super::*;
use crate::bench::primitives::{PRODUCTION_CASES, SCAN_F32, SCAN_U32};
use crate::test_device;

fn example_tuning(device: &Device, sizes: &[usize]) -> Tuning {
    let mut tuning = Tuning::new(device);
    for &n in sizes {
        let precision = Precision::Single;
        let strategy = DirectDeviceStrategy::candidates(device, n, precision)[0];
        tuning.insert(TunedEntry { problem: DirectProblem { n, precision }, strategy, seconds: 1e-3 });
    }
    tuning
}

/// Reads a file as a program that knows only the production primitives.
fn load_known(path: &Path, device: &Device) -> Result<Option<Tuning>, IgnoredFile> {
    Tuning::load_from(path, device, &PRODUCTION_CASES)
}

#[test]
fn nearest_size_within_a_factor_of_four_is_used() {
    let Some(device) = test_device() else { return };
    let tuning = example_tuning(&device, &[1024, 16_384]);
    let nearest_size = |n| tuning.nearest_entry(n, Precision::Single).map(|entry| entry.problem.n);
    assert_eq!(nearest_size(1024), Some(1024));
    assert_eq!(nearest_size(256), Some(1024));
    assert_eq!(nearest_size(255), None);
    assert_eq!(nearest_size(4000), Some(1024));
    assert_eq!(nearest_size(4200), Some(16_384));
    assert_eq!(nearest_size(65_536), Some(16_384));
    assert_eq!(nearest_size(65_600), None);
    assert_eq!(nearest_size(0), None);
    assert_eq!(tuning.nearest_entry(1024, Precision::Double), None);
}

#[test]
fn saved_entries_are_merged_with_the_existing_file() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning/x.json");
    assert_eq!(load_known(&path, &device), Ok(None));
    example_tuning(&device, &[4096]).save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    example_tuning(&device, &[1024]).save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    let loaded = load_known(&path, &device).unwrap().unwrap();
    assert_eq!(loaded, example_tuning(&device, &[1024, 4096]));
}

#[test]
fn damaged_and_stale_files_are_ignored_with_a_one_line_reason() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let valid = serde_json::to_string(&example_tuning(&device, &[1024])).unwrap();
    let driver = serde_json::to_string(&device.properties().driver).unwrap();
    let cases = [
        (String::new(), "damaged"),
        (valid[..valid.len() / 2].to_owned(), "damaged"),
        ("[1, 2]".to_owned(), "damaged"),
        (valid.replace("\"form\":\"tiled\"", "\"form\":\"tensor\""), "damaged (unknown variant `tensor`"),
        // A kernel of a lecture, which earlier versions knew.
        (
            valid.replace("\"form\":\"tiled\"", "\"form\":\"fast-math\""),
            "damaged (unknown variant `fast-math`, expected `tiled` or `pairs-once`",
        ),
        (valid.replace("\"n\":1024", "\"n\":-1"), "damaged"),
        (valid.replace("\"n\":1024", "\"n\":1024,\"m\":1"), "damaged (unknown field `m`"),
        (valid.replace("\"layout\":1", "\"layout\":7"), "stale (layout 7, expected 1)"),
        (valid.replace(&driver, "\"another\""), "stale (driver another"),
        (valid.replace(PROGRAM, "0.0.0"), "stale (program 0.0.0"),
        (valid.replace("\"block\":", "\"block\":1"), "stale (its strategy for 1024 bodies"),
    ];
    for (text, expected) in cases {
        std::fs::write(&path, &text).unwrap();
        let ignored = load_known(&path, &device).expect_err(&text);
        assert!(ignored.reason.starts_with(expected), "{}: expected {expected}", ignored.reason);
        let message = ignored.to_string();
        assert!(message.contains("x.json: ignored, ") && !message.contains('\n'), "{message}");
        // Saving replaces the unusable file.
        example_tuning(&device, &[1024]).save_to(&path, &device, &PRODUCTION_CASES).unwrap();
        assert!(load_known(&path, &device).unwrap().is_some());
    }
}

#[test]
fn tree_entries_are_kept_with_others_and_found_by_the_number_of_bodies() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    // A file of an earlier version has no entries for the tree.
    let text = serde_json::to_string(&example_tuning(&device, &[1024])).unwrap();
    std::fs::write(&path, text.replace(",\"tree\":[]", "")).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("tree"));
    let mut tree = Tuning::new(&device);
    for (n, precision) in [
        (65_536, Precision::Single),
        (4096, Precision::Single),
        (4096, Precision::Mixed),
        (4096, Precision::Single),
    ] {
        // The last candidate has other leaves than the default.
        let strategy = *TreeDeviceStrategy::candidates(&device, precision).last().unwrap();
        let problem = TreeProblem { n, precision, theta: 0.6 };
        tree.insert(TunedEntry { problem, strategy, seconds: 1e-3 });
    }
    tree.save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    let loaded = load_known(&path, &device).unwrap().unwrap();
    assert_eq!((loaded.entries.entries().len(), loaded.tree.entries().len()), (1, 3));
    let nearest_size = |n, precision| loaded.nearest_tree_entry(n, precision).map(|entry| entry.problem.n);
    assert_eq!(
        [1023, 1024, 30_000, 300_000].map(|n| nearest_size(n, Precision::Single)),
        [None, Some(4096), Some(65_536), None]
    );
    assert_eq!(nearest_size(30_000, Precision::Mixed), None);
    assert_eq!(nearest_size(4096, Precision::Double), None);
    let valid = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"leaf_size\": ", "\"leaf_size\": 9"),
        ("\"group_size\": 32", "\"group_size\": 16"),
        ("\"order\": \"quadrupole\"", "\"order\": \"monopole\""),
        ("\"theta\": 0.6", "\"theta\": 2.0"),
    ] {
        let stale = valid.replace(from, to);
        assert_ne!(stale, valid);
        std::fs::write(&path, stale).unwrap();
        let reason = load_known(&path, &device).unwrap_err().reason;
        assert_eq!(reason, "stale (its strategy for the tree of 4096 bodies is not available)");
    }
}

fn heat_entry(device: &Device, side: usize, is_variable: bool) -> TunedEntry<HeatPlateProblem> {
    let precision = Precision::Single;
    let strategy = HeatDeviceStrategy::default_for(device, side * side, precision, is_variable);
    TunedEntry { problem: HeatPlateProblem { side, precision, is_variable }, strategy, seconds: 1e-3 }
}

#[test]
fn heat_entries_are_kept_with_others_and_found_by_the_number_of_nodes() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    // A file of an earlier version has no entries for heat.
    let text = serde_json::to_string(&example_tuning(&device, &[1024])).unwrap();
    std::fs::write(&path, text.replace(",\"heat\":[]", "")).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("heat"));
    let mut heat = Tuning::new(&device);
    for (side, is_variable) in [(1024, false), (4096, false), (1024, true), (1024, false)] {
        heat.insert(heat_entry(&device, side, is_variable));
    }
    heat.save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    let loaded = load_known(&path, &device).unwrap().unwrap();
    assert_eq!((loaded.entries.entries().len(), loaded.heat.entries().len()), (1, 3));
    let side = |nodes, is_variable| {
        loaded.nearest_heat_entry(nodes, Precision::Single, is_variable).map(|entry| entry.problem.side)
    };
    assert_eq!(side(1 << 20, false), Some(1024));
    assert_eq!(side(1 << 18, false), Some(1024));
    assert_eq!(side((1 << 18) - 1, false), None);
    assert_eq!(side(5000 * 5000, false), Some(4096));
    assert_eq!((side(1 << 20, true), side(1 << 24, true)), (Some(1024), None));
    assert_eq!(loaded.nearest_heat_entry(1 << 20, Precision::Double, false), None);
    let stale = std::fs::read_to_string(&path).unwrap().replace("\"waves\": ", "\"waves\": 9");
    std::fs::write(&path, stale).unwrap();
    let reason = load_known(&path, &device).unwrap_err().reason;
    assert_eq!(reason, "stale (its strategy for 1024 x 1024 nodes is not available)");
}

fn wave_entry(
    device: &Device,
    dimensions: usize,
    side: usize,
    is_variable: bool,
) -> TunedEntry<WaveGridProblem> {
    let precision = Precision::Single;
    let strategy = WaveDeviceStrategy::default_for(device, wave_shape(dimensions, side));
    let problem = WaveGridProblem { dimensions, side, precision, is_variable };
    TunedEntry { problem, strategy, seconds: 1e-3 }
}

fn wave_shape(dimensions: usize, side: usize) -> WaveShape {
    let grid = match dimensions {
        2 => WaveGrid::plane([side; 2], [1.0; 2]),
        _ => WaveGrid::volume([side; 3], [1.0; 3]),
    };
    WaveShape::new(&grid, 4, Precision::Single)
}

#[test]
fn wave_entries_are_kept_with_others_and_found_by_shape() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    // A file of an earlier version has no entries for waves.
    let mut old = example_tuning(&device, &[1024]);
    old.insert(heat_entry(&device, 1024, false));
    let text = serde_json::to_string(&old).unwrap().replace(",\"wave\":[]", "");
    assert!(!text.contains("wave\""));
    std::fs::write(&path, text).unwrap();
    let mut wave = Tuning::new(&device);
    for (dimensions, side, is_variable) in
        [(3, 128, false), (3, 512, false), (3, 128, true), (2, 2048, false), (3, 128, false)]
    {
        wave.insert(wave_entry(&device, dimensions, side, is_variable));
    }
    wave.save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    let loaded = load_known(&path, &device).unwrap().unwrap();
    let counts = [loaded.entries.entries().len(), loaded.heat.entries().len(), loaded.wave.entries().len()];
    assert_eq!(counts, [1, 1, 4]);
    let side = |shape: WaveShape, is_variable| {
        loaded
            .nearest_wave_entry(&shape, is_variable)
            .map(|entry| (entry.problem.dimensions, entry.problem.side))
    };
    assert_eq!(side(wave_shape(3, 128), false), Some((3, 128)));
    // 128³ = 2^21 nodes apply from 2^19 to 2^23 nodes, and 80³ < 2^19 < 81³.
    assert_eq!((side(wave_shape(3, 81), false), side(wave_shape(3, 80), false)), (Some((3, 128)), None));
    assert_eq!((side(wave_shape(3, 400), false), side(wave_shape(3, 400), true)), (Some((3, 512)), None));
    assert_eq!((side(wave_shape(2, 1024), false), side(wave_shape(2, 2048), true)), (Some((2, 2048)), None));
    assert_eq!(side(WaveShape { radius: 3, ..wave_shape(3, 128) }, false), None);
    assert_eq!(side(WaveShape { precision: Precision::Double, ..wave_shape(3, 128) }, false), None);
    let valid = std::fs::read_to_string(&path).unwrap();
    for (from, to, grid) in [
        ("\"planes_per_chunk\": ", "\"planes_per_chunk\": 9", "2048²"),
        ("\"side\": 2048", "\"side\": 4294967296", "4294967296²"),
        ("\"dimensions\": 2", "\"dimensions\": 4", "2048²"),
    ] {
        std::fs::write(&path, valid.replace(from, to)).unwrap();
        let reason = load_known(&path, &device).unwrap_err().reason;
        assert_eq!(reason, format!("stale (its strategy for waves on {grid} nodes is not available)"));
    }
}

#[test]
fn fluid_entries_are_kept_with_others_and_found_by_the_number_of_particles() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    // A file of an earlier version has no entries for fluids.
    let text = serde_json::to_string(&example_tuning(&device, &[1024])).unwrap();
    std::fs::write(&path, text.replace(",\"fluid\":[]", "")).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("fluid"));
    let mut fluid = Tuning::new(&device);
    for n in [65_536, 4096, 4096] {
        // The last candidate has another skin than the default.
        let strategy = *FluidStrategy::candidates(&device, n, &melt_settings()).last().unwrap();
        fluid.insert(TunedEntry { problem: FluidProblem { n }, strategy, seconds: 1e-3 });
    }
    fluid.save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    let loaded = load_known(&path, &device).unwrap().unwrap();
    assert_eq!((loaded.entries.entries().len(), loaded.fluid.entries().len()), (1, 2));
    let nearest_size = |n| loaded.nearest_fluid_entry(n).map(|entry| entry.problem.n);
    assert_eq!(
        (nearest_size(1023), nearest_size(1024), nearest_size(10_000)),
        (None, Some(4096), Some(4096))
    );
    assert_eq!((nearest_size(30_000), nearest_size(300_000)), (Some(65_536), None));
    let stale = std::fs::read_to_string(&path).unwrap().replace("\"lanes\": ", "\"lanes\": 9");
    std::fs::write(&path, stale).unwrap();
    let reason = load_known(&path, &device).unwrap_err().reason;
    assert_eq!(reason, "stale (its strategy for a fluid of 4096 particles is not available)");
}

#[test]
fn primitive_entries_are_kept_with_others_and_found_by_name_and_size() {
    let Some(device) = test_device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    // A file of an earlier version has no entries for primitives.
    let text = serde_json::to_string(&example_tuning(&device, &[1024])).unwrap();
    std::fs::write(&path, text.replace(",\"primitives\":[]", "")).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains("primitives"));
    let mut primitives = Tuning::new(&device);
    for (primitive, n, strategy) in [
        ("scan f32", 4096, "256 x 8, shared"),
        ("scan f32", 65_536, "128 x 8, shared"),
        ("unknown image", 4096, "32 x 32"),
        ("scan f32", 4096, "512 x 4, shared"),
    ] {
        let (primitive, strategy) = (primitive.to_owned(), strategy.to_owned());
        let problem = PrimitiveProblem { primitive, n };
        primitives.insert(TunedEntry { problem, strategy, seconds: 1e-3 });
    }
    primitives.save_to(&path, &device, &PRODUCTION_CASES).unwrap();
    let loaded = load_known(&path, &device).unwrap().unwrap();
    assert_eq!((loaded.entries.entries().len(), loaded.primitives.entries().len()), (1, 3));
    let tuned = |primitive: &PrimitiveCase, n| {
        loaded.tuned_candidate(primitive, n).map(|index| primitive.candidate_names().swap_remove(index))
    };
    assert_eq!(tuned(SCAN_F32, 1024).as_deref(), Some("512 x 4, shared"));
    assert_eq!(tuned(SCAN_F32, 20_000).as_deref(), Some("128 x 8, shared"));
    // An entry of a primitive that this program does not know.
    assert_eq!(loaded.primitives.nearest(&"unknown image".to_owned(), 4096).unwrap().strategy, "32 x 32");
    assert_eq!((tuned(SCAN_F32, 1023), tuned(SCAN_U32, 4096)), (None, None));
    let stale = std::fs::read_to_string(&path).unwrap().replace("128 x 8", "128 x 9");
    std::fs::write(&path, stale).unwrap();
    let reason = load_known(&path, &device).unwrap_err().reason;
    assert_eq!(reason, "stale (its strategy for scan f32, 65536 elements, is not available)");
}
