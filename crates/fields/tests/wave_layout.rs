//! Layouts of wave fields in host memory and on devices.

use orrery_fields::wave::MAX_RADIUS;
use orrery_fields::wave::layout::{GAP, WaveLayout};
use orrery_model::wave::WaveGrid;

#[test]
fn ghost_nodes_are_inside_and_belong_to_one_node() {
    for (nodes, slices) in [([9, 10, 12], 12), ([16, 9, 30], 5), ([33, 9, 1], 9), ([33, 19, 1], 7)] {
        let grid = WaveGrid::volume(nodes, [1.0; 3]);
        let layout = WaveLayout::on_host(&grid, slices);
        let nodes = layout.nodes;
        let mut used = vec![0; layout.field_len()];
        for k in 0..nodes[2] {
            for j in 0..nodes[1] {
                for i in 0..nodes[0] {
                    used[layout.position([i, j, k])] += 1;
                }
                // Ghosts along x.
                let row = layout.row(j, k);
                for r in 1..=MAX_RADIUS {
                    used[row - r] += 1;
                    used[row + nodes[0] - 1 + r] += 1;
                }
                // A register at the end of a row.
                assert!(row + nodes[0].next_multiple_of(GAP) + MAX_RADIUS <= layout.field_len());
            }
            for i in 0..nodes[0] {
                for r in 1..=MAX_RADIUS {
                    used[layout.position([i, 0, k]) - r * layout.pitch] += 1;
                    used[layout.position([i, nodes[1] - 1, k]) + r * layout.pitch] += 1;
                }
            }
        }
        assert!(used.iter().all(|count| *count <= 1));
        assert_eq!(layout.row(0, 0) % GAP, 0);
    }
}

#[test]
fn slices_have_the_ghost_nodes_beyond_other_sides() {
    for (grid, slices) in
        [(WaveGrid::volume([9, 10, 30], [1.0; 3]), 5), (WaveGrid::plane([17, 30], [1.0; 2]), 6)]
    {
        let layout = WaveLayout::on_host(&grid, slices);
        assert_eq!(layout.slices(), slices);
        let (ghosts, n) = (MAX_RADIUS as isize, slices as isize);
        assert!(layout.slice_start(n + ghosts) <= layout.field_len());
        for slice in 0..slices {
            let range = layout.slice_range(&(slice..slice + 1));
            let (rows, planes) = layout.rows_and_planes(&(slice..slice + 1));
            assert_eq!((rows.len(), planes.len()), (layout.nodes[1].min(rows.len()), 1));
            let first = layout.row(rows.start, planes.start);
            let last = layout.row(rows.end - 1, planes.start) + layout.nodes[0] - 1;
            assert!(range.contains(&(first - MAX_RADIUS)) && range.contains(&(last + MAX_RADIUS)));
        }
        // The first ghost slice is inside.
        assert!(layout.slice_start(-ghosts) < layout.slice_start(0));
    }
}

/// Marks all nodes and ghost nodes of a layout, and checks that none is marked twice.
fn check_device_layout<R>(nodes: [usize; 3], slices: usize) {
    let layout = WaveLayout::on_device::<R>(&WaveGrid::volume(nodes, [1.0; 3]), slices);
    let nodes = layout.nodes;
    let mut used = vec![0; layout.field_len()];
    assert_eq!(layout.ghost_ranges()[0].start, 0);
    assert!(layout.ghost_ranges()[1].end <= layout.field_len());
    for k in 0..nodes[2] {
        for j in 0..nodes[1] {
            let row = layout.position([0, j, k]);
            assert_eq!(row * size_of::<R>() % 128, 0);
            used[row - MAX_RADIUS..row + nodes[0] + MAX_RADIUS].iter_mut().for_each(|count| *count += 1);
        }
        for i in 0..nodes[0] {
            for r in 1..=MAX_RADIUS {
                used[layout.position([i, 0, k]) - r * layout.pitch] += 1;
                used[layout.position([i, nodes[1] - 1, k]) + r * layout.pitch] += 1;
            }
        }
    }
    assert!(used.iter().all(|count| *count <= 1), "{layout:?}");
}

#[test]
fn ghost_nodes_on_devices_are_inside_and_belong_to_one_node() {
    for (nodes, slices) in [([9, 10, 12], 12), ([24, 9, 30], 5), ([25, 9, 1], 9), ([56, 11, 1], 6)] {
        check_device_layout::<f32>(nodes, slices);
        check_device_layout::<f64>(nodes, slices);
    }
}
