//! Antialiased strokes.
//!
//! The coverage of a pixel by a stroke of half-width r is clamp(r + 1/2 - d, 0, 1), with the
//! distance d of its centre from the segment. Where segments of one stroke overlap, the larger
//! coverage is used instead of the sum, so joints are not visible.
//!
//! Coordinates are in pixels, with x to the right and y down. (0, 0) is the corner of the first
//! pixel.

use std::ops::Range;

/// Lines per row of pixels in a filled polygon.
const SUB_ROWS: usize = 4;

/// Coverage of the pixels of a rectangle, in 0..=1.
pub(crate) struct Mask {
    /// Image column of column 0 of the mask.
    pub left: i64,
    /// Image row of row 0 of the mask.
    pub top: i64,
    pub width: usize,
    pub height: usize,
    pub coverage: Vec<f32>,
    /// Rows and columns of the mask outside of which the coverage is 0.
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Mask {
    pub fn new(left: i64, top: i64, width: usize, height: usize) -> Self {
        Self { left, top, width, height, coverage: vec![0.0; width * height], rows: 0..0, columns: 0..0 }
    }

    /// Returns a mask for a whole image.
    pub fn for_image(width: u32, height: u32) -> Self {
        Self::new(0, 0, width as usize, height as usize)
    }

    /// Removes all strokes.
    pub fn clear(&mut self) {
        for row in self.rows.clone() {
            self.coverage[row * self.width..][self.columns.clone()].fill(0.0);
        }
        (self.rows, self.columns) = (0..0, 0..0);
    }

    /// Draws the segment from `p` to `q`. Its strength varies linearly from `from` to `to`.
    /// Segments that are not finite are skipped.
    pub fn draw_fading_segment(&mut self, p: [f64; 2], q: [f64; 2], radius: f64, from: f64, to: f64) {
        if !p.iter().chain(&q).all(|c| c.is_finite()) {
            return;
        }
        let (left, top, reach) = (self.left as f64, self.top as f64, radius + 0.5);
        let (low, high) = self.visible_bounds(reach);
        let Some((t0, t1)) = clip_segment(p, q, low, high) else { return };
        let at = |t: f64| [p[0] + (q[0] - p[0]) * t - left, p[1] + (q[1] - p[1]) * t - top];
        let (from, to) = (from + (to - from) * t0, from + (to - from) * t1);
        let (p, q) = (at(t0), at(t1));
        let d = [q[0] - p[0], q[1] - p[1]];
        let length2 = d[0] * d[0] + d[1] * d[1];
        let row_range = pixel_range(p[1].min(q[1]) - reach, p[1].max(q[1]) + reach, self.height);
        extend_range(&mut self.rows, &row_range);
        for row in row_range {
            let y = row as f64 + 0.5;
            // The part of the segment that can cover pixels of this row.
            let (mut a, mut b) = (0.0, 1.0);
            if d[1].abs() > 1e-9 {
                let (u, v) = ((y - reach - p[1]) / d[1], (y + reach - p[1]) / d[1]);
                (a, b) = (u.min(v).clamp(0.0, 1.0), u.max(v).clamp(0.0, 1.0));
            }
            let (xa, xb) = (p[0] + d[0] * a, p[0] + d[0] * b);
            let column_range = pixel_range(xa.min(xb) - reach, xa.max(xb) + reach, self.width);
            extend_range(&mut self.columns, &column_range);
            for column in column_range {
                let r = [column as f64 + 0.5 - p[0], y - p[1]];
                let t =
                    if length2 > 0.0 { ((r[0] * d[0] + r[1] * d[1]) / length2).clamp(0.0, 1.0) } else { 1.0 };
                let e = [r[0] - d[0] * t, r[1] - d[1] * t];
                let cover = (reach - (e[0] * e[0] + e[1] * e[1]).sqrt()).clamp(0.0, 1.0);
                let value = (cover * (from + (to - from) * t)) as f32;
                let pixel = &mut self.coverage[row * self.width + column];
                *pixel = pixel.max(value);
            }
        }
    }

    /// Draws the segment from `p` to `q`.
    pub fn draw_segment(&mut self, p: [f64; 2], q: [f64; 2], radius: f64) {
        self.draw_fading_segment(p, q, radius, 1.0, 1.0);
    }

    /// Draws a chain of segments.
    pub fn draw_polyline(&mut self, points: &[[f64; 2]], radius: f64) {
        points.windows(2).for_each(|pair| self.draw_segment(pair[0], pair[1], radius));
    }

    /// Draws a chain of segments as dashes: `on` pixels drawn and `off` pixels omitted, in turn.
    pub fn draw_dashes(&mut self, points: &[[f64; 2]], radius: f64, on: f64, off: f64) {
        let period = on + off;
        if !(period.is_finite() && on > 0.0 && off > 0.0) {
            return self.draw_polyline(points, radius);
        }
        let (low, high) = self.visible_bounds(radius + 0.5);
        let mut start = 0.0;
        for pair in points.windows(2) {
            let (p, q) = (pair[0], pair[1]);
            let length = (q[0] - p[0]).hypot(q[1] - p[1]);
            if !length.is_finite() || length == 0.0 {
                continue;
            }
            // Only the visible part is divided into dashes, because a segment can be extremely
            // long.
            if let Some((t0, t1)) = clip_segment(p, q, low, high) {
                let at = |t: f64| [p[0] + (q[0] - p[0]) * t, p[1] + (q[1] - p[1]) * t];
                let (phase, seen) = ((start + t0 * length) % period, (t1 - t0) * length);
                for k in 0..=((phase + seen) / period) as usize {
                    let first = (k as f64 * period - phase).max(0.0);
                    let last = (k as f64 * period + on - phase).min(seen);
                    if first < last {
                        self.draw_segment(at(t0 + first / length), at(t0 + last / length), radius);
                    }
                }
            }
            start = (start + length) % period;
        }
    }

    /// Returns the corners of the rectangle in which a stroke with this reach can cover pixels of
    /// the mask.
    fn visible_bounds(&self, reach: f64) -> ([f64; 2], [f64; 2]) {
        let (left, top) = (self.left as f64, self.top as f64);
        let (right, bottom) = (left + self.width as f64, top + self.height as f64);
        ([left - reach, top - reach], [right + reach, bottom + reach])
    }

    /// Fills a polygon by the even-odd rule. Polygons that are not finite are skipped.
    ///
    /// Each row is divided into [`SUB_ROWS`] lines. Along a line the coverage is exact.
    pub fn fill_polygon(&mut self, points: &[[f64; 2]]) {
        if !points.iter().flatten().all(|c| c.is_finite()) {
            return;
        }
        let origin = [self.left as f64, self.top as f64];
        let points: Vec<[f64; 2]> = points.iter().map(|p| [p[0] - origin[0], p[1] - origin[1]]).collect();
        let (low, high) = points
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| (low.min(p[1]), high.max(p[1])));
        let rows = pixel_range(low, high, self.height);
        extend_range(&mut self.rows, &rows);
        let mut crossings: Vec<Vec<f64>> = vec![Vec::new(); rows.len() * SUB_ROWS];
        for (k, p) in points.iter().enumerate() {
            let q = points[(k + 1) % points.len()];
            let (from, to) = if p[1] < q[1] { (*p, q) } else { (q, *p) };
            // Lines at the heights (row + (sub + 1/2) / SUB_ROWS), from the first one at or below
            // `from` up to the last one above `to`.
            let line_of = |y: f64| {
                let line = ((y - rows.start as f64) * SUB_ROWS as f64 - 0.5).ceil();
                line.clamp(0.0, crossings.len() as f64) as usize
            };
            for line in line_of(from[1])..line_of(to[1]) {
                let y = rows.start as f64 + (line as f64 + 0.5) / SUB_ROWS as f64;
                let t = (y - from[1]) / (to[1] - from[1]);
                crossings[line].push(from[0] + (to[0] - from[0]) * t);
            }
        }
        for (line, mut line_crossings) in crossings.into_iter().enumerate() {
            line_crossings.sort_by(f64::total_cmp);
            for pair in line_crossings.chunks_exact(2) {
                self.add_span(rows.start + line / SUB_ROWS, pair[0], pair[1]);
            }
        }
    }

    /// Adds the coverage of a line of a row between two columns.
    fn add_span(&mut self, row: usize, from: f64, to: f64) {
        let columns = pixel_range(from, to, self.width);
        extend_range(&mut self.columns, &columns);
        for column in columns {
            let covered = (to.min(column as f64 + 1.0) - from.max(column as f64)).max(0.0);
            let pixel = &mut self.coverage[row * self.width + column];
            *pixel = (*pixel + covered as f32 / SUB_ROWS as f32).min(1.0);
        }
    }

    /// Fills a disc.
    pub fn draw_disc(&mut self, centre: [f64; 2], radius: f64) {
        self.draw_segment(centre, centre, radius);
    }
}

/// Returns the pixels of `0..size` whose centres can be in `low..high`.
fn pixel_range(low: f64, high: f64, size: usize) -> Range<usize> {
    let first = low.floor().clamp(0.0, size as f64) as usize;
    let last = high.ceil().clamp(0.0, size as f64) as usize;
    first..last.max(first)
}

/// Extends a range so that it contains another one.
fn extend_range(range: &mut Range<usize>, other: &Range<usize>) {
    if range.start >= range.end {
        *range = other.clone();
    } else if other.start < other.end {
        *range = range.start.min(other.start)..range.end.max(other.end);
    }
}

/// Returns the part (t0, t1) of the segment that is inside the box (Liang & Barsky 1984), or `None`
/// if there is none.
pub(crate) fn clip_segment(p: [f64; 2], q: [f64; 2], low: [f64; 2], high: [f64; 2]) -> Option<(f64, f64)> {
    let (mut t0, mut t1) = (0.0f64, 1.0f64);
    for k in 0..2 {
        let d = q[k] - p[k];
        if d == 0.0 {
            if p[k] < low[k] || p[k] > high[k] {
                return None;
            }
            continue;
        }
        let (u, v) = ((low[k] - p[k]) / d, (high[k] - p[k]) / d);
        (t0, t1) = (t0.max(u.min(v)), t1.min(u.max(v)));
    }
    (t0 <= t1).then_some((t0, t1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The covered area is length x width plus the round ends, up to the error of antialiasing.
    #[test]
    fn coverage_is_the_area_of_the_stroke() {
        let mut mask = Mask::for_image(100, 100);
        mask.draw_segment([20.3, 30.7], [71.9, 64.2], 2.0);
        let area: f64 = mask.coverage.iter().map(|&c| f64::from(c)).sum();
        let length = (51.6f64.powi(2) + 33.5f64.powi(2)).sqrt();
        let expected = 4.0 * length + 4.0 * std::f64::consts::PI;
        assert!((area / expected - 1.0).abs() < 0.02, "{area} against {expected}");
    }

    /// The area of a polygon with slanted edges, of which one part is outside the mask. The lines
    /// of a row integrate edges without horizontal parts exactly, apart from their ends.
    #[test]
    fn filled_area_is_that_of_the_polygon() {
        let mut mask = Mask::new(10, 20, 60, 40);
        mask.fill_polygon(&[[15.25, 25.5], [45.75, 25.5], [35.0, 50.0], [20.0, 50.0]]);
        let area: f64 = mask.coverage.iter().map(|&c| f64::from(c)).sum();
        let expected = 0.5 * (30.5 + 15.0) * 24.5;
        assert!((area - expected).abs() < 0.01 * expected, "{area} against {expected}");
        assert!(mask.coverage.iter().all(|&c| c <= 1.0));
        mask.clear();
        mask.fill_polygon(&[[0.0, 0.0], [1e6, 0.0], [1e6, 1e6], [0.0, 1e6]]);
        assert!(mask.coverage.iter().all(|&c| c > 0.99));
        mask.clear();
        mask.fill_polygon(&[[0.0, f64::NAN], [60.0, 0.0], [60.0, 60.0]]);
        assert!(mask.coverage.iter().all(|&c| c == 0.0));
    }

    #[test]
    fn a_cleared_mask_is_empty() {
        let mut mask = Mask::for_image(100, 50);
        mask.draw_segment([20.3, 30.7], [71.9, 14.2], 2.0);
        mask.draw_disc([90.0, 45.0], 3.0);
        let is_covered = |mask: &Mask| mask.coverage.iter().any(|&c| c > 0.0);
        assert!(is_covered(&mask));
        mask.clear();
        assert!(!is_covered(&mask));
    }

    /// 6 pixels on and 4 off, independent of the segments of the line.
    #[test]
    fn dashes_are_periodic_across_segments() {
        let mut mask = Mask::for_image(100, 9);
        let points: Vec<[f64; 2]> = (0..=33).map(|i| [-0.5 + f64::from(i) * 101.0 / 33.0, 4.5]).collect();
        mask.draw_dashes(&points, 0.5, 6.0, 4.0);
        let row = |x: usize| mask.coverage[4 * 100 + x];
        assert!(
            (0..10).all(|k| row(10 * k + 2) > 0.9 && row(10 * k + 7) < 0.1),
            "{:?}",
            &mask.coverage[400..500]
        );
    }

    #[test]
    fn distant_and_non_finite_segments_draw_nothing() {
        let mut mask = Mask::for_image(10, 10);
        mask.draw_segment([1e18, 5.0], [1e18, -1e300], 1.0);
        mask.draw_segment([f64::NAN, 0.0], [5.0, 5.0], 1.0);
        mask.draw_dashes(&[[f64::INFINITY, 0.0], [5.0, 5.0]], 1.0, 3.0, 2.0);
        assert!(mask.coverage.iter().all(|&c| c == 0.0));
    }

    #[test]
    fn very_long_line_crosses_the_picture() {
        let mut mask = Mask::for_image(10, 10);
        mask.draw_segment([-1e7, 5.0], [1e7, 5.0], 1.0);
        assert!((0..10).all(|x| mask.coverage[5 * 10 + x] > 0.9));
    }
}
