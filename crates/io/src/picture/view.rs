//! The visible rectangle of a picture, projected along the third axis.

use orrery_model::analysis::Projection;
use orrery_model::{Particles, Vec3s};

/// Selection of the bodies that a picture shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodySelection {
    /// Luminous bodies if there are any, otherwise all.
    #[default]
    Luminous,
    /// All bodies.
    All,
}

impl BodySelection {
    /// Returns a function that is true for the index of each selected body.
    pub fn body_filter(self, particles: &Particles) -> impl Fn(usize) -> bool + '_ {
        let all = self == Self::All || !particles.species.iter().any(|s| s.is_luminous());
        move |i| all || particles.species[i].is_luminous()
    }
}

/// Visible part of the system. Pixels are square. The vertical axis points up, and pixel rows start
/// at the top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Point at the centre of the picture.
    pub centre: [f64; 3],
    /// Half of the length that the width of the picture spans.
    pub half_width: f64,
    /// Axes that point to the right and up, from 0 to 2. For example, (0, 1) shows the x-y plane
    /// from +z.
    pub axes: (usize, usize),
    /// Width and height in pixels.
    pub pixels: (u32, u32),
}

impl View {
    /// Returns a view around the centre of mass of the bodies that `shown` accepts.
    ///
    /// It shows 98% of them, with a margin. The half-width is rounded up to at most two digits.
    pub fn around_bodies(
        particles: &Particles,
        shown: impl Fn(usize) -> bool,
        axes: (usize, usize),
        pixels: (u32, u32),
    ) -> Self {
        let (mut mass, mut sum) = (0.0, [0.0; 3]);
        let mut positions = Vec3s::default();
        for i in (0..particles.len()).filter(|&i| shown(i)) {
            let position = particles.position.get(i);
            if position.iter().all(|c| c.is_finite()) && particles.mass[i].is_finite() {
                mass += particles.mass[i];
                (0..3).for_each(|k| sum[k] += particles.mass[i] * position[k]);
                positions.push(position);
            }
        }
        let centre = if mass > 0.0 { sum.map(|s| s / mass) } else { [0.0; 3] };
        Self::covering(centre, positions.iter(), 0.98, axes, pixels)
    }

    /// Returns a view around the centre of the bounding box of the points that shows all of them.
    pub fn enclosing_points(
        points: impl Iterator<Item = [f64; 3]>,
        axes: (usize, usize),
        pixels: (u32, u32),
    ) -> Self {
        let points: Vec<_> = points.filter(|p| p.iter().all(|c| c.is_finite())).collect();
        let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for p in &points {
            for k in 0..3 {
                (low[k], high[k]) = (low[k].min(p[k]), high[k].max(p[k]));
            }
        }
        let middle = |k| if points.is_empty() { 0.0 } else { 0.5 * low[k] + 0.5 * high[k] };
        Self::covering([middle(0), middle(1), middle(2)], points.into_iter(), 1.0, axes, pixels)
    }

    /// Returns a view around `centre` that shows the `fraction` of the points, with a margin.
    fn covering(
        centre: [f64; 3],
        points: impl Iterator<Item = [f64; 3]>,
        fraction: f64,
        axes: (usize, usize),
        pixels: (u32, u32),
    ) -> Self {
        let aspect = f64::from(pixels.0.max(1)) / f64::from(pixels.1.max(1));
        let mut reach: Vec<f64> = points
            .map(|p| (p[axes.0] - centre[axes.0]).abs().max(aspect * (p[axes.1] - centre[axes.1]).abs()))
            .collect();
        reach.sort_by(f64::total_cmp);
        let needed = reach.get(((reach.len() as f64 * fraction).ceil() as usize).saturating_sub(1));
        let half_width = needed.map_or(1.0, |&r| round_up(1.12 * r));
        Self { centre, half_width, axes, pixels }
    }

    /// Side of a pixel, in the unit of length of the bodies.
    pub fn pixel_size(&self) -> f64 {
        2.0 * self.half_width / f64::from(self.pixels.0.max(1))
    }

    /// Returns the projection of this view. A picture has at least one pixel.
    pub fn projection(&self) -> Projection {
        let unit_vector = |axis: usize| [0, 1, 2].map(|k| f64::from(u8::from(k == axis)));
        Projection {
            centre: self.centre,
            right: unit_vector(self.axes.0),
            up: unit_vector(self.axes.1),
            pixel_size: self.pixel_size(),
            width: self.pixels.0.max(1),
            height: self.pixels.1.max(1),
        }
    }

    /// Returns the position of a point in pixels from the top left corner. It may be outside the
    /// picture.
    pub fn project(&self, point: [f64; 3]) -> [f64; 2] {
        self.projection().pixel_position(point)
    }
}

/// Rounds up to the next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 x 10^k. Returns 1 for a length that
/// is not positive and finite.
fn round_up(length: f64) -> f64 {
    if !length.is_normal() || length <= 0.0 {
        return 1.0;
    }
    let decade = 10f64.powi(length.log10().floor() as i32);
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let round = steps.into_iter().find(|s| s * decade >= length).unwrap_or(10.0);
    round * decade
}

#[cfg(test)]
mod tests {
    use orrery_model::{Particle, Species};

    use super::*;

    #[test]
    fn half_widths_are_rounded_up() {
        for (length, expected) in [(1.01, 1.2), (0.037, 0.04), (9.3, 10.0), (0.0, 1.0), (f64::NAN, 1.0)] {
            assert!((round_up(length) - expected).abs() < 1e-12 * expected, "{length}");
        }
    }

    #[test]
    fn luminous_bodies_are_selected_if_there_are_any() {
        let mut particles = Particles::default();
        for (id, species) in [(0, Species::Halo), (1, Species::Disc)] {
            let position = [id as f64 * 3.0, 0.0, 0.0];
            particles.push(Particle { position, velocity: [0.0; 3], mass: 1.0, id, species });
        }
        let selected = |which: BodySelection| (0..2).map(which.body_filter(&particles)).collect::<Vec<_>>();
        assert_eq!(selected(BodySelection::Luminous), [false, true]);
        assert_eq!(selected(BodySelection::All), [true, true]);
        particles.species[1] = Species::Halo;
        assert_eq!(
            (0..2).map(BodySelection::Luminous.body_filter(&particles)).collect::<Vec<_>>(),
            [true, true]
        );
        let view = View::around_bodies(&particles, |_| true, (0, 1), (640, 480));
        assert_eq!((view.centre, view.half_width), ([1.5, 0.0, 0.0], 2.0));
    }

    #[test]
    fn y_points_up() {
        let view = View { centre: [1.0, 2.0, 3.0], half_width: 2.0, axes: (0, 2), pixels: (40, 20) };
        assert_eq!(view.project([1.0, 2.0, 3.0]), [20.0, 10.0]);
        assert_eq!(view.project([2.0, 9.0, 3.5]), [30.0, 5.0]);
    }
}
