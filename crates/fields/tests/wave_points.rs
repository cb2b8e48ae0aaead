//! Weights of sources and receivers.

use std::f64::consts::PI;

use orrery_fields::wave::{ReceiverTable, SourceTable};
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};

const OPEN: SideCondition =
    SideCondition::Absorbing(AbsorbingLayer { thickness: 1, reflection: 1e-4, shift: 0.0 });

/// Role of a point.
#[derive(Clone, Copy)]
enum PointKind {
    Source,
    Receiver,
}

/// Returns nodes and weights along x with `n` nodes and conditions at both ends. The point is on a
/// node along y, where it has one weight of 1.
fn axis_weights(
    position: f64,
    n: usize,
    [x_min, x_max]: [SideCondition; 2],
    kind: PointKind,
) -> Vec<(usize, f64)> {
    let grid = WaveGrid::plane([n, 11], [1.0; 2]);
    let sides = Sides { x_min, x_max, ..Sides::uniform(OPEN) };
    let positions = [[position, 5.0, 0.0]];
    let (nodes, weights) = match kind {
        PointKind::Source => {
            let table = SourceTable::<f64>::new(&grid, &sides, &positions);
            (table.nodes, table.weights)
        }
        PointKind::Receiver => {
            let table = ReceiverTable::<f64>::new(&grid, &sides, &positions);
            (table.nodes, table.weights)
        }
    };
    nodes.into_iter().map(|node| grid.node(node)[0]).zip(weights).collect()
}

#[test]
fn a_point_on_a_node_acts_on_that_node_alone() {
    for position in [0.0, 3.0, 12.0, 7.0 + 1e-12] {
        let weights = axis_weights(position, 13, [OPEN; 2], PointKind::Source);
        assert_eq!(weights, [(position.round() as usize, 1.0)]);
    }
}

#[test]
fn waves_of_four_points_are_interpolated_within_0_15_percent() {
    let largest = |points: f64| {
        let mut largest = 0f64;
        for twentieth in 0..20 {
            let position = 20.0 + 0.05 * f64::from(twentieth);
            let weights = axis_weights(position, 41, [OPEN; 2], PointKind::Receiver);
            for phase in 0..8 {
                let wave = |x: f64| (2.0 * PI * x / points + 0.7 * f64::from(phase)).cos();
                let found: f64 = weights.iter().map(|&(node, weight)| weight * wave(node as f64)).sum();
                largest = max_or_nan(largest, (found - wave(position)).abs());
            }
        }
        largest
    };
    for points in [4.0, 5.0, 8.0, 16.0] {
        assert!(largest(points) < 1.5e-3, "{points} points: {}", largest(points));
    }
    assert!((0.07..0.09).contains(&largest(3.0)), "{}", largest(3.0));
}

#[test]
fn images_take_part_with_the_sign_of_the_side() {
    // Far from the sides, ten nodes further.
    let inside = axis_weights(11.25, 41, [OPEN; 2], PointKind::Receiver);
    let plain = |node: f64| inside.iter().find(|(at, _)| *at as f64 == node + 10.0).unwrap().1;
    let weights = |condition, kind| axis_weights(1.25, 20, [condition, OPEN], kind);
    let free = weights(SideCondition::Free, PointKind::Source);
    assert_eq!(free, weights(SideCondition::Free, PointKind::Receiver));
    assert_eq!(free[0], (1, plain(1.0) - plain(-1.0)));
    let rigid = weights(SideCondition::Rigid, PointKind::Source);
    assert_eq!(rigid[..2], [(0, 2.0 * plain(0.0)), (1, plain(1.0) + plain(-1.0))]);
    let heard = weights(SideCondition::Rigid, PointKind::Receiver);
    assert_eq!((heard[0], &heard[1..]), ((0, plain(0.0)), &rigid[1..]));
    assert_eq!(weights(OPEN, PointKind::Source)[0], (0, plain(0.0)));
    // The other side is the mirror image.
    let mirrored = axis_weights(17.75, 20, [OPEN, SideCondition::Free], PointKind::Source);
    let mirrored: Vec<_> = mirrored.into_iter().rev().map(|(node, weight)| (19 - node, weight)).collect();
    assert_eq!(mirrored, free);
}

#[test]
fn sources_are_merged_by_node() {
    let grid = WaveGrid::plane([12, 10], [2.0, 4.0]);
    let sides = Sides::uniform(OPEN);
    let positions = [[6.0, 20.0, 0.0], [2.0, 8.0, 0.0], [6.0, 20.0, 0.0]];
    let table = SourceTable::<f64>::new(&grid, &sides, &positions);
    assert_eq!(table.nodes, [grid.index([1, 2, 0]), grid.index([3, 5, 0])]);
    assert_eq!((table.starts, table.sources), (vec![0, 1, 3], vec![1, 0, 2]));
    assert_eq!(table.weights, [0.5; 3]);
}
