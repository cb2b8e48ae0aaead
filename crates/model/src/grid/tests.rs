//! Tests of grids and boundaries.

use super::*;

const GRID: Grid = Grid { nx: 4, ny: 3, hx: 0.5, hy: 2.0 };

fn message(boundaries: &Boundaries) -> String {
    boundaries.validate(&GRID).unwrap_err().to_string()
}

#[test]
fn index_and_node_are_inverse() {
    for index in 0..GRID.len() {
        let [i, j] = GRID.node(index);
        assert_eq!(GRID.index(i, j), index);
        assert_eq!(GRID.coordinates(index), [i as f64 * 0.5, j as f64 * 2.0]);
    }
}

#[test]
fn periodic_plates_are_one_space_wider() {
    let mut boundaries = Boundaries::uniform(Boundary::INSULATED);
    assert_eq!(GRID.extents(&boundaries), [1.5, 4.0]);
    (boundaries.south, boundaries.north) = (Boundary::Periodic, Boundary::Periodic);
    assert_eq!(GRID.extents(&boundaries), [1.5, 6.0]);
}

#[test]
fn bad_grids_are_refused_with_the_value() {
    let message = |grid: Grid| grid.validate().unwrap_err().to_string();
    assert_eq!(message(Grid { nx: 2, ..GRID }), "the grid has nx = 2 nodes, expected 3 to 1073741824");
    assert_eq!(message(Grid { ny: 0, ..GRID }), "the grid has ny = 0 nodes, expected 3 to 1073741824");
    for spacing in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200] {
        let text = message(Grid { hy: spacing, ..GRID });
        assert!(text.starts_with("the grid has hy = "), "{text}");
    }
    assert_eq!(GRID.validate(), Ok(()));
}

#[test]
fn bad_boundaries_are_refused_with_the_edge() {
    let fixed = Boundaries::uniform(Boundary::fixed(1.0));
    assert_eq!(fixed.validate(&GRID), Ok(()));
    let boundaries = Boundaries { east: Boundary::Periodic, ..fixed.clone() };
    assert_eq!(
        message(&boundaries),
        "the east edge is periodic and the west edge is not, expected both or neither"
    );
    let profile = |values: &[f64]| Boundary::Flux(EdgeValues::Profile(values.to_vec()));
    let boundaries = Boundaries { north: profile(&[1.0; 3]), ..fixed.clone() };
    assert_eq!(
        message(&boundaries),
        "the profile of the north edge has 3 values, expected 4, one per node of the edge"
    );
    let boundaries = Boundaries { west: profile(&[0.0, f64::NAN, 0.0]), ..fixed.clone() };
    assert_eq!(message(&boundaries), "the west edge has the value NaN at node 1, expected a finite number");
    let boundaries = Boundaries { west: profile(&[0.0; 3]), north: profile(&[0.0; 4]), ..fixed };
    assert_eq!(boundaries.validate(&GRID), Ok(()));
}

#[test]
fn west_and_east_win_at_fixed_corners() {
    let boundaries = Boundaries {
        west: Boundary::fixed(1.0),
        east: Boundary::INSULATED,
        south: Boundary::Fixed(EdgeValues::Profile(vec![5.0, 6.0, 7.0, 8.0])),
        north: Boundary::INSULATED,
    };
    let mut field = vec![0.0; GRID.len()];
    boundaries.set_fixed_nodes(&GRID, &mut field);
    assert_eq!(field, [1.0, 6.0, 7.0, 8.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    for index in 0..GRID.len() {
        let [i, j] = GRID.node(index);
        assert_eq!(boundaries.fixed_value(&GRID, i, j).unwrap_or(0.0), field[index]);
    }
    assert_eq!((boundaries.free_rows(&GRID), boundaries.free_columns(&GRID)), (1..3, 1..4));
}
