//! Images of nodes beyond free surfaces and rigid sides.

use std::ops::Range;

use orrery_model::wave::{Side, Sides};

use super::MAX_RADIUS;
use super::layout::WaveLayout;
use crate::Scalar;

/// Copies `len` values from one place of a field to another, times `sign`.
pub fn copy_image<R: Scalar>(values: &mut [R], from: usize, to: usize, len: usize, sign: f64) {
    let sign = R::from_f64(sign);
    for k in 0..len {
        values[to + k] = sign * values[from + k];
    }
}

/// Writes the images of the rows `rows` of a plane, beyond the sides along x. In three dimensions,
/// writes those beyond a side along y if the rows contain that side, with at least four more.
///
/// `band` is the part of the plane that starts at position `base`.
pub fn write_images<R: Scalar>(
    layout: &WaveLayout,
    sides: &Sides,
    rows: Range<usize>,
    band: &mut [R],
    base: usize,
) {
    let [nx, ny, _] = layout.nodes;
    let node = |j: usize| layout.row_in_plane(j) - base;
    for (side, end) in [(Side::XMin, 0), (Side::XMax, nx - 1)] {
        let Some(sign) = sides.on(side).image_sign().map(R::from_f64) else { continue };
        for j in rows.clone() {
            let around = &mut band[node(j) + end - MAX_RADIUS..][..2 * MAX_RADIUS + 1];
            for r in 1..=MAX_RADIUS {
                let [low, high] = [MAX_RADIUS - r, MAX_RADIUS + r];
                let (image, inside) = if side.is_max() { (high, low) } else { (low, high) };
                around[image] = sign * around[inside];
            }
        }
    }
    if !layout.is_volume() {
        return;
    }
    let pitch = layout.pitch as isize;
    for (side, end, outwards) in [(Side::YMin, 0, -pitch), (Side::YMax, ny - 1, pitch)] {
        match sides.on(side).image_sign() {
            Some(sign) if rows.contains(&end) => write_line(band, node(end), outwards, nx, sign),
            _ => {}
        }
    }
}

/// Writes the images of `len` lines whose nodes on the side start at `end`.
fn write_line<R: Scalar>(values: &mut [R], end: usize, outwards: isize, len: usize, sign: f64) {
    for r in 1..=MAX_RADIUS as isize {
        let (to, from) = (end.wrapping_add_signed(r * outwards), end.wrapping_add_signed(-r * outwards));
        copy_image(values, from, to, len, sign);
    }
}
