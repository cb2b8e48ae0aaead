//! Tests of the invariants of the tree with random, clustered and degenerate bodies.

use orrery_model::Vec3s;
use orrery_model::rng::Draws;
use proptest::prelude::*;

use super::*;

/// Returns bodies that are clustered on many scales: radii are eighth powers of uniform random
/// numbers.
fn clustered_bodies(n: usize, seed: u64) -> (Vec3s, Vec<f64>) {
    let mut position = Vec3s::default();
    let mut mass = Vec::new();
    for i in 0..n as u64 {
        let mut draws = Draws::new(seed, 0, i);
        let r = draws.uniform().powi(8);
        position.push(draws.direction().map(|c| r * c));
        mass.push(draws.uniform());
    }
    (position, mass)
}

fn check_invariants(position: &Vec3s, mass: &[f64], leaf_size: usize, group_size: usize) {
    let n = mass.len();
    let tree = Octree::build(position, mass, leaf_size);
    let mut seen = tree.order.clone();
    seen.sort_unstable();
    assert!(seen.iter().enumerate().all(|(k, &i)| k == i as usize), "order is a permutation");
    assert!(tree.keys.windows(2).all(|w| w[0] <= w[1]), "keys ascend");
    assert_eq!(tree.cells[0].bodies(), 0..n, "the root contains all bodies");

    let mut in_leaves = 0;
    for (c, cell) in tree.cells.iter().enumerate() {
        assert!(!cell.is_empty());
        let (centre, side) = tree.cell_geometry(c);
        for i in cell.bodies() {
            for (x, middle) in tree.position.get(i).into_iter().zip(centre) {
                assert!(
                    (x - middle).abs() <= 0.5 * side * (1.0 + 1e-9) + 1e-12 * tree.cube.side,
                    "body in its cell"
                );
            }
        }
        if cell.is_leaf() {
            in_leaves += cell.len();
            let keys = &tree.keys[cell.bodies()];
            assert!(cell.len() <= leaf_size || keys.iter().all(|key| key == &keys[0]), "leaves are small");
        } else {
            assert!(cell.len() > leaf_size && (2..=8).contains(&cell.children));
            assert!(cell.child_range().start > c, "children come after their parent");
            let mut next = cell.begin;
            for child in &tree.cells[cell.child_range()] {
                assert_eq!(child.begin, next, "siblings are disjoint and have no gap");
                assert!(child.level > cell.level);
                next = child.end;
            }
            assert_eq!(next, cell.end, "children cover their parent");
        }
        check_moments(&tree, c, side);
    }
    assert_eq!(in_leaves, n, "every body is in exactly one leaf");

    let mut next = 0;
    for group in tree.groups(group_size) {
        assert_eq!(group.bodies.start, next, "groups cover the bodies in order");
        assert!(!group.bodies.is_empty() && group.bodies.len() <= group_size);
        for i in group.bodies.clone() {
            let x = tree.position.get(i);
            assert!(
                (0..3).all(|axis| (x[axis] - group.centre[axis]).abs() <= group.half[axis]),
                "body in the box of its group"
            );
        }
        next = group.bodies.end;
    }
    assert_eq!(next, n);
}

/// Checks that moments equal direct sums over the cell's bodies up to rounding. Each sum has `len`
/// terms of size m l².
fn check_moments(tree: &Octree, c: usize, side: f64) {
    let (cell, found) = (&tree.cells[c], &tree.moments[c]);
    let mass: f64 = tree.mass[cell.bodies()].iter().sum();
    let tolerance = 1e-15 * (cell.len() as f64 + 16.0);
    assert!((found.mass - mass).abs() <= tolerance * mass);
    let coordinates = tree.cube.corner.iter().fold(tree.cube.side, |m, c| m.max(c.abs()));
    for axis in 0..3 {
        let sum: f64 =
            cell.bodies().map(|i| tree.mass[i] * (tree.position.get(i)[axis] - found.centre[axis])).sum();
        assert!(sum.abs() <= tolerance * mass * (side + coordinates), "centre of mass");
    }
    for (k, (a, b)) in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)].into_iter().enumerate() {
        let expected: f64 = cell
            .bodies()
            .map(|i| {
                let x = tree.position.get(i);
                tree.mass[i] * (x[a] - found.centre[a]) * (x[b] - found.centre[b])
            })
            .sum();
        assert!((found.second[k] - expected).abs() <= 10.0 * tolerance * mass * side * (side + coordinates));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn invariants_hold_for_random_bodies(n in 1usize..700, seed: u64, leaf_size in 1usize..40, group_size in 1usize..80) {
        let (position, mass) = clustered_bodies(n, seed);
        check_invariants(&position, &mass, leaf_size, group_size);
    }
}

#[test]
fn invariants_hold_for_degenerate_bodies() {
    for n in [1, 2, 33, 300] {
        let (random, mass) = clustered_bodies(n, 5);
        let zero = vec![0.0; n];
        let plane = Vec3s { z: zero.clone(), ..random.clone() };
        let line = Vec3s { y: zero.clone(), ..plane.clone() };
        let point = Vec3s { x: vec![3.0; n], ..Vec3s::zeros(n) };
        let mut outlier = random.clone();
        outlier.x[0] = 1e9;
        for position in [plane, line, point, outlier] {
            check_invariants(&position, &mass, 16, 32);
            check_invariants(&position, &zero, 16, 32);
        }
    }
}
