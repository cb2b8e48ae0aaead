//! Tests of the invariants of the tree with random, clustered and degenerate bodies.

use std::ops::Range;

use orrery_model::Vec3s;
use orrery_model::analysis::max_or_nan;
use orrery_model::rng::Draws;
use proptest::prelude::*;

use super::morton::octant;
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
    let coordinates = tree.cube.corner.iter().map(|c| c.abs()).fold(tree.cube.side, max_or_nan);
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

/// Plain reference implementation of the order and the cells: a standard sort, then one cell after
/// the other, with octants found by a scan of all keys.
fn reference_tree(position: &Vec3s, leaf_size: usize) -> (Vec<u32>, Vec<Cell>) {
    let cube = Cube::around(position);
    let mut pairs: Vec<_> = position.iter().zip(0u32..).map(|(x, i)| (cube.key(x), i)).collect();
    pairs.sort();
    let (keys, order): (Vec<u64>, Vec<u32>) = pairs.into_iter().unzip();
    let level_of = |bodies: &Range<usize>| {
        let prefix = |key: u64, level: u32| key >> (3 * (COORDINATE_BITS - level));
        let (first, last) = (keys[bodies.start], keys[bodies.end - 1]);
        (0..=COORDINATE_BITS).rev().find(|&level| prefix(first, level) == prefix(last, level)).unwrap()
    };
    let new_cell = |bodies: Range<usize>| Cell {
        begin: bodies.start as u32,
        end: bodies.end as u32,
        level: level_of(&bodies) as u8,
        ..Cell::default()
    };
    let mut cells = vec![new_cell(0..keys.len())];
    let mut next = 0;
    while next < cells.len() {
        let (parent, level) = (cells[next], u32::from(cells[next].level));
        if parent.len() > leaf_size && level < COORDINATE_BITS {
            cells[next].first_child = cells.len() as u32;
            let octants = keys[parent.bodies()].chunk_by(|&a, &b| octant(a, level) == octant(b, level));
            let mut begin = parent.begin as usize;
            for octant in octants {
                cells.push(new_cell(begin..begin + octant.len()));
                cells[next].children += 1;
                begin += octant.len();
            }
        }
        next += 1;
    }
    (order, cells)
}

/// Returns bodies of which every third has one of five positions.
fn bodies_with_equal_positions(n: usize) -> (Vec3s, Vec<f64>) {
    let (mut position, mass) = clustered_bodies(n, 11);
    for i in (0..n).step_by(3) {
        position.set(i, position.get(i % 5));
    }
    (position, mass)
}

/// The tree is that of the reference, and its bits do not depend on the number of threads. Sizes
/// are around those from which the sort has several buckets (160) and chunks (1024), and the cells
/// several subtrees (256). A bucket of 20,000 equal keys is sorted by several threads.
#[test]
fn trees_have_the_same_bits_for_any_number_of_threads() {
    let equal = |n: usize| (Vec3s { x: vec![3.0; n], ..Vec3s::zeros(n) }, vec![0.5; n]);
    let mut systems = vec![equal(5000), equal(20_000), clustered_bodies(20_000, 3)];
    for n in [1, 2, 159, 160, 161, 255, 257, 319, 320, 321, 1000, 1025, 5000] {
        systems.extend([clustered_bodies(n, 7), bodies_with_equal_positions(n)]);
    }
    for (position, mass) in &systems {
        let build = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let tree = Octree::build(position, mass, 16);
                let groups = tree.groups(48);
                (tree, groups)
            })
        };
        let (one, groups) = build(1);
        let (order, cells) = reference_tree(position, 16);
        assert!(one.order == order && one.cells == cells, "{} bodies", mass.len());
        for threads in [2, 3, 7, 16] {
            let (tree, same_groups) = build(threads);
            assert!(tree.order == order && tree.cells == cells && tree.keys == one.keys);
            assert!(tree.position == one.position && tree.mass == one.mass && tree.moments == one.moments);
            assert!(groups == same_groups, "{} bodies, {threads} threads", mass.len());
            assert!((0..mass.len()).all(|i| tree.order[tree.rank(i)] as usize == i));
        }
    }
}

#[test]
fn a_rebuilt_tree_is_that_of_fresh_memory() {
    let mut tree = Octree::default();
    let systems = [clustered_bodies(5000, 1), clustered_bodies(30, 2), bodies_with_equal_positions(7000)];
    for (position, mass) in systems {
        tree.rebuild(&position, &mass, 16);
        let fresh = Octree::build(&position, &mass, 16);
        assert!(tree.order == fresh.order && tree.keys == fresh.keys && tree.cells == fresh.cells);
        assert!(tree.position == fresh.position && tree.mass == fresh.mass);
        assert!(tree.moments == fresh.moments && tree.groups(48) == fresh.groups(48));
    }
}
