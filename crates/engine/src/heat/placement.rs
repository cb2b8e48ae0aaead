//! Warnings about parts of a case that have no effect or another one than they seem to have:
//! regions of a plate without nodes or thinner than a cell, sources on fixed edges, an initial
//! state that the nodes do not resolve, a run in which nothing changes, an end that is never
//! reached, and conductivities without a heat capacity.

use orrery_gravity::settings::StepChoice;
use orrery_model::grid::{Edge, Grid, InitialField, RegionShape, SpotShape};
use orrery_model::{Units, four_digits, short_number};

use super::start::interpolate;
use crate::case::{Case, EdgeCondition, EdgeProfile, HeatCase, InitialState, NodeValues, Region, StopRange};

/// Rounding errors of coordinates are far below this fraction of a spacing.
const TOLERANCE: f64 = 1e-6;

/// Value of a spot at the nearest node, relative to its largest one, below which it has no effect.
const FAINT: f64 = 0.01;
/// Length of a run in longest stable steps, below which temperatures change by less than 1%.
const SHORT_RUN: f64 = 0.01;

/// Largest diffusivity of a material in m²/s, with a margin. Graphite has 1e-3.
const LARGEST_DIFFUSIVITY: f64 = 1e-2;

/// Returns the warnings of a case, one line each. `max_stable_step` is that of its problem.
pub(super) fn placement_warnings(case: &Case, heat: &HeatCase, max_stable_step: f64) -> Vec<String> {
    let regions = heat.regions.iter().enumerate();
    let mut found: Vec<String> =
        regions.filter_map(|(index, region)| region_warning(case, heat, index, region)).collect();
    found.extend(diffusivity_warning(case, heat));
    if let InitialState::Formula(formula) = &heat.initial {
        found.extend(initial_warnings(case, heat, formula));
    }
    found.extend(short_run_warning(case, heat, max_stable_step));
    found.extend(heat.stop.and_then(|stop| stop_warning(case, stop)));
    found.extend(heat.stop.and_then(|stop| unreachable_stop_warning(heat, stop)));
    found
}

/// Returns a warning if a region has no node, is thinner than a cell, or heats nodes that have
/// given temperatures.
fn region_warning(case: &Case, heat: &HeatCase, index: usize, region: &Region) -> Option<String> {
    let (grid, name) = (&heat.grid, format!("heat.region[{}]", index + 1));
    let length = |x: f64| case.units.format_length(x);
    let [hx, hy] = [grid.hx, grid.hy].map(length);
    if !covers_a_node(grid, region.shape) {
        let [width, height] = [(grid.nx, grid.hx), (grid.ny, grid.hy)]
            .map(|(nodes, h)| length(nodes.saturating_sub(1) as f64 * h));
        return Some(format!(
            "{name} covers no node and has no effect; expected a region within 0 to {width} and 0 to {height}, of at \
             least one spacing, {hx} x {hy}"
        ));
    }
    let (_, size) = bounding_box(region.shape);
    let axes = [("x", size[0], grid.hx), ("y", size[1], grid.hy)];
    if let Some((axis, size, h)) = axes.into_iter().find(|(_, size, h)| *size < (1.0 - TOLERANCE) * h) {
        return Some(format!(
            "{name} is thinner than a cell, {} along {axis} with a spacing of {}, and covers one node there, which has \
             the effect of a full cell; expected at least one spacing",
            length(size),
            length(h)
        ));
    }
    let is_heated = region.source.is_some_and(|source| source != 0.0);
    (is_heated && is_on_fixed_edges(heat, region.shape)).then(|| {
        format!(
            "the source of {name} is on nodes of a fixed edge only, whose temperatures are given, so it has no effect; \
             expected a region with nodes at least one spacing from the edge, {hx} x {hy}"
        )
    })
}

/// Returns the south-west corner and the size of the smallest rectangle around a shape.
fn bounding_box(shape: RegionShape) -> ([f64; 2], [f64; 2]) {
    match shape {
        RegionShape::Rectangle { corner, size } => (corner, size),
        RegionShape::Disc { centre, radius } => (centre.map(|x| x - radius), [2.0 * radius; 2]),
    }
}

/// Returns true if all nodes in a shape are on fixed edges.
fn is_on_fixed_edges(heat: &HeatCase, shape: RegionShape) -> bool {
    let grid = &heat.grid;
    let axes = [(grid.nx, grid.hx), (grid.ny, grid.hy)];
    let (low, size) = bounding_box(shape);
    // With one node more on each side, rounding errors do not matter.
    let [columns, mut rows] = [0, 1].map(|axis| {
        let (nodes, h) = axes[axis];
        let node = |x: f64| (x / h).clamp(0.0, nodes.saturating_sub(1) as f64);
        let last = node(low[axis] + size[axis]).ceil() as usize + 1;
        (node(low[axis]).floor() as usize).saturating_sub(1)..(last + 1).min(nodes)
    });
    let is_fixed = |edge: Edge| matches!(heat.edge(edge), EdgeCondition::Fixed(_));
    let [west, east, south, north] = [Edge::West, Edge::East, Edge::South, Edge::North].map(is_fixed);
    let is_given = |i: usize, j: usize| {
        (west && i == 0) || (east && i + 1 == grid.nx) || (south && j == 0) || (north && j + 1 == grid.ny)
    };
    rows.all(|j| {
        columns.clone().all(|i| is_given(i, j) || !shape.contains([i as f64 * grid.hx, j as f64 * grid.hy]))
    })
}

/// Returns a warning about conductivities of tables that are read as diffusivities, because the
/// case gives no heat capacity.
fn diffusivity_warning(case: &Case, heat: &HeatCase) -> Option<String> {
    if case.units != Units::Si || heat.has_heat_capacity() {
        return None;
    }
    let plate = match heat.conductivity {
        NodeValues::Uniform(value) => Some(("heat.conductivity".to_owned(), value)),
        NodeValues::File(_) => None,
    };
    let regions = heat.regions.iter().enumerate().filter_map(|(index, region)| {
        Some((format!("heat.region[{}].conductivity", index + 1), region.conductivity?))
    });
    let (key, value) = plate.into_iter().chain(regions).find(|(_, value)| *value > LARGEST_DIFFUSIVITY)?;
    Some(format!(
        "{key} = {} is a diffusivity in m^2/s, because the case gives no heat_capacity, and no material has more than \
         {LARGEST_DIFFUSIVITY} m^2/s; expected heat.heat_capacity in J/(m^3 K), such as 3.44e6 for copper, or a \
         diffusivity, such as 1.17e-4",
        short_number(value)
    ))
}

/// Returns a warning if fixed edges differ by more than the range of temperatures that ends the
/// run.
fn unreachable_stop_warning(heat: &HeatCase, stop: StopRange) -> Option<String> {
    let mut range = [f64::INFINITY, f64::NEG_INFINITY];
    for edge in Edge::ALL {
        let EdgeCondition::Fixed(profile) = heat.edge(edge) else { continue };
        let values = match profile {
            EdgeProfile::Constant(value) => vec![*value],
            EdgeProfile::Points(points) => interpolate(points, edge.nodes(&heat.grid)),
            EdgeProfile::File(_) => continue,
        };
        range = values.iter().fold(range, |[low, high], &value| [low.min(value), high.max(value)]);
    }
    let [low, high] = range;
    (high - low >= stop.below).then(|| {
        format!(
            "heat.stop_range = {} is never reached: fixed edges have temperatures from {} to {}; expected more than {}",
            four_digits(stop.below),
            four_digits(low),
            four_digits(high),
            four_digits(high - low)
        )
    })
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
        for rest in [rectangle(10.0, 4.0), rectangle(2.2, 1.0), rectangle(-3.0, 3.5), disc(2.5, 0.8)] {
            assert_eq!(warnings(&rest), [""; 0], "{rest}");
        }
        for (rest, thin) in [
            (rectangle(2.2, 0.9), 0.9),
            (rectangle(2.99, 0.02), 0.02),
            (disc(3.1, 0.45).replace("2.5", "3"), 0.9),
        ] {
            let expected = format!(
                "heat.region[1] is thinner than a cell, {thin} along x with a spacing of 1, and covers one node there, \
                 which has the effect of a full cell; expected at least one spacing"
            );
            assert_eq!(warnings(&rest), [expected], "{rest}");
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

    /// A source on a node of given temperature has no effect.
    #[test]
    fn sources_on_fixed_edges_are_reported() {
        let region = |shape: &str, x: f64, source: &str| {
            let size = if shape == "disc" { "radius = 0.8" } else { "width = 1.5\nheight = 3.0" };
            format!("[[heat.region]]\nshape = \"{shape}\"\nx = {x}\ny = 2.0\n{size}\n{source}\n")
        };
        let fixed = "east = { condition = \"fixed\", value = 0.0 }\n";
        let expected = "the source of heat.region[1] is on nodes of a fixed edge only, whose temperatures are given, so \
                        it has no effect; expected a region with nodes at least one spacing from the edge, 1 x 1";
        for (shape, x) in [("rectangle", 9.5), ("disc", 10.0), ("disc", 10.3)] {
            let on_edge = region(shape, x, "source = 1.0");
            assert_eq!(warnings(&format!("{fixed}{on_edge}")), [expected], "{shape}");
            assert_eq!(warnings(&on_edge), [""; 0], "{shape}");
            let conductivity = region(shape, x, "conductivity = 2.0");
            assert_eq!(warnings(&format!("{fixed}{conductivity}")), [""; 0], "{shape}");
        }
        let inside = region("rectangle", 9.0, "source = 1.0");
        assert_eq!(warnings(&format!("{fixed}{inside}")), [""; 0]);
    }

    #[test]
    fn a_range_that_fixed_edges_exceed_is_reported() {
        let plate = |range: f64| {
            let edges = "west = { condition = \"fixed\", value = 0.0 }\n\
                         east = { condition = \"fixed\", profile = [2.0, 10.0, 4.0] }";
            warnings(&format!("stop_range = {range}\n{edges}"))
        };
        let expected = "heat.stop_range = 0.5 is never reached: fixed edges have temperatures from 0 to 10; expected \
                        more than 10";
        assert_eq!(plate(0.5), [expected]);
        assert_eq!(plate(10.0).len(), 1);
        assert_eq!(plate(10.1), [""; 0]);
    }

    #[test]
    fn conductivities_without_a_heat_capacity_are_reported() {
        let found = |units: &str, heat: &str| {
            let text = format!(
                "units = \"{units}\"\n[grid]\nnx = 11\nny = 11\nhx = 1.0\n[heat]\n{heat}\n[initial]\n\
                 state = \"uniform\"\n[time]\nend = 2000.0\n"
            );
            let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
            let case = Case::load_within(&source, &[], None).unwrap_or_else(|e| panic!("{e}"));
            placement_warnings(&case, case.heat().unwrap(), 0.25)
        };
        let copper = "conductivity = 401.0";
        let expected = "heat.conductivity = 401 is a diffusivity in m^2/s, because the case gives no heat_capacity, and \
                        no material has more than 0.01 m^2/s; expected heat.heat_capacity in J/(m^3 K), such as 3.44e6 \
                        for copper, or a diffusivity, such as 1.17e-4";
        assert_eq!(found("si", copper), [expected]);
        let inlay = "[[heat.region]]\nshape = \"disc\"\nx = 5.0\ny = 5.0\nradius = 2.0\nconductivity = 14.9";
        let inlay = found("si", &format!("conductivity = 1e-4\n{inlay}"));
        assert!(
            inlay.len() == 1 && inlay[0].starts_with("heat.region[1].conductivity = 14.9 is a"),
            "{inlay:?}"
        );
        assert_eq!(found("si", "conductivity = 401.0\nheat_capacity = 3.44e6"), [""; 0]);
        assert_eq!(found("si", "conductivity = 1e-3"), [""; 0]);
        assert_eq!(found("none", copper), [""; 0]);
    }

    #[test]
    fn presets_of_plates_are_not_reported() {
        for preset in crate::case::presets().iter().filter(|preset| preset.text.contains("[heat]")) {
            let source = CaseSource::Text {
                label: preset.name.into(),
                text: preset.text.into(),
                folder: PathBuf::new(),
            };
            let case = Case::load_within(&source, &[], None).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(placement_warnings(&case, case.heat().unwrap(), 1e-9), [""; 0], "{}", preset.name);
        }
    }
}
