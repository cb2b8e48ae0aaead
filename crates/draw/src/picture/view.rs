//! The visible rectangle of a picture, projected along the direction of view.

use orrery_model::Particles;
use orrery_model::analysis::Projection;

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

/// Directions of a picture in space. The projection is parallel, so that one scale bar holds for
/// the whole picture.
///
/// Invariant: both are unit vectors and perpendicular.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orientation {
    right: [f64; 3],
    up: [f64; 3],
}

impl Orientation {
    /// The x-y plane, seen from +z.
    pub const XY: Self = Self { right: [1.0, 0.0, 0.0], up: [0.0, 1.0, 0.0] };
    /// The x-z plane, seen from -y.
    pub const XZ: Self = Self { right: [1.0, 0.0, 0.0], up: [0.0, 0.0, 1.0] };
    /// The y-z plane, seen from +x.
    pub const YZ: Self = Self { right: [0.0, 1.0, 0.0], up: [0.0, 0.0, 1.0] };

    /// Returns the view from a direction, with angles in radians. The azimuth is the angle about
    /// the z axis, from +x towards +y, and the elevation that above the x-y plane. The z axis
    /// points up.
    ///
    /// ```
    /// use std::f64::consts::FRAC_PI_2;
    /// use orrery_draw::picture::Orientation;
    /// assert_eq!(Orientation::from_angles(-FRAC_PI_2, FRAC_PI_2), Orientation::XY);
    /// assert_eq!(Orientation::from_angles(-FRAC_PI_2, 0.0), Orientation::XZ);
    /// assert_eq!(Orientation::from_angles(0.0, 0.0), Orientation::YZ);
    /// ```
    pub fn from_angles(azimuth: f64, elevation: f64) -> Self {
        // Round-off of right angles would be seen as a view that is not along an axis.
        let rounded = |x: f64| if x.abs() < 1e-15 { 0.0 } else { x };
        let [sin_a, cos_a, sin_e, cos_e] =
            [azimuth.sin(), azimuth.cos(), elevation.sin(), elevation.cos()].map(rounded);
        // -0 + 0 is 0.
        let vector = |v: [f64; 3]| v.map(|c| c + 0.0);
        Self { right: vector([-sin_a, cos_a, 0.0]), up: vector([-sin_e * cos_a, -sin_e * sin_a, cos_e]) }
    }

    /// Returns the components of a vector to the right and up.
    pub(crate) fn components(&self, v: [f64; 3]) -> [f64; 2] {
        [self.right, self.up].map(|d| d[0] * v[0] + d[1] * v[1] + d[2] * v[2])
    }

    /// Returns the direction to the viewer.
    pub(crate) fn toward_viewer(&self) -> [f64; 3] {
        let ([a, b, c], [d, e, f]) = (self.right, self.up);
        [b * f - c * e, c * d - a * f, a * e - b * d]
    }

    /// Returns true if a coordinate axis points to the right and another one up.
    pub(crate) fn is_along_axes(&self) -> bool {
        [self.right, self.up].iter().all(|d| d.contains(&1.0))
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
    /// Directions to the right and up.
    pub orientation: Orientation,
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
        orientation: Orientation,
        pixels: (u32, u32),
    ) -> Self {
        let (mut mass, mut sum) = (0.0, [0.0; 3]);
        for i in (0..particles.len()).filter(|&i| shown(i) && is_finite(particles, i)) {
            let position = particles.position.get(i);
            mass += particles.mass[i];
            (0..3).for_each(|k| sum[k] += particles.mass[i] * position[k]);
        }
        let centre = if mass > 0.0 { sum.map(|s| s / mass) } else { [0.0; 3] };
        Self::around_point(centre, particles, shown, orientation, pixels)
    }

    /// Returns a view around `centre` that shows 98% of the bodies that `shown` accepts, with a
    /// margin.
    pub fn around_point(
        centre: [f64; 3],
        particles: &Particles,
        shown: impl Fn(usize) -> bool,
        orientation: Orientation,
        pixels: (u32, u32),
    ) -> Self {
        let bodies = (0..particles.len()).filter(|&i| shown(i) && is_finite(particles, i));
        Self::covering(centre, bodies.map(|i| particles.position.get(i)), 0.98, orientation, pixels)
    }

    /// Returns a view around the centre of the bounding box of the points that shows all of them.
    pub fn enclosing_points(
        points: impl Iterator<Item = [f64; 3]>,
        orientation: Orientation,
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
        Self::covering([middle(0), middle(1), middle(2)], points.into_iter(), 1.0, orientation, pixels)
    }

    /// Returns a view around `centre` that shows the `fraction` of the points, with a margin.
    fn covering(
        centre: [f64; 3],
        points: impl Iterator<Item = [f64; 3]>,
        fraction: f64,
        orientation: Orientation,
        pixels: (u32, u32),
    ) -> Self {
        let aspect = f64::from(pixels.0.max(1)) / f64::from(pixels.1.max(1));
        let mut reach: Vec<f64> = points
            .map(|p| orientation.components([0, 1, 2].map(|k| p[k] - centre[k])))
            .map(|[right, up]| right.abs().max(aspect * up.abs()))
            .collect();
        reach.sort_by(f64::total_cmp);
        let needed = reach.get(((reach.len() as f64 * fraction).ceil() as usize).saturating_sub(1));
        let half_width = needed.map_or(1.0, |&r| round_up(1.12 * r));
        Self { centre, half_width, orientation, pixels }
    }

    /// Side of a pixel, in the unit of length of the bodies.
    pub fn pixel_size(&self) -> f64 {
        2.0 * self.half_width / f64::from(self.pixels.0.max(1))
    }

    /// Returns the projection of this view. A picture has at least one pixel.
    pub fn projection(&self) -> Projection {
        Projection {
            centre: self.centre,
            right: self.orientation.right,
            up: self.orientation.up,
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

fn is_finite(particles: &Particles, i: usize) -> bool {
    particles.position.get(i).iter().all(|c| c.is_finite()) && particles.mass[i].is_finite()
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
        let view = View::around_bodies(&particles, |_| true, Orientation::XY, (640, 480));
        assert_eq!((view.centre, view.half_width), ([1.5, 0.0, 0.0], 2.0));
        // The body at x = 3 is 4 from the given centre, and 1.12 times that is rounded up.
        let view = View::around_point([-1.0, 0.0, 9.0], &particles, |_| true, Orientation::XY, (640, 480));
        assert_eq!((view.centre, view.half_width), ([-1.0, 0.0, 9.0], 5.0));
    }

    #[test]
    fn y_points_up() {
        let view =
            View { centre: [1.0, 2.0, 3.0], half_width: 2.0, orientation: Orientation::XZ, pixels: (40, 20) };
        assert_eq!(view.project([1.0, 2.0, 3.0]), [20.0, 10.0]);
        assert_eq!(view.project([2.0, 9.0, 3.5]), [30.0, 5.0]);
    }

    /// Directions are perpendicular unit vectors. The point towards the viewer is at the centre,
    /// and z is not left or right of it. Roundings are a few 1e-16.
    #[test]
    fn angles_give_the_direction_of_the_viewer() {
        for (azimuth, elevation) in [(0.3, 0.7), (-2.0, -1.1), (4.0, 1.5), (1.0, 0.0)] {
            let orientation = Orientation::from_angles(azimuth, elevation);
            let (right, up) = (orientation.right, orientation.up);
            let dot = |a: [f64; 3], b: [f64; 3]| (0..3).map(|k| a[k] * b[k]).sum::<f64>();
            assert!((dot(right, right) - 1.0).abs() < 1e-15 && (dot(up, up) - 1.0).abs() < 1e-15);
            assert!(dot(right, up).abs() < 1e-15 && right[2] == 0.0 && up[2] > 0.0);
            let viewer = [elevation.cos() * azimuth.cos(), elevation.cos() * azimuth.sin(), elevation.sin()];
            assert!(orientation.components(viewer).iter().all(|c| c.abs() < 1e-15));
            // A right-handed system: right x up points to the viewer.
            let z = right[0] * up[1] - right[1] * up[0];
            assert!((z - viewer[2]).abs() < 1e-15, "{azimuth} {elevation}");
            assert_eq!(orientation.is_along_axes(), elevation == 0.0 && azimuth == 0.0);
        }
        assert!(Orientation::XY.is_along_axes() && Orientation::YZ.is_along_axes());
    }
}
