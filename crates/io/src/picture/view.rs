//! What is seen: a rectangle of a plane, projected along the third axis.

use orrery_model::{Particles, Vec3s};

/// Which bodies a picture shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodySelection {
    /// Luminous bodies where there are any, otherwise all.
    #[default]
    Luminous,
    /// All bodies.
    All,
}

impl BodySelection {
    /// Tells for each body's number whether it is shown.
    pub fn body_filter(self, particles: &Particles) -> impl Fn(usize) -> bool + '_ {
        let all = self == Self::All || !particles.species.iter().any(|s| s.is_luminous());
        move |i| all || particles.species[i].is_luminous()
    }
}

/// A window on the bodies. Pixels are square; y points up, pixel rows run from the top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// The point in the middle of the picture.
    pub centre: [f64; 3],
    /// Half the length that the picture's width spans.
    pub half_width: f64,
    /// The axes that run to the right and up, 0 to 2: (0, 1) looks down on the x-y plane.
    pub axes: (usize, usize),
    /// Width and height.
    pub pixels: (u32, u32),
}

impl View {
    /// A view around the centre of mass of the bodies that `shown` accepts, wide enough for 98% of them with a
    /// margin, its half-width rounded up to two digits at most.
    pub fn around_bodies(
        particles: &Particles,
        shown: impl Fn(usize) -> bool,
        axes: (usize, usize),
        pixels: (u32, u32),
    ) -> Self {
        let (mut mass, mut sum) = (0.0, [0.0; 3]);
        let mut seen = Vec3s::default();
        for i in (0..particles.len()).filter(|&i| shown(i)) {
            let position = particles.position.get(i);
            if position.iter().all(|c| c.is_finite()) && particles.mass[i].is_finite() {
                mass += particles.mass[i];
                (0..3).for_each(|k| sum[k] += particles.mass[i] * position[k]);
                seen.push(position);
            }
        }
        let centre = if mass > 0.0 { sum.map(|s| s / mass) } else { [0.0; 3] };
        Self::around(centre, seen.iter(), 0.98, axes, pixels)
    }

    /// A view around the middle of all the points' bounding box that shows every one of them.
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
        Self::around([middle(0), middle(1), middle(2)], points.into_iter(), 1.0, axes, pixels)
    }

    fn around(
        centre: [f64; 3],
        points: impl Iterator<Item = [f64; 3]>,
        share: f64,
        axes: (usize, usize),
        pixels: (u32, u32),
    ) -> Self {
        let aspect = f64::from(pixels.0.max(1)) / f64::from(pixels.1.max(1));
        let mut reach: Vec<f64> = points
            .map(|p| (p[axes.0] - centre[axes.0]).abs().max(aspect * (p[axes.1] - centre[axes.1]).abs()))
            .collect();
        reach.sort_by(f64::total_cmp);
        let needed = reach.get(((reach.len() as f64 * share).ceil() as usize).saturating_sub(1));
        let half_width = needed.map_or(1.0, |&r| round_up(1.12 * r));
        Self { centre, half_width, axes, pixels }
    }

    /// Length of a pixel's side.
    pub fn pixel_size(&self) -> f64 {
        2.0 * self.half_width / f64::from(self.pixels.0.max(1))
    }

    /// Where a point falls, in pixels from the top left corner; may lie outside.
    pub fn project(&self, point: [f64; 3]) -> [f64; 2] {
        let size = self.pixel_size();
        [
            0.5 * f64::from(self.pixels.0) + (point[self.axes.0] - self.centre[self.axes.0]) / size,
            0.5 * f64::from(self.pixels.1) - (point[self.axes.1] - self.centre[self.axes.1]) / size,
        ]
    }
}

/// The next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 x 10^k; 1 where there is no extent to round.
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
    fn half_widths_are_round_and_not_too_small() {
        for (length, expected) in [(1.01, 1.2), (0.037, 0.04), (9.3, 10.0), (0.0, 1.0), (f64::NAN, 1.0)] {
            assert!((round_up(length) - expected).abs() < 1e-12 * expected, "{length}");
        }
    }

    #[test]
    fn luminous_bodies_are_preferred() {
        let mut particles = Particles::default();
        for (id, species) in [(0, Species::Halo), (1, Species::Disc)] {
            let position = [id as f64 * 3.0, 0.0, 0.0];
            particles.push(Particle { position, velocity: [0.0; 3], mass: 1.0, id, species });
        }
        let shown = |which: BodySelection| (0..2).map(which.body_filter(&particles)).collect::<Vec<_>>();
        assert_eq!(shown(BodySelection::Luminous), [false, true]);
        assert_eq!(shown(BodySelection::All), [true, true]);
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
