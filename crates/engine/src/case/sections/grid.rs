//! `[grid]`: the nodes of a field.

use orrery_model::grid::{Grid, MAX_NODES, MIN_NODES, SPACINGS};
use orrery_model::wave::WaveGrid;
use orrery_model::{Dimension, short_number};

use crate::case::declare::{Kind, Range, SectionSpec, derived_key, key, quantity, required_key};
use crate::case::physics::WAVE;
use crate::case::reader::Section;
use crate::case::resolved::SectionWriter;

const NODES: Kind = Kind::Integer { least: MIN_NODES as u64, most: MAX_NODES as u64 };
const LENGTH: Kind = quantity(Dimension::Length, Range::Positive);
const SPACING: Kind =
    quantity(Dimension::Length, Range::Between { least: *SPACINGS.start(), most: *SPACINGS.end() });

pub(in crate::case) const SPEC: &SectionSpec = &SectionSpec {
    required: Some("one with nx = ..., ny = ... and width = ..."),
    ..SectionSpec::new(
        "grid",
        "The nodes of a rectangle: `nx` from west to east and `ny` from south to north. The first and the last \
         node of a row are on the edges. Between periodic edges, the east edge is one space beyond the last node. \
         Waves can have a third axis z. Their last axis is the depth.",
        &[&[
            required_key("nx", NODES, "Number of nodes along x."),
            required_key("ny", NODES, "Number of nodes along y."),
            derived_key(
                "hx",
                SPACING,
                "`width` / (`nx` - 1), or / `nx` between periodic edges",
                "Spacing along x.",
            ),
            derived_key("hy", SPACING, "as for `hx` with `height`, or else `hx`", "Spacing along y."),
            derived_key("width", LENGTH, "none: give `hx` or `width`", "Extent along x."),
            derived_key("height", LENGTH, "follows from `hy`", "Extent along y."),
            key(
                "nz",
                Kind::Integer { least: 1, most: MAX_NODES as u64 },
                "1",
                "Number of nodes along z. 1 is two dimensions.",
            )
            .only_for(WAVE),
            derived_key("hz", SPACING, "as for `hx` with `depth`, or else `hx`", "Spacing along z.")
                .only_for(WAVE),
            derived_key("depth", LENGTH, "follows from `hz`", "Extent along z.").only_for(WAVE),
        ]],
    )
};

/// Reads `[grid]`. `is_periodic` is that of x and y.
pub(in crate::case) fn read_grid(section: &Section<'_>, is_periodic: [bool; 2]) -> Grid {
    let [nx, ny] = ["nx", "ny"].map(|key| section.count(key));
    let spaces = |nodes: usize, is_periodic: bool| (nodes - usize::from(!is_periodic && nodes > 0)) as f64;
    let hx = read_spacing(section, ["hx", "width"], spaces(nx, is_periodic[0]));
    let hy = read_spacing(section, ["hy", "height"], spaces(ny, is_periodic[1]));
    if hx.is_none() && !section.has_key("hx") && !section.has_key("width") {
        section.report_incomplete("[grid] has neither hx nor width, expected one of them");
    }
    section.finish();
    let hx = hx.unwrap_or(1.0);
    Grid { nx, ny, hx, hy: hy.unwrap_or(hx) }
}

/// Reads `[grid]` of waves.
pub(in crate::case) fn read_wave_grid(section: &Section<'_>) -> WaveGrid {
    let nodes = ["nx", "ny", "nz"].map(|key| section.count(key));
    let keys = [["hx", "width"], ["hy", "height"], ["hz", "depth"]];
    // In two dimensions the depth has no effect, which a warning says. It is one space then.
    let spaces = [nodes[0].saturating_sub(1), nodes[1].saturating_sub(1), nodes[2].saturating_sub(1).max(1)];
    let [hx, hy, hz] = [0, 1, 2].map(|axis| read_spacing(section, keys[axis], spaces[axis] as f64));
    if hx.is_none() && !section.has_key("hx") && !section.has_key("width") {
        section.report_incomplete("[grid] has neither hx nor width, expected one of them");
    }
    section.finish();
    let hx = hx.unwrap_or(1.0);
    WaveGrid { nodes, spacing: [hx, hy.unwrap_or(hx), hz.unwrap_or(hx)] }
}

/// Reads a spacing, or an extent of this number of spaces. Returns `None` if neither is given.
fn read_spacing(section: &Section<'_>, [h, extent]: [&'static str; 2], spaces: f64) -> Option<f64> {
    let (spacing, length) = (section.quantity_if_given(h), section.quantity_if_given(extent));
    if section.has_key(h) && section.has_key(extent) {
        section.reject(extent, &format!(" conflicts with grid.{h}, expected only one of them"));
    }
    let of_extent = length.map(|length| length / spaces);
    if let Some(spacing) = of_extent.filter(|spacing| spaces > 0.0 && !SPACINGS.contains(spacing)) {
        let condition = format!("expected {:e} to {:e}", SPACINGS.start(), SPACINGS.end());
        section.reject(extent, &format!(" gives {h} = {}, {condition}", short_number(spacing)));
    }
    spacing.or(of_extent)
}

pub(in crate::case) fn write_grid(w: &mut SectionWriter<'_>, grid: &Grid) {
    w.integer("nx", grid.nx as u64);
    w.integer("ny", grid.ny as u64);
    w.quantity("hx", grid.hx);
    w.quantity("hy", grid.hy);
    w.leave_out("width");
    w.leave_out("height");
}

pub(in crate::case) fn write_wave_grid(w: &mut SectionWriter<'_>, grid: &WaveGrid) {
    ["nx", "ny", "nz"].into_iter().zip(grid.nodes).for_each(|(key, n)| w.integer(key, n as u64));
    ["hx", "hy", "hz"].into_iter().zip(grid.spacing).for_each(|(key, h)| w.quantity(key, h));
    ["width", "height", "depth"].into_iter().for_each(|key| w.leave_out(key));
}
