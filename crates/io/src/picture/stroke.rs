//! Antialiased strokes.
//!
//! A pixel's coverage by a stroke of half-width r is clamp(r + 1/2 - d, 0, 1), with d the distance of its
//! centre from the segment. Overlapping segments of one stroke keep the larger coverage instead of adding,
//! so joints do not show and a fading trail has no beads.
//!
//! Coordinates are in pixels, x to the right, y down, (0, 0) the corner of the first pixel.

/// Coverage in 0..=1 of the pixels of a rectangle.
pub(crate) struct Mask {
    /// Column of the image that column 0 of the mask stands for.
    pub left: i64,
    /// The same for rows.
    pub top: i64,
    pub width: usize,
    pub height: usize,
    pub coverage: Vec<f32>,
}

impl Mask {
    pub fn new(left: i64, top: i64, width: usize, height: usize) -> Self {
        Self { left, top, width, height, coverage: vec![0.0; width * height] }
    }

    /// A mask for all of an image.
    pub fn whole(width: u32, height: u32) -> Self {
        Self::new(0, 0, width as usize, height as usize)
    }

    /// Strokes the segment from `p` to `q`, with the stroke's strength running from `from` to `to`.
    /// Segments that are not finite are left out.
    pub fn fading_segment(&mut self, p: [f64; 2], q: [f64; 2], radius: f64, from: f64, to: f64) {
        if !p.iter().chain(&q).all(|c| c.is_finite()) {
            return;
        }
        let (left, top, reach) = (self.left as f64, self.top as f64, radius + 0.5);
        let (low, high) = self.bounds(reach);
        let Some((t0, t1)) = clip(p, q, low, high) else { return };
        let at = |t: f64| [p[0] + (q[0] - p[0]) * t - left, p[1] + (q[1] - p[1]) * t - top];
        let (from, to) = (from + (to - from) * t0, from + (to - from) * t1);
        let (p, q) = (at(t0), at(t1));
        let d = [q[0] - p[0], q[1] - p[1]];
        let length2 = d[0] * d[0] + d[1] * d[1];
        let row_range = span(p[1].min(q[1]) - reach, p[1].max(q[1]) + reach, self.height);
        for row in row_range {
            let y = row as f64 + 0.5;
            // The part of the segment that this row can see.
            let (mut a, mut b) = (0.0, 1.0);
            if d[1].abs() > 1e-9 {
                let (u, v) = ((y - reach - p[1]) / d[1], (y + reach - p[1]) / d[1]);
                (a, b) = (u.min(v).clamp(0.0, 1.0), u.max(v).clamp(0.0, 1.0));
            }
            let (xa, xb) = (p[0] + d[0] * a, p[0] + d[0] * b);
            for column in span(xa.min(xb) - reach, xa.max(xb) + reach, self.width) {
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

    /// Strokes the segment from `p` to `q`.
    pub fn segment(&mut self, p: [f64; 2], q: [f64; 2], radius: f64) {
        self.fading_segment(p, q, radius, 1.0, 1.0);
    }

    /// Strokes a chain of segments.
    pub fn polyline(&mut self, points: &[[f64; 2]], radius: f64) {
        points.windows(2).for_each(|pair| self.segment(pair[0], pair[1], radius));
    }

    /// Strokes a chain of segments as dashes, `on` pixels drawn and `off` pixels left out in turn.
    pub fn dashed(&mut self, points: &[[f64; 2]], radius: f64, on: f64, off: f64) {
        let period = on + off;
        if !(period.is_finite() && on > 0.0 && off > 0.0) {
            return self.polyline(points, radius);
        }
        let (low, high) = self.bounds(radius + 0.5);
        let mut start = 0.0;
        for pair in points.windows(2) {
            let (p, q) = (pair[0], pair[1]);
            let length = (q[0] - p[0]).hypot(q[1] - p[1]);
            if !length.is_finite() || length == 0.0 {
                continue;
            }
            // Only what is in sight is cut into dashes: a segment may be as long as numbers go.
            if let Some((t0, t1)) = clip(p, q, low, high) {
                let at = |t: f64| [p[0] + (q[0] - p[0]) * t, p[1] + (q[1] - p[1]) * t];
                let (phase, seen) = ((start + t0 * length) % period, (t1 - t0) * length);
                for k in 0..=((phase + seen) / period) as usize {
                    let first = (k as f64 * period - phase).max(0.0);
                    let last = (k as f64 * period + on - phase).min(seen);
                    if first < last {
                        self.segment(at(t0 + first / length), at(t0 + last / length), radius);
                    }
                }
            }
            start = (start + length) % period;
        }
    }

    /// The corners of the rectangle from which a stroke that reaches this far can be seen.
    fn bounds(&self, reach: f64) -> ([f64; 2], [f64; 2]) {
        let (left, top) = (self.left as f64, self.top as f64);
        let (right, bottom) = (left + self.width as f64, top + self.height as f64);
        ([left - reach, top - reach], [right + reach, bottom + reach])
    }

    /// Fills a disc.
    pub fn disc(&mut self, centre: [f64; 2], radius: f64) {
        self.segment(centre, centre, radius);
    }
}

/// Pixels whose centres can lie in `low..high`, within `0..size`.
fn span(low: f64, high: f64, size: usize) -> std::ops::Range<usize> {
    let first = low.floor().clamp(0.0, size as f64) as usize;
    let last = high.ceil().clamp(0.0, size as f64) as usize;
    first..last.max(first)
}

/// The part (t0, t1) of the segment that lies in the box (Liang & Barsky 1984), `None` if it misses it.
pub(crate) fn clip(p: [f64; 2], q: [f64; 2], low: [f64; 2], high: [f64; 2]) -> Option<(f64, f64)> {
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

    /// A stroke's covered area is length x width plus the round ends, to the accuracy of antialiasing.
    #[test]
    fn coverage_measures_area() {
        let mut mask = Mask::whole(100, 100);
        mask.segment([20.3, 30.7], [71.9, 64.2], 2.0);
        let area: f64 = mask.coverage.iter().map(|&c| f64::from(c)).sum();
        let length = (51.6f64.powi(2) + 33.5f64.powi(2)).sqrt();
        let expected = 4.0 * length + 4.0 * std::f64::consts::PI;
        assert!((area / expected - 1.0).abs() < 0.02, "{area} against {expected}");
    }

    /// On for 6, off for 4, whatever pieces the line is made of.
    #[test]
    fn dashes_keep_their_rhythm() {
        let mut mask = Mask::whole(100, 9);
        let points: Vec<[f64; 2]> = (0..=33).map(|i| [-0.5 + f64::from(i) * 101.0 / 33.0, 4.5]).collect();
        mask.dashed(&points, 0.5, 6.0, 4.0);
        let row = |x: usize| mask.coverage[4 * 100 + x];
        assert!(
            (0..10).all(|k| row(10 * k + 2) > 0.9 && row(10 * k + 7) < 0.1),
            "{:?}",
            &mask.coverage[400..500]
        );
    }

    #[test]
    fn far_and_broken_segments_draw_nothing() {
        let mut mask = Mask::whole(10, 10);
        mask.segment([1e18, 5.0], [1e18, -1e300], 1.0);
        mask.segment([f64::NAN, 0.0], [5.0, 5.0], 1.0);
        mask.dashed(&[[f64::INFINITY, 0.0], [5.0, 5.0]], 1.0, 3.0, 2.0);
        assert!(mask.coverage.iter().all(|&c| c == 0.0));
    }

    #[test]
    fn a_line_from_far_away_crosses_the_picture() {
        let mut mask = Mask::whole(10, 10);
        mask.segment([-1e7, 5.0], [1e7, 5.0], 1.0);
        assert!((0..10).all(|x| mask.coverage[5 * 10 + x] > 0.9));
    }
}
