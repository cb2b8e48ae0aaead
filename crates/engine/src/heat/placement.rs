//! Warnings about parts of a case that have no effect or another one than they seem to have:
//! regions of a plate without nodes, an initial state that the nodes do not resolve, a run in which
//! nothing changes, and a check of the end that never happens.

use orrery_model::four_digits;
use orrery_model::grid::{Grid, InitialField, RegionShape, SpotShape};
use orrery_particles::settings::StepChoice;

use crate::case::{Case, EdgeCondition, HeatCase, InitialState, StopRange};

/// Rounding errors of coordinates are far below this fraction of a spacing.
const TOLERANCE: f64 = 1e-6;

/// Value of a spot at the nearest node, relative to its largest one, below which it has no effect.
const FAINT: f64 = 0.01;
/// Length of a run in longest stable steps, below which temperatures change by less than 1%.
const SHORT_RUN: f64 = 0.01;

/// Returns the warnings of a case, one line each. `max_stable_step` is that of its problem.
pub(super) fn placement_warnings(case: &Case, heat: &HeatCase, max_stable_step: f64) -> Vec<String> {
    let region = |(index, region): (usize, &crate::case::Region)| {
        (!covers_a_node(&heat.grid, region.shape)).then(|| {
            let [width, height] =
                [(heat.grid.nx, heat.grid.hx), (heat.grid.ny, heat.grid.hy)].map(|(nodes, h)| {
                    case.units.format_length(nodes.saturating_sub(1) as f64 * h)
                });
            let [hx, hy] = [heat.grid.hx, heat.grid.hy].map(|h| case.units.format_length(h));
            format!(
                "heat.region[{}] covers no node and has no effect; expected a region within 0 to {width} and 0 to \
                 {height}, of at least one spacing, {hx} x {hy}",
                index + 1
            )
        })
    };
    let regions = heat.regions.iter().enumerate().filter_map(region);
    let mut found: Vec<String> = regions.collect();
    if let InitialState::Formula(formula) = &heat.initial {
        found.extend(initial_warnings(case, heat, formula));
    }
    found.extend(short_run_warning(case, heat, max_stable_step));
    found.extend(heat.stop.and_then(|stop| stop_warning(case, stop)));
    found
}

/// Returns a line for each part of the initial state that the nodes do not resolve.
fn initial_warnings(case: &Case, heat: &HeatCase, formula: &InitialField) -> Vec<String> {
    let grid = &heat.grid;
    let spaces = |nodes: usize, edge: usize| {
        nodes.saturating_sub(usize::from(heat.edges[edge] != EdgeCondition::Periodic)) as u32
    };
    let axes = [spaces(grid.nx, 0), spaces(grid.ny, 2)];
    let on_axes = |keys: [&'static str; 2], counts: [u32; 2]| keys.into_iter().zip(counts).zip(axes);
    match *formula {
        InitialField::Uniform { .. } => Vec::new(),
        InitialField::SineMode { m, n, .. } => on_axes(["m", "n"], [m, n])
            .filter(|((_, half_waves), spaces)| 2 * half_waves > *spaces)
            .map(|((key, half_waves), spaces)| {
                format!(
                    "initial.{key} = {half_waves} half waves on {spaces} spaces between nodes are not resolved, and the \
                     nodes have another field; expected {key} <= {}, or more nodes",
                    spaces / 2
                )
            })
            .collect(),
        InitialField::Checkerboard { columns, rows, .. } => on_axes(["columns", "rows"], [columns, rows])
            .filter(|((_, squares), spaces)| squares > spaces)
            .map(|((key, squares), spaces)| {
                format!(
                    "initial.{key} = {squares} squares on {spaces} spaces between nodes are not resolved, and the nodes \
                     have another field; expected {key} <= {spaces}, or more nodes"
                )
            })
            .collect(),
        InitialField::HotSpot { shape, centre, radius, .. } => {
            spot_warning(case, grid, shape, centre, radius).into_iter().collect()
        }
    }
}

/// Returns a warning if a spot is on no node, or on one.
fn spot_warning(case: &Case, grid: &Grid, shape: SpotShape, centre: [f64; 2], radius: f64) -> Option<String> {
    let length = |x: f64| case.units.format_length(x);
    let spacing = grid.hx.min(grid.hy);
    let is_faint = match shape {
        SpotShape::Disc => !covers_a_node(grid, RegionShape::Disc { centre, radius }),
        SpotShape::Gaussian => {
            let nearest =
                [(centre[0], grid.nx, grid.hx), (centre[1], grid.ny, grid.hy)].map(|(x, nodes, h)| {
                    let node = (x / h).round().clamp(0.0, nodes.saturating_sub(1) as f64);
                    x - node * h
                });
            let d2 = nearest[0] * nearest[0] + nearest[1] * nearest[1];
            (-0.5 * d2 / (radius * radius)).exp() < FAINT
        }
    };
    let spot = format!("the hot spot of [initial] at ({}, {})", length(centre[0]), length(centre[1]));
    if is_faint {
        return Some(format!(
            "{spot} with the radius {} is on no node and has no effect; expected it in the plate, with a radius of at \
             least one spacing, {}",
            length(radius),
            length(spacing)
        ));
    }
    (radius < 0.5 * spacing).then(|| {
        format!(
            "{spot} has the radius {}, less than half a spacing, and is on a single node; expected a radius of at \
             least one spacing, {}",
            length(radius),
            length(spacing)
        )
    })
}

/// Returns a warning if the run is too short for heat to pass from one node to the next.
fn short_run_warning(case: &Case, heat: &HeatCase, max_stable_step: f64) -> Option<String> {
    let length = case.time.end - case.time.known_start();
    let is_heated = heat.has_source() || heat.edges.iter().any(|edge| matches!(edge, EdgeCondition::Flux(_)));
    (!is_heated && length < SHORT_RUN * max_stable_step).then(|| {
        format!(
            "the run of {} is {} of the longest stable step, so temperatures change by less than 1%; expected a later \
             time.end, or a larger heat.conductivity in units of the case",
            case.units.format_time_in_message(length),
            four_digits(length / max_stable_step)
        )
    })
}

/// Returns a warning if the run ends before the range of temperatures is checked.
fn stop_warning(case: &Case, stop: StopRange) -> Option<String> {
    let StepChoice::Fixed(dt) = case.time.step else { return None };
    let steps = ((case.time.end - case.time.known_start()) / dt - TOLERANCE).ceil();
    (stop.every as f64 > steps).then(|| {
        format!(
            "heat.stop_range is checked every {} steps, and the run has {steps}, so it is never checked; expected \
             heat.stop_every <= {steps}",
            stop.every
        )
    })
}

/// Returns true if a node of the grid is in the region.
fn covers_a_node(grid: &Grid, shape: RegionShape) -> bool {
    let axes = [(grid.nx, grid.hx), (grid.ny, grid.hy)];
    let within = |axis: usize, x: f64| (x / axes[axis].1).clamp(0.0, axes[axis].0.saturating_sub(1) as f64);
    let node = match shape {
        // The first node after the lower corner.
        RegionShape::Rectangle { corner, .. } => {
            [0, 1].map(|axis| (within(axis, corner[axis]) - TOLERANCE).ceil())
        }
        RegionShape::Disc { centre, .. } => [0, 1].map(|axis| within(axis, centre[axis]).round()),
    };
    shape.contains([node[0] * grid.hx, node[1] * grid.hy])
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::case::CaseSource;

    fn warnings(rest: &str) -> Vec<String> {
        let text = format!(
            "[grid]\nnx = 11\nny = 11\nhx = 1.0\n[heat]\nconductivity = 1.0\n{rest}\n[initial]\nstate = \"uniform\"\n\
             [time]\nstep = 0.1\nend = 20.0\n"
        );
        let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
        let case = Case::load_within(&source, &[], None).unwrap_or_else(|e| panic!("{e}"));
        placement_warnings(&case, case.heat().unwrap(), 0.25)
    }

    /// The plate has 11 x 11 nodes with a spacing of 1.
    #[test]
    fn initial_states_that_nodes_do_not_resolve_are_reported() {
        let plate = |initial: &str, rest: &str| {
            let text = format!(
                "[grid]\nnx = 11\nny = 11\nhx = 1.0\n[heat]\nconductivity = 1.0\n{rest}\n[initial]\nstate = {initial}\n\
                 [time]\nstep = 0.1\nend = 20.0\n"
            );
            let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
            let case = Case::load_within(&source, &[], None).unwrap_or_else(|e| panic!("{e}"));
            placement_warnings(&case, case.heat().unwrap(), 0.25)
        };
        for (initial, expected) in [
            ("\"sine-mode\"\nm = 6", "initial.m = 6 half waves on 10 spaces"),
            ("\"sine-mode\"\nn = 20", "initial.n = 20 half waves on 10 spaces"),
            ("\"checkerboard\"\ncolumns = 11", "initial.columns = 11 squares on 10 spaces"),
            (
                "\"hot-spot\"\nx = 100",
                "the hot spot of [initial] at (100, 5) with the radius 1 is on no node",
            ),
            ("\"hot-spot\"\nx = 4.5\nradius = 0.1", "with the radius 0.1 is on no node"),
            ("\"hot-spot\"\nshape = \"disc\"\nx = 4.5\nradius = 0.3", "with the radius 0.3 is on no node"),
            ("\"hot-spot\"\nradius = 0.3", "less than half a spacing, and is on a single node"),
        ] {
            let found = plate(initial, "");
            assert!(found.len() == 1 && found[0].contains(expected), "{initial}: {found:?}");
        }
        for initial in [
            "\"sine-mode\"\nm = 5",
            "\"checkerboard\"\ncolumns = 10",
            "\"hot-spot\"\nradius = 0.6",
            "\"uniform\"",
        ] {
            assert_eq!(plate(initial, ""), [""; 0], "{initial}");
        }
        let periodic = "west = { condition = \"periodic\" }\neast = { condition = \"periodic\" }";
        assert_eq!(plate("\"checkerboard\"\ncolumns = 11", periodic), [""; 0]);
    }

    #[test]
    fn a_run_in_which_nothing_changes_is_reported() {
        let text = "[grid]\nnx = 11\nny = 11\nhx = 1.0\n[heat]\nconductivity = 1e-6\n[initial]\n\
                    state = \"hot-spot\"\n[time]\nend = 20.0\n";
        let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: PathBuf::new() };
        let case = Case::load_within(&source, &[], None).unwrap_or_else(|e| panic!("{e}"));
        let found = placement_warnings(&case, case.heat().unwrap(), 250_000.0);
        let expected =
            "the run of 20 is 8e-5 of the longest stable step, so temperatures change by less than 1%; ";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        assert_eq!(placement_warnings(&case, case.heat().unwrap(), 1999.0), [""; 0]);
    }

    #[test]
    fn regions_without_nodes_and_checks_after_the_end_are_reported() {
        let rectangle = |x: f64, width: f64| {
            format!(
                "[[heat.region]]\nshape = \"rectangle\"\nx = {x}\ny = 2.0\nwidth = {width}\nheight = 3.0\nsource = 1.0"
            )
        };
        let disc = |x: f64, radius: f64| {
            format!("[[heat.region]]\nshape = \"disc\"\nx = {x}\ny = 2.5\nradius = {radius}\nsource = 1.0")
        };
        for rest in
            [rectangle(11.0, 4.0), rectangle(2.2, 0.5), rectangle(-3.0, 2.5), disc(2.5, 0.6), disc(20.0, 3.0)]
        {
            let found = warnings(&rest);
            assert!(
                found.len() == 1 && found[0].starts_with("heat.region[1] covers no node"),
                "{rest}: {found:?}"
            );
            assert!(
                found[0].contains("within 0 to 10 and 0 to 10, of at least one spacing, 1 x 1"),
                "{found:?}"
            );
        }
        for rest in [rectangle(10.0, 4.0), rectangle(2.2, 0.9), rectangle(-3.0, 3.5), disc(2.5, 0.8)] {
            assert_eq!(warnings(&rest), [""; 0], "{rest}");
        }
        let stop = |every: u64| warnings(&format!("stop_range = 0.1\nstop_every = {every}"));
        assert_eq!(stop(200), [""; 0]);
        assert_eq!(
            stop(201),
            [
                "heat.stop_range is checked every 201 steps, and the run has 200, so it is never checked; expected \
              heat.stop_every <= 200"
            ]
        );
    }
}
