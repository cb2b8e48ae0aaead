//! Warnings about regions of a plate without nodes, and about a check of the end that never
//! happens.

use orrery_model::grid::{Grid, RegionShape};
use orrery_particles::settings::StepChoice;

use crate::case::{Case, HeatCase, StopRange};

/// Rounding errors of coordinates are far below this fraction of a spacing.
const TOLERANCE: f64 = 1e-6;

/// Returns the warnings of a case, one line each.
pub(super) fn placement_warnings(case: &Case, heat: &HeatCase) -> Vec<String> {
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
    regions.chain(heat.stop.and_then(|stop| stop_warning(case, stop))).collect()
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
        placement_warnings(&case, case.heat().unwrap())
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
