//! The plate of a case: regions, edges and the orientation of files.

use std::path::Path;

use orrery_draw::picture::{Image, write_png};
use orrery_fields::heat::{Conductivity, HeatCapacity, HeatProblem};
use orrery_formats::{FieldValues, write_field_npy};
use orrery_model::grid::{Edge, Grid};

use super::start::{build_problem, initial_values};
use crate::case::{Case, CaseSource};
use crate::input_files::InputFiles;

/// 5 x 4 nodes with x = 0, 1, ... 4 and y = 0, 2, 4, 6.
const GRID: Grid = Grid { nx: 5, ny: 4, hx: 1.0, hy: 2.0 };

fn load(rest: &str, folder: &Path) -> Case {
    let text = format!("grid = {{ nx = 5, ny = 4, hx = 1, hy = 2 }}\ntime.end = 100\n{rest}");
    let source = CaseSource::Text { label: "case".into(), text, folder: folder.into() };
    Case::load(&source, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn problem_in(rest: &str, folder: &Path) -> HeatProblem {
    let case = load(&format!("initial.state = \"uniform\"\n{rest}"), folder);
    build_problem(&case, case.heat().unwrap(), &InputFiles::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn problem(rest: &str) -> HeatProblem {
    problem_in(rest, Path::new(""))
}

fn initial(rest: &str, folder: &Path) -> Vec<f64> {
    let case = load(&format!("heat = {{}}\n{rest}"), folder);
    let heat = case.heat().unwrap();
    let problem = build_problem(&case, heat, &InputFiles::default()).unwrap();
    initial_values(&case, heat, &problem, &InputFiles::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the nodes with `value`.
fn nodes_with(value: f64, field: &[f64]) -> Vec<[usize; 2]> {
    (0..GRID.len()).filter(|&k| field[k] == value).map(|k| GRID.node(k)).collect()
}

fn conductivity(problem: &HeatProblem) -> &[f64] {
    match problem.conductivity() {
        Conductivity::Field(values) => values,
        Conductivity::Uniform(_) => panic!("the conductivity is uniform"),
    }
}

#[test]
fn regions_contain_the_nodes_on_their_boundary() {
    let rectangle = problem(
        "heat.region = [{ shape = \"rectangle\", x = 1, y = 2, width = 2, height = 2, conductivity = 9 }]",
    );
    let inside = [[1, 1], [2, 1], [3, 1], [1, 2], [2, 2], [3, 2]];
    assert_eq!(nodes_with(9.0, conductivity(&rectangle)), inside);
    assert_eq!(nodes_with(1.0, conductivity(&rectangle)).len(), 14);
    assert_eq!(rectangle.source(), None);
    let disc = problem("heat.region = [{ shape = \"disc\", x = 2, y = 2, radius = 2, source = -3 }]");
    let inside = [[2, 0], [0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [2, 2]];
    assert_eq!(nodes_with(-3.0, disc.source().unwrap()), inside);
    assert_eq!(nodes_with(0.0, disc.source().unwrap()).len(), 13);
    assert_eq!(disc.conductivity(), &Conductivity::Uniform(1.0));
}

#[test]
fn a_later_region_covers_an_earlier_one_in_the_properties_that_it_has() {
    let left = "shape = \"rectangle\", x = 0, y = 0, width = 2, height = 6";
    let column = "shape = \"rectangle\", x = 2, y = 0, width = 0.5, height = 6";
    let corner = "shape = \"disc\", x = 0, y = 0, radius = 0.5";
    let plate = problem(&format!(
        "heat.conductivity = 5\nheat.source = 1\nheat.region = [{{ {left}, conductivity = 2, source = 7 }}, \
         {{ {column}, source = 8 }}, {{ {corner}, conductivity = 3 }}]"
    ));
    let row = |field: &[f64], j: usize| field[j * 5..][..5].to_vec();
    let k = conductivity(&plate);
    assert_eq!(row(k, 0), [3.0, 2.0, 2.0, 5.0, 5.0]);
    assert_eq!(row(k, 1), [2.0, 2.0, 2.0, 5.0, 5.0]);
    let source = plate.source().unwrap();
    assert_eq!(row(source, 0), [7.0, 7.0, 8.0, 1.0, 1.0]);
    assert_eq!(row(source, 3), row(source, 0));
}

#[test]
fn regions_cover_the_values_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    write_field_npy(&folder.path().join("k.npy"), &GRID, FieldValues::Double(&values)).unwrap();
    let plate = problem_in(
        "heat.conductivity_file = \"k.npy\"\n\
         heat.region = [{ shape = \"disc\", x = 4, y = 6, radius = 0.5, conductivity = 0.5 }]",
        folder.path(),
    );
    assert_eq!(conductivity(&plate)[..19], values[..19]);
    assert_eq!(conductivity(&plate)[19], 0.5);
}

#[test]
fn heat_capacities_are_those_of_regions_and_files() {
    let region = "shape = \"disc\", x = 4, y = 6, radius = 0.5";
    let plate =
        problem(&format!("heat.heat_capacity = 3\nheat.region = [{{ {region}, heat_capacity = 2 }}]"));
    let HeatCapacity::Field(values) = plate.heat_capacity() else { panic!("{:?}", plate.heat_capacity()) };
    assert_eq!(nodes_with(2.0, values), [[4, 3]]);
    assert_eq!(nodes_with(3.0, values).len(), 19);
    // A longer step is stable, because the faces of no node conduct more.
    assert_eq!(plate.max_stable_step(), problem("heat = {}").max_stable_step() * 2.0);
    // Equal values are a uniform heat capacity, which leaves the conductivity uniform.
    let equal = problem(&format!("heat.region = [{{ {region}, heat_capacity = 1 }}]"));
    assert_eq!(equal, problem("heat = {}"));
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    write_field_npy(&folder.path().join("c.npy"), &GRID, FieldValues::Double(&values)).unwrap();
    let plate = problem_in("heat.heat_capacity_file = \"c.npy\"", folder.path());
    assert_eq!(plate.heat_capacity(), &HeatCapacity::Field(values));
}

/// Returns the values of all nodes of an edge.
fn edge_values(problem: &HeatProblem, edge: Edge) -> Vec<f64> {
    let values = problem.boundaries().on(edge).values().unwrap();
    (0..edge.nodes(&GRID)).map(|k| values.at(k)).collect()
}

#[test]
fn edge_profiles_are_linear_between_their_points() {
    let south = |points: &str| {
        let plate = problem(&format!("heat.south = {{ condition = \"fixed\", profile = [{points}] }}"));
        edge_values(&plate, Edge::South)
    };
    assert_eq!(south("0, 10, 0"), [0.0, 5.0, 10.0, 5.0, 0.0]);
    assert_eq!(south("8, 0"), [8.0, 6.0, 4.0, 2.0, 0.0]);
    assert_eq!(south("1, 2, 3, 4, 5"), [1.0, 2.0, 3.0, 4.0, 5.0]);
    // Nine points on five nodes: every other point.
    assert_eq!(south("0, 9, 1, 9, 2, 9, 3, 9, 4"), [0.0, 1.0, 2.0, 3.0, 4.0]);
    // West runs from south to north.
    let plate = problem("heat.west = { condition = \"flux\", profile = [0, 3] }");
    assert_eq!(edge_values(&plate, Edge::West), [0.0, 1.0, 2.0, 3.0]);
    assert!(!plate.boundaries().on(Edge::West).is_fixed());
    assert_eq!(edge_values(&plate, Edge::East), [0.0; 4]);
}

/// The first row of an array is the south edge. The first row of an image is its top, which is the
/// north edge.
#[test]
fn arrays_start_in_the_south_and_images_in_the_north() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f64> = (0..20).map(f64::from).collect();
    write_field_npy(&folder.path().join("start.npy"), &GRID, FieldValues::Double(&values)).unwrap();
    let field = initial("initial.file = \"start.npy\"", folder.path());
    assert_eq!(field[GRID.index(4, 0)], 4.0);
    assert_eq!(field, values);

    // Black, with a white top row and a grey pixel in the lower left corner.
    let mut image = Image::filled(5, 4, [0; 3]);
    image.rgb[..15].fill(255);
    image.rgb[45..48].fill(51);
    write_png(&folder.path().join("start.png"), &image, &[]).unwrap();
    let field = initial("initial = { image = \"start.png\", low = 10, high = 20 }", folder.path());
    assert_eq!(field[GRID.index(0, 3)..], [20.0; 5]);
    assert!((field[GRID.index(0, 0)] - 12.0).abs() < 1e-12, "{}", field[0]);
    assert_eq!(nodes_with(10.0, &field).len(), 14);
}
