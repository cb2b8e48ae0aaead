//! Marks of the edges and outlines of regions.

use std::f64::consts::TAU;

use orrery_model::grid::{Boundary, Edge, RegionShape};

use super::draw::Canvas;
use super::layout::FieldLayout;
use super::legend::LegendEntry;
use super::{FieldPicture, RegionKind};
use crate::picture::{Image, Mask};
use crate::plot::{INK, SOFT_INK};

/// Colours of Okabe & Ito (2008): vermilion for arrows, blue for dashes.
const FLUX: [u8; 3] = [213, 94, 0];
const PERIODIC: [u8; 3] = [0, 114, 178];
/// Colours of marks that are not grey.
pub(in crate::picture) const MARK_COLOURS: [[u8; 3]; 2] = [FLUX, PERIODIC];

/// Distance of the arrows of a flux, and of the strokes of the hatching.
const ARROW_SPACING: f64 = 14.0;
const HATCH_SPACING: f64 = 6.0;

/// Draws the mark of each edge outside the plate.
pub(super) fn draw_edges(canvas: &mut Canvas<'_>, picture: &FieldPicture) {
    let [left, top, right, bottom] = canvas.to_units(canvas.layout.plate);
    for edge in Edge::ALL {
        // From the first node to the last node of the edge, and the direction out of the plate.
        let (from, to, outward) = match edge {
            Edge::West => ([left, bottom], [left, top], [-1.0, 0.0]),
            Edge::East => ([right, bottom], [right, top], [1.0, 0.0]),
            Edge::South => ([left, bottom], [right, bottom], [0.0, 1.0]),
            Edge::North => ([left, top], [right, top], [0.0, -1.0]),
        };
        let boundary = picture.boundaries.on(edge);
        let last = (edge.nodes(&picture.grid) - 1) as f64;
        let flux = |s: f64| match boundary {
            Boundary::Flux(values) => values.at((s * last).round() as usize),
            _ => 0.0,
        };
        draw_edge(canvas, &LegendEntry::for_boundary(boundary), from, to, outward, flux);
    }
}

/// Draws the mark of one edge. `flux` gives the flux into the plate at a position from 0 to 1.
pub(super) fn draw_edge(
    canvas: &mut Canvas<'_>,
    mark: &LegendEntry,
    from: [f64; 2],
    to: [f64; 2],
    outward: [f64; 2],
    flux: impl Fn(f64) -> f64,
) {
    let length = (to[0] - from[0]).hypot(to[1] - from[1]);
    let along = [0, 1].map(|k| (to[k] - from[k]) / length.max(1e-9));
    let point = |distance: f64, out: f64| [0, 1].map(|k| from[k] + distance * along[k] + out * outward[k]);
    match mark {
        LegendEntry::Fixed => {
            canvas.draw_line(vec![point(1.5, 4.2), point(length - 1.5, 4.2)], INK, 3.2, false);
        }
        LegendEntry::Periodic => {
            canvas.draw_line(vec![point(0.0, 4.2), point(length, 4.2)], PERIODIC, 1.6, true);
        }
        LegendEntry::Insulated => {
            let strokes = (length / HATCH_SPACING).round().max(1.0);
            for k in 0..strokes as usize {
                let start = (k as f64 + 0.15) / strokes * length;
                let end = (start + 4.2).min(length);
                canvas.draw_line(
                    vec![point(start, 1.2), point(end, 1.2 + end - start)],
                    SOFT_INK,
                    1.0,
                    false,
                );
            }
        }
        LegendEntry::Flux => {
            let arrows = (length / ARROW_SPACING).round().max(1.0);
            for k in 0..arrows as usize {
                let s = (k as f64 + 0.5) / arrows;
                let (middle, value) = (s * length, flux(s));
                if value == 0.0 {
                    continue;
                }
                let (tip, tail, wing) = if value > 0.0 { (1.8, 7.8, 4.4) } else { (7.8, 1.8, 5.2) };
                canvas.draw_line(vec![point(middle, tail), point(middle, tip)], FLUX, 1.3, false);
                let head = vec![point(middle - 2.6, wing), point(middle, tip), point(middle + 2.6, wing)];
                canvas.draw_line(head, FLUX, 1.3, false);
            }
        }
        // The other entries are not edges.
        _ => {}
    }
}

/// Draws the outlines of all regions, the interior between absorbing layers first.
pub(super) fn draw_regions(canvas: &mut Canvas<'_>, picture: &FieldPicture) {
    let (plate, zoom) = (canvas.layout.plate, canvas.layout.zoom);
    let to_pixels = to_pixels_of(canvas.layout, picture);
    for kind in [RegionKind::Interior, RegionKind::Source, RegionKind::Material] {
        for region in picture.regions.iter().filter(|region| region.kind == kind) {
            let points: Vec<[f64; 2]> = outline(region.shape).into_iter().map(&to_pixels).collect();
            draw_outline(canvas.image, plate, &points, kind, zoom);
        }
    }
}

/// Returns the function from positions in the lengths of the grid to pixels.
pub(super) fn to_pixels_of(layout: &FieldLayout, picture: &FieldPicture) -> impl Fn([f64; 2]) -> [f64; 2] {
    let [left, top, right, bottom] = layout.plate.map(|side| side as f64);
    let lengths = picture.grid.extents(&picture.boundaries);
    let scale = [(right - left) / lengths[0], (bottom - top) / lengths[1]];
    let is_depth_down = picture.is_depth_down;
    move |p| {
        let y = if is_depth_down { top + p[1] * scale[1] } else { bottom - p[1] * scale[1] };
        [left + p[0] * scale[0], y]
    }
}

/// Returns a closed polygon around a region.
fn outline(shape: RegionShape) -> Vec<[f64; 2]> {
    match shape {
        RegionShape::Rectangle { corner: [x, y], size: [width, height] } => {
            vec![[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]]
        }
        RegionShape::Disc { centre, radius } => (0..=128)
            .map(|k| {
                let angle = TAU * f64::from(k) / 128.0;
                [centre[0] + radius * angle.cos(), centre[1] + radius * angle.sin()]
            })
            .collect(),
    }
}

/// Draws the part of a polygon inside a rectangle of pixels, with a rim that makes it visible on
/// every colour.
pub(super) fn draw_outline(
    image: &mut Image,
    [left, top, right, bottom]: [i64; 4],
    points: &[[f64; 2]],
    kind: RegionKind,
    zoom: f64,
) {
    let mut mask = Mask::new(left, top, (right - left) as usize, (bottom - top) as usize);
    let radius = 0.75 * zoom.max(0.8);
    let (ink, rim) = match kind {
        RegionKind::Source => ([255; 3], [0; 3]),
        RegionKind::Material => ([0; 3], [255; 3]),
        RegionKind::Interior => ([110; 3], [255; 3]),
    };
    // The edges of layers are not parts of the medium, so they are thin.
    let radius = if kind == RegionKind::Interior { 0.6 * radius } else { radius };
    for (radius, colour, opacity) in [(1.9 * radius, rim, 0.75), (radius, ink, 1.0)] {
        match kind {
            RegionKind::Source | RegionKind::Interior => mask.draw_polyline(points, radius),
            RegionKind::Material => mask.draw_dashes(points, radius, 5.0 * zoom, 5.0 * zoom),
        }
        image.paint_mask(&mask, colour, opacity);
        mask.clear();
    }
}
