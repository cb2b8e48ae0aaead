//! A plate as a system of the engine, on the CPU and on every available device.

use orrery_device::testing::test_devices_with_f64;
use orrery_fields::heat::HeatField;
use orrery_formats::Limits;
use orrery_gravity::settings::StepChoice;
use orrery_model::grid::{Grid, InitialField, RegionShape, SpotShape};
use orrery_model::{Precision, Units};

use super::{HeatSystem, METHOD};
use crate::blocks::Blocks;
use crate::case::{
    Case, CaseSource, EdgeCondition, EdgeProfile, FieldView, HeatCase, InitialState, NodeValues, Physics,
    Region, StopRange,
};
use crate::compute_device::ComputeDevice;
use crate::control::{Control, RunEvent};
use crate::system::{Dynamics, Row, SavedSystem, SnapshotLabels, Stamp, System};

const DT: f64 = 1e-4;

/// Returns a sine mode between cold edges on 33 x 17 nodes.
fn sine_plate(precision: Precision) -> HeatCase {
    let cold = EdgeCondition::Fixed(EdgeProfile::Constant(0.0));
    HeatCase {
        grid: Grid { nx: 33, ny: 17, hx: 1.0 / 32.0, hy: 1.0 / 16.0 },
        edges: [cold.clone(), cold.clone(), cold.clone(), cold],
        conductivity: NodeValues::Uniform(1.0),
        heat_capacity: NodeValues::Uniform(1.0),
        source: NodeValues::Uniform(0.0),
        regions: Vec::new(),
        precision,
        unit: "K".to_owned(),
        stop: None,
        initial: InitialState::Formula(InitialField::SineMode { m: 1, n: 1, amplitude: 2.0 }),
        view: FieldView { colour_map: "inferno", low: None, high: None },
    }
}

/// Returns an insulated plate with a region that conducts better and is heated.
fn heated_plate(precision: Precision) -> HeatCase {
    let shape = RegionShape::Rectangle { corner: [0.25, 0.25], size: [0.5, 0.5] };
    HeatCase {
        edges: [const { EdgeCondition::Insulated }; 4],
        regions: vec![Region { shape, conductivity: Some(3.0), heat_capacity: None, source: Some(5.0) }],
        ..sine_plate(precision)
    }
}

/// Returns an insulated plate of two materials. The region is heated.
fn two_materials(precision: Precision) -> HeatCase {
    let mut plate = heated_plate(precision);
    plate.heat_capacity = NodeValues::Uniform(4.0);
    plate.regions[0].heat_capacity = Some(2.5);
    plate
}

/// Returns an insulated plate at 300 with a hot spot.
fn warm_plate(precision: Precision) -> HeatCase {
    let (shape, centre) = (SpotShape::Gaussian, [0.5, 0.5]);
    let spot = InitialField::HotSpot { shape, centre, radius: 0.1, value: 301.0, background: 300.0 };
    let edges = [const { EdgeCondition::Insulated }; 4];
    HeatCase { edges, initial: InitialState::Formula(spot), ..sine_plate(precision) }
}

fn case_of(heat: &HeatCase) -> Case {
    let text = format!("bodies.model = \"kepler\"\ntime = {{ step = {DT:?}, end = 1 }}\nimage.size = 96");
    let source = CaseSource::Text { label: "plate".into(), text, folder: Default::default() };
    let mut case = Case::load(&source, &[]).unwrap();
    case.physics = Physics::Heat(Box::new(heat.clone()));
    case
}

fn start(heat: &HeatCase, device: Option<orrery_device::Device>) -> (Case, System) {
    let selected = ComputeDevice { device, reason: None };
    System::start(&case_of(heat), selected, &Control::default(), &mut |_| {}).unwrap()
}

fn stamp(step: u64) -> Stamp {
    Stamp { step, time: step as f64 * DT }
}

fn row(system: &System, step: u64) -> Row {
    let Stamp { step, time } = stamp(step);
    Row { step, time, values: system.measure().unwrap() }
}

/// Returns the bits of all columns.
fn bits(system: &System) -> Vec<Vec<u8>> {
    let columns = system.columns().unwrap();
    columns.into_iter().map(|column| format!("{:?}", column.values.into_block()).into_bytes()).collect()
}

fn restored(case: &Case, system: &System) -> System {
    let blocks = system.columns().unwrap().into_iter();
    let blocks = blocks.map(|column| (column.name.to_owned(), column.values.into_block())).collect();
    let limits = Limits::default();
    let (path, count) = (std::path::Path::new("checkpoint"), system.size().count as usize);
    let saved = SavedSystem { path, case, count, method: METHOD, limits: &limits, stamp: stamp(0) };
    System::restore(&saved, &mut Blocks::new(path, blocks)).unwrap()
}

#[test]
fn batches_restored_states_and_devices_give_the_same_bits() {
    for precision in [Precision::Single, Precision::Double] {
        for heat in
            [sine_plate(precision), heated_plate(precision), two_materials(precision), warm_plate(precision)]
        {
            let (case, mut single) = start(&heat, None);
            (1..=50).for_each(|step| single.advance(DT, 1, &|_| stamp(step)).unwrap());
            let expected = (bits(&single), row(&single, 50));

            let (_, mut batched) = start(&heat, None);
            batched.advance(DT, 37, &stamp).unwrap();
            let mut parts = restored(&case, &batched);
            assert_eq!(bits(&parts), bits(&batched));
            batched.advance(DT, 13, &stamp).unwrap();
            parts.advance(DT, 13, &stamp).unwrap();
            for system in [&batched, &parts] {
                assert_eq!((bits(system), row(system, 50)), expected);
            }
            for device in test_devices_with_f64() {
                let (_, mut whole) = start(&heat, Some(device.clone()));
                whole.advance(DT, 50, &stamp).unwrap();
                let (_, mut host) = start(&heat, None);
                host.advance(DT, 20, &stamp).unwrap();
                let selected = ComputeDevice { device: Some(device.clone()), reason: None };
                let mut moved =
                    host.moved_to(&case, &selected, None, &Control::default(), &mut |_| {}).unwrap();
                moved.advance(DT, 30, &stamp).unwrap();
                for system in [&whole, &moved] {
                    assert_eq!(bits(system), expected.0);
                    assert!(system.device().is_some());
                }
            }
        }
    }
}

#[test]
fn a_look_ahead_shows_a_shorter_step_and_changes_nothing() {
    let (_, mut system) = start(&heated_plate(Precision::Double), None);
    system.advance(DT, 5, &stamp).unwrap();
    let before = bits(&system);
    let (_, mut shorter) = start(&heated_plate(Precision::Double), None);
    shorter.advance(DT, 5, &stamp).unwrap();
    shorter.advance(0.3 * DT, 1, &stamp).unwrap();
    let mut seen = None;
    let observed = system.look_ahead(0.3 * DT, &mut |ahead| {
        seen = Some((bits(ahead), ahead.measure().unwrap()));
        Ok(())
    });
    observed.unwrap().unwrap();
    assert_eq!(seen, Some((bits(&shorter), shorter.measure().unwrap())));
    assert_eq!(bits(&system), before);
}

/// The state before the last step and a copy that is written are part of the need, and at the start
/// the problem in f64. Measured peaks of 25 million nodes, in bytes per node with those of the
/// program: 32.8 and 16.8 for a uniform plate, 51.1 and 35.1 with regions and sources.
#[test]
fn the_memory_of_a_run_is_bounded_before_its_start() {
    let bytes_per_node = |heat: &HeatCase, on_device: bool| {
        let grid = Grid { nx: 5000, ny: 5000, ..heat.grid };
        super::host_bytes(&HeatCase { grid, ..heat.clone() }, on_device) as f64 / 25e6
    };
    for (precision, uniform, heated, on_device) in
        [(Precision::Double, 32.0, 56.0, 40.0), (Precision::Single, 16.0, 40.0, 32.0)]
    {
        let [sine, source] = [sine_plate(precision), heated_plate(precision)];
        let bytes = [(&sine, false), (&source, false), (&source, true)];
        let found = bytes.map(|(heat, on_device)| bytes_per_node(heat, on_device));
        for (found, expected) in found.into_iter().zip([uniform, heated, on_device]) {
            // Each thread of the CPU has a small workspace.
            assert!(found >= expected && found < expected + 1.0, "{precision:?}: {found}, not {expected}");
        }
        for (heat, device) in [(&sine, None), (&source, None)] {
            let (_, system) = start(heat, device);
            assert!(super::host_bytes(heat, false) >= system.host_bytes());
        }
    }
}

/// An image has 8 bytes per pixel on the device, and a little more.
#[test]
fn the_memory_of_images_on_a_device_is_part_of_the_need() {
    let heat = sine_plate(Precision::Single);
    for device in test_devices_with_f64() {
        let (case, system) = start(&heat, Some(device.clone()));
        let needed = system.device_bytes(&device);
        assert_eq!(needed, super::system::device_bytes(&case, &heat, 1));
        let field = HeatField::needed_bytes(&heat.grid, heat.precision, heat.plate_fields(), true);
        let pixels = 8 * 96 * 96;
        assert!((pixels..2 * pixels).contains(&(needed - field)), "{needed} {field}");
    }
}

/// The discrete solution is exact to round-off: each of the 200 steps rounds a few times.
#[test]
fn a_sine_mode_is_compared_with_its_solutions() {
    let (_, mut system) = start(&sine_plate(Precision::Double), None);
    system.advance(DT, 200, &stamp).unwrap();
    let errors = system.solution_errors(stamp(200)).unwrap();
    assert_eq!(errors.iter().map(|error| error.solution).collect::<Vec<_>>(), ["analytic", "exact discrete"]);
    // Second order in h: the relative error is about π² (hx² + hy²)/2/12 of the exponent 2π² t.
    assert!(errors[0].max > 1e-4 && errors[0].max < 2e-2, "{errors:?}");
    assert!(errors[1].max < 200.0 * 4.0 * 2.0 * f64::EPSILON, "{errors:?}");
    let (_, heated) = start(&heated_plate(Precision::Double), None);
    assert_eq!(heated.solution_errors(stamp(0)).unwrap(), []);
}

#[test]
fn the_heat_of_an_insulated_plate_follows_its_sources() {
    let heat = heated_plate(Precision::Double);
    let (_, mut system) = start(&heat, None);
    let first = row(&system, 0);
    system.advance(DT, 500, &stamp).unwrap();
    let last = row(&system, 500);
    let schema = system.schema(&Units::NBody);
    let header = "step,time,heat [K],minimum [K],maximum [K],range [K],flux_west [K],flux_east [K],\
                  flux_south [K],flux_north [K],sources [K]";
    assert_eq!(schema.csv_header(), header);
    let error = schema.drift.unwrap().error(&first, &last);
    assert!(error.abs() < 1e-13, "{error:e}");
    // 17 x 9 nodes of the region are heated.
    let sources = 5.0 * 153.0 / 512.0;
    assert!((schema.value(&last, "sources").unwrap() - sources).abs() < 1e-12);
    let gained = schema.value(&last, "heat").unwrap() - schema.value(&first, "heat").unwrap();
    assert!((gained - 0.05 * sources).abs() < 1e-12, "{gained}");
    // With heat capacities the fluxes and sources are the same, and so is the heat that they add.
    let (_, mut system) = start(&two_materials(Precision::Double), None);
    let first = row(&system, 0);
    system.advance(DT, 500, &stamp).unwrap();
    let last = row(&system, 500);
    let schema = system.schema(&Units::Si);
    assert_eq!((schema.unit("heat"), schema.unit("flux_west"), schema.unit("maximum")), ("J/m", "W/m", "K"));
    assert!(schema.drift.as_ref().unwrap().error(&first, &last).abs() < 1e-13);
    let gained = schema.value(&last, "heat").unwrap() - schema.value(&first, "heat").unwrap();
    assert!((gained - 0.05 * sources).abs() < 1e-12, "{gained}");
    // A fixed edge and a source: no exact value is known.
    let mut open = heat;
    open.edges[0] = EdgeCondition::Fixed(EdgeProfile::Constant(1.0));
    assert!(start(&open, None).1.schema(&Units::NBody).drift.is_none());
}

#[test]
fn a_plate_settles_when_its_range_is_below_the_limit() {
    let stop = Some(StopRange { below: 1.0, every: 10 });
    let (_, mut system) = start(&HeatCase { stop, ..sine_plate(Precision::Single) }, None);
    assert_eq!((system.settling_check_every(), system.is_settled().unwrap()), (Some(10), false));
    // exp(-2π² t) is 1/2 after t = 0.035.
    system.advance(DT, 400, &stamp).unwrap();
    assert!(system.is_settled().unwrap());
    assert_eq!(start(&sine_plate(Precision::Single), None).1.settling_check_every(), None);
}

#[test]
fn values_that_are_not_finite_are_found_with_their_node() {
    let mut heat = heated_plate(Precision::Single);
    heat.regions[0].source = Some(1e38);
    let (_, mut system) = start(&heat, None);
    system.advance(DT, 1, &stamp).unwrap();
    system.check_finite().unwrap();
    (0..8).for_each(|_| system.advance(DT, 20_000, &stamp).unwrap());
    let message = system.check_finite().unwrap_err().to_string();
    assert!(message.contains("at node (") && message.contains("single precision"), "{message}");
    assert!(system.measure().is_err() && system.columns().is_err());
    let dir = tempfile::tempdir().unwrap();
    let labels = SnapshotLabels { step: 1, time: DT, units: Units::NBody, provenance: &[] };
    assert!(system.capture_snapshot(&labels).is_err());
    assert!(system.write_post_mortem(dir.path(), &labels).unwrap().exists());
}

#[test]
fn hostile_columns_are_refused() {
    let heat = sine_plate(Precision::Single);
    let (case, system) = start(&heat, None);
    let limits = Limits::default();
    let path = std::path::Path::new("checkpoint");
    let restore = |count: usize, method: &str, block: orrery_formats::Block| {
        let saved = SavedSystem { path, case: &case, count, method, limits: &limits, stamp: stamp(0) };
        let mut columns = Blocks::new(path, vec![("temperature".to_owned(), block)]);
        HeatSystem::restore(&saved, &heat, &mut columns).map(|_| ()).map_err(|e| e.to_string())
    };
    let singles = |count: usize, value: f32| orrery_formats::Block::Singles(vec![value; count]);
    let nodes = system.size().count as usize;
    assert_eq!(restore(nodes, METHOD, singles(nodes, 1.0)), Ok(()));
    for (count, method, block) in [
        (nodes + 1, METHOD, singles(nodes, 1.0)),
        (nodes, "tree", singles(nodes, 1.0)),
        (nodes, METHOD, singles(nodes - 1, 1.0)),
        (nodes, METHOD, singles(nodes, f32::NAN)),
        (nodes, METHOD, orrery_formats::Block::Reals(vec![1.0; nodes])),
    ] {
        let message = restore(count, method, block).unwrap_err();
        assert!(message.starts_with("checkpoint: "), "{message}");
    }
}

/// A state in single precision is stored as differences from a base temperature, which is a column
/// of its checkpoint. A column without it is one of an older version: temperatures.
#[test]
fn the_base_temperature_is_part_of_a_checkpoint() {
    let heat = warm_plate(Precision::Single);
    let (case, mut system) = start(&heat, None);
    system.advance(DT, 3000, &stamp).unwrap();
    let [low, high] = ["minimum", "maximum"].map(|name| {
        let schema = system.schema(&Units::NBody);
        schema.value(&row(&system, 3000), name).unwrap()
    });
    // λ t is 0.3 π² for the slowest mode along x, with an amplitude of about 0.1.
    assert!(high - low < 1e-2 && low > 300.0 && high < 300.2, "{low} {high}");
    let limits = Limits::default();
    let path = std::path::Path::new("checkpoint");
    let count = system.size().count as usize;
    let restore = |blocks: Vec<(String, orrery_formats::Block)>| {
        let saved =
            SavedSystem { path, case: &case, count, method: METHOD, limits: &limits, stamp: stamp(0) };
        HeatSystem::restore(&saved, &heat, &mut Blocks::new(path, blocks)).map_err(|e| e.to_string())
    };
    let temperature = || ("temperature".to_owned(), orrery_formats::Block::Singles(vec![300.5; count]));
    let with_base =
        |values: Vec<f64>| vec![temperature(), ("base".to_owned(), orrery_formats::Block::Reals(values))];
    assert_eq!(restore(vec![temperature()]).unwrap().measure().unwrap()[1], 300.5);
    assert_eq!(restore(with_base(vec![100.0])).unwrap().measure().unwrap()[1], 400.5);
    for values in [vec![], vec![1.0; 2], vec![f64::NAN], vec![f64::INFINITY], vec![0.1]] {
        let message = restore(with_base(values)).map(|_| ()).unwrap_err();
        assert!(message.starts_with("checkpoint: base: "), "{message}");
    }
}

/// A poor conductor between 300 and an edge at 0. A step should change it by 1e-9, and f32 rounds
/// by
/// 1.8e-5.
#[test]
fn a_run_that_single_precision_cannot_follow_is_announced_and_noticed() {
    let cold = EdgeCondition::Fixed(EdgeProfile::Constant(0.0));
    let initial = InitialState::Formula(InitialField::Uniform { value: 300.0 });
    let conductivity = NodeValues::Uniform(1e-9);
    for (precision, is_warned) in [(Precision::Single, true), (Precision::Double, false)] {
        let mut heat = HeatCase {
            initial: initial.clone(),
            conductivity: conductivity.clone(),
            ..warm_plate(precision)
        };
        heat.edges[0] = cold.clone();
        let mut case = case_of(&heat);
        case.time.end = 1e6;
        let selected = ComputeDevice { device: None, reason: None };
        let mut warnings = Vec::new();
        let mut report = |event: RunEvent<'_>| {
            if let RunEvent::InputWarning(text) = event {
                warnings.push(text.to_owned());
            }
        };
        let (_, system) = System::start(&case, selected, &Control::default(), &mut report).unwrap();
        let noticed = system.resolution_warning().unwrap();
        assert_eq!((warnings.len(), noticed.is_some()), (usize::from(is_warned), is_warned), "{warnings:?}");
        assert!(
            warnings.iter().all(|text| text.contains("temperature differences by up to 100%")),
            "{warnings:?}"
        );
        let text = noticed.unwrap_or_default();
        assert!(!is_warned || text.contains("rounded by up to 1.8e-5;"), "{text}");
    }
}

/// A painter that is restored from its state draws the same image.
#[test]
fn a_restored_painter_draws_the_same_image() {
    for heat in [sine_plate(Precision::Single), heated_plate(Precision::Double)] {
        let (case, mut system) = start(&heat, None);
        assert!(matches!(case.time.step, StepChoice::Fixed(_)));
        let mut painter = system.new_painter(&case).unwrap();
        system.advance(DT, 100, &stamp).unwrap();
        let mut columns = Blocks::new(std::path::Path::new("checkpoint"), Vec::new());
        let mut resumed = system.resumed_painter(&case, &painter.state(), &mut columns).unwrap();
        let moment = crate::Moment { step: 100, time: 100.0 * DT, system: &system };
        let [a, b] =
            [&mut painter, &mut resumed].map(|painter| painter.capture(&moment).unwrap().draw().unwrap());
        assert_eq!((a.width, a.height), painter.pixels());
        assert!(a.rgb == b.rgb && resumed.pixels() == painter.pixels());
        assert!(system.resumed_painter(&case, &Default::default(), &mut columns).is_err());
    }
}
