//! Symbols at points of the plate: stars for sources, triangles for receivers.

use std::collections::HashMap;
use std::f64::consts::{FRAC_PI_2, PI};

use super::draw::Canvas;
use super::marks::to_pixels_of;
use super::{FieldPicture, PointKind};
use crate::picture::{Image, Mask};

/// Yellow and bluish green of Okabe & Ito (2008), the yellow a little darker. The diverging map,
/// blue and red, has neither.
const SOURCE: [u8; 3] = [255, 209, 26];
const RECEIVER: [u8; 3] = [0, 142, 102];
const SOURCE_RIM: [u8; 3] = [24; 3];
const RECEIVER_RIM: [u8; 3] = [255; 3];
/// Colours of symbols that are not grey.
pub(in crate::picture) const POINT_COLOURS: [[u8; 3]; 2] = [SOURCE, RECEIVER];

/// Outer and inner radius of a star.
const STAR: [f64; 2] = [7.0, 3.0];
/// Half of the width of a triangle, and its height. It fits into the space beside an edge.
const TRIANGLE: [f64; 2] = [3.5, 6.4];

/// Draws the symbols of all points on the plate, sources last.
pub(super) fn draw_points(canvas: &mut Canvas<'_>, picture: &FieldPicture) {
    let to_pixels = to_pixels_of(canvas.layout, picture);
    let lengths = picture.grid.extents(&picture.boundaries);
    let is_on_plate = |p: [f64; 2]| (0..2).all(|k| (-1e-9..=1.0 + 1e-9).contains(&(p[k] / lengths[k])));
    // Symbols of small pictures are larger than their texts.
    let scale = canvas.layout.zoom.max(0.8);
    for kind in [PointKind::Receiver, PointKind::Source] {
        let points = picture.points.iter().filter(|point| point.kind == kind && is_on_plate(point.position));
        let centres: Vec<[f64; 2]> = points.map(|point| to_pixels(point.position)).collect();
        // Neighbours touch, so that a dense line of receivers becomes a band.
        let distance = scale * if kind == PointKind::Source { 5.0 } else { 6.0 };
        draw_symbols(canvas.image, &thinned(&centres, distance), kind, scale);
    }
}

/// Draws symbols at these pixels, with `scale` pixels per unit. A triangle has its tip there and is
/// above it.
pub(super) fn draw_symbols(image: &mut Image, centres: &[[f64; 2]], kind: PointKind, scale: f64) {
    let (shape, ink, rim, rim_width) = match kind {
        PointKind::Source => (star(), SOURCE, SOURCE_RIM, 1.0),
        PointKind::Receiver => (triangle(), RECEIVER, RECEIVER_RIM, 0.9),
    };
    let symbols: Vec<Vec<[f64; 2]>> = centres
        .iter()
        .map(|c| shape.iter().map(|p| [c[0] + scale * p[0], c[1] + scale * p[1]]).collect())
        .collect();
    let reach = scale * rim_width + 1.0;
    let Some(mut mask) = mask_around(&symbols, reach, image) else { return };
    for symbol in &symbols {
        mask.draw_polyline(symbol, scale * rim_width);
    }
    image.paint_mask(&mask, rim, 1.0);
    mask.clear();
    for symbol in &symbols {
        mask.fill_polygon(symbol);
    }
    image.paint_mask(&mask, ink, 1.0);
}

/// Returns a closed star with five points around the origin, one of them up.
fn star() -> Vec<[f64; 2]> {
    (0..=10)
        .map(|k| {
            let (angle, radius) = (f64::from(k) * PI / 5.0 - FRAC_PI_2, STAR[k as usize % 2]);
            [radius * angle.cos(), radius * angle.sin()]
        })
        .collect()
}

/// Returns a closed triangle with its tip down at the origin.
fn triangle() -> Vec<[f64; 2]> {
    let [half, height] = TRIANGLE;
    vec![[0.0, 0.0], [half, -height], [-half, -height], [0.0, 0.0]]
}

/// Returns an empty mask for the part of the image that the symbols can cover, or `None` if there
/// are no symbols.
fn mask_around(symbols: &[Vec<[f64; 2]>], reach: f64, image: &Image) -> Option<Mask> {
    let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for point in symbols.iter().flatten() {
        for k in 0..2 {
            (low[k], high[k]) = (low[k].min(point[k] - reach), high[k].max(point[k] + reach));
        }
    }
    let sides = [image.width, image.height].map(f64::from);
    let first = [0, 1].map(|k| low[k].floor().clamp(0.0, sides[k]) as i64);
    let size = [0, 1].map(|k| (high[k].ceil().clamp(0.0, sides[k]) as i64 - first[k]).max(0) as usize);
    (!symbols.is_empty()).then(|| Mask::new(first[0], first[1], size[0], size[1]))
}

/// Returns the points without those that are closer than `distance` to an earlier one. Of points at
/// equal distances, every n-th remains.
fn thinned(points: &[[f64; 2]], distance: f64) -> Vec<[f64; 2]> {
    // Round-off must not decide between neighbours at exactly this distance.
    let nearest = (1.0 - 1e-6) * distance;
    let mut kept: Vec<[f64; 2]> = Vec::new();
    // Kept points in each square of this side. Closer ones are in the same or adjacent squares.
    let mut squares: HashMap<[i64; 2], Vec<[f64; 2]>> = HashMap::new();
    for &p in points {
        let square = p.map(|c| (c / distance).floor() as i64);
        let is_free = (0..9).all(|k| {
            let neighbours = squares.get(&[square[0] + k % 3 - 1, square[1] + k / 3 - 1]);
            neighbours.is_none_or(|n| n.iter().all(|q| (p[0] - q[0]).hypot(p[1] - q[1]) >= nearest))
        });
        if is_free {
            squares.entry(square).or_default().push(p);
            kept.push(p);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use orrery_model::grid::{Boundaries, Boundary, Grid};

    use super::super::layout::FieldLayout;
    use super::super::{PointMark, Underlay, ValueRange, render_field};
    use super::*;
    use crate::picture::ColourMap;

    const GRID: Grid = Grid { nx: 41, ny: 21, hx: 0.1, hy: 0.1 };
    const RANGE: ValueRange = ValueRange { low: -1.0, high: 1.0 };

    fn picture(points: &[([f64; 2], PointKind)], pixels: (u32, u32)) -> FieldPicture {
        FieldPicture {
            colours: ColourMap::diverging(),
            points: points.iter().map(|&(position, kind)| PointMark { position, kind }).collect(),
            ..FieldPicture::new(GRID, Boundaries::uniform(Boundary::INSULATED), pixels)
        }
    }

    fn render(picture: &FieldPicture) -> Image {
        render_field(&vec![0.0; GRID.len()], picture, RANGE, "t = 1 s").unwrap()
    }

    #[test]
    fn symbols_are_at_their_points() {
        let points = [([1.0, 0.5], PointKind::Source), ([3.0, 1.5], PointKind::Receiver)];
        for is_depth_down in [false, true] {
            let picture = FieldPicture { is_depth_down, ..picture(&points, (640, 480)) };
            let image = render(&picture);
            let [left, top, right, bottom] =
                FieldLayout::new(&picture, RANGE, "t = 1 s", false).plate.map(|side| side as f64);
            let at = |x: f64, y: f64, up: f64| {
                let from_top = if is_depth_down { y / 2.0 } else { 1.0 - y / 2.0 };
                let (column, row) = (left + x / 4.0 * (right - left), top + from_top * (bottom - top) - up);
                image.pixel(column as u32, row as u32)
            };
            assert_eq!(at(1.0, 0.5, 0.0), SOURCE);
            // The tip is down, so the triangle is wide above its point and absent below it.
            assert_eq!(at(3.0, 1.5, 4.0), RECEIVER);
            let rest = picture.colours.srgb_colour(0.5);
            for (x, y, up) in [(3.0, 1.5, -4.0), (1.0, 0.5, 12.0), (1.0, 1.5, 0.0), (3.0, 0.5, 0.0)] {
                assert_eq!(at(x, y, up), rest, "({x}, {y}) {up}");
            }
        }
    }

    #[test]
    fn points_outside_the_plate_draw_nothing() {
        let (source, receiver) = (PointKind::Source, PointKind::Receiver);
        let outside = [
            ([-0.1, 1.0], source),
            ([f64::NAN, 1.0], source),
            ([1.0, 2.01], receiver),
            ([1.0, 1e300], receiver),
        ];
        let image = render(&picture(&outside, (640, 480)));
        let [left, top, right, bottom] =
            FieldLayout::new(&picture(&outside, (640, 480)), RANGE, "t = 1 s", false).plate.map(|s| s as u32);
        let rest = ColourMap::diverging().srgb_colour(0.5);
        assert!((top..bottom).all(|y| (left..right).all(|x| image.pixel(x, y) == rest)));
    }

    /// In all sizes symbols at the corners and a legend of all entries stay inside the picture.
    #[test]
    fn symbols_and_legend_are_inside_the_picture() {
        let corners = [[0.0, 0.0], [4.0, 0.0], [0.0, 2.0], [4.0, 2.0]];
        let points: Vec<_> = [PointKind::Source, PointKind::Receiver]
            .into_iter()
            .flat_map(|kind| corners.map(|corner| (corner, kind)))
            .collect();
        let velocities: Vec<f64> = (0..GRID.len()).map(|i| i as f64).collect();
        for pixels in [(1, 1), (3, 200), (64, 64), (97, 65), (240, 180), (320, 200), (640, 400), (1280, 500)]
        {
            let picture = FieldPicture {
                underlay: Underlay::from_values(&velocities, "velocity", "m/s"),
                ..picture(&points, pixels)
            };
            let image = render(&picture);
            assert_eq!((image.width, image.height), pixels);
            let layout = FieldLayout::new(&picture, RANGE, "t = 1 s", false);
            assert_eq!(layout.legend.is_empty(), pixels.0 < 200, "{pixels:?}");
            if layout.plate[0] > 0 && layout.plate[1] > 0 {
                let (right, bottom) = (image.width - 1, image.height - 1);
                let is_white = |x, y| image.pixel(x, y) == [255; 3];
                assert!((0..=right).all(|x| is_white(x, 0) && is_white(x, bottom)), "{pixels:?}");
                assert!((0..=bottom).all(|y| is_white(0, y) && is_white(right, y)), "{pixels:?}");
            }
        }
    }

    #[test]
    fn dense_points_are_thinned_evenly() {
        let line = |n: usize, spacing: f64| -> Vec<[f64; 2]> {
            (0..n).map(|k| [100.3 + spacing * k as f64, -7.0]).collect()
        };
        for (spacing, stride) in [(9.0, 1), (6.0, 1), (5.9, 2), (0.5, 12), (1e-3, 6000)] {
            let points = line(20_000, spacing);
            let expected: Vec<[f64; 2]> = points.iter().copied().step_by(stride).collect();
            assert_eq!(thinned(&points, 6.0), expected, "spacing {spacing}");
        }
        // In a plane no two are too close, and none could be added.
        let plane: Vec<[f64; 2]> =
            (0..2000).map(|k| [f64::from(k * 7919 % 401), f64::from(k * 104_729 % 397)]).collect();
        let kept = thinned(&plane, 20.0);
        let nearest = |p: &[f64; 2], except: usize| {
            let others = kept.iter().enumerate().filter(|(k, _)| *k != except);
            others.map(|(_, q)| (p[0] - q[0]).hypot(p[1] - q[1])).fold(f64::INFINITY, f64::min)
        };
        assert!(kept.iter().enumerate().all(|(k, p)| nearest(p, k) > 19.999));
        assert!(plane.iter().all(|p| nearest(p, usize::MAX) < 20.0));
    }
}
