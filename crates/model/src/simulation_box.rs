//! The box of a fluid, and positions as fractions of it.
//!
//! A coordinate is x = origin + L f / 2⁶⁴ with an unsigned 64-bit fraction f. Sums of fractions
//! wrap around, as positions in a periodic box do. The difference of two fractions, read as a
//! signed number, is the distance to the nearest image. It is exact, so the force between two
//! particles does not depend on where in the box they are.
//!
//! An open box has no images. All particles stay in its middle half along each axis, so that
//! differences do not wrap. If a particle leaves the middle half, the box is doubled.
//!
//! In two dimensions all particles have the z fraction 0.

use crate::analysis::max_or_nan;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Fractions of the whole box, 2⁶⁴.
const FRACTIONS: f64 = 18_446_744_073_709_551_616.0;

/// Conditions at the sides of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoxSides {
    /// Particles interact with the nearest images of one another.
    Periodic,
    /// There are no images, and particles may go anywhere.
    Open,
}

/// An orthorhombic box.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationBox {
    /// Lowest coordinates.
    pub origin: [f64; 3],
    /// Lengths along the axes. In two dimensions the third one is 1.
    pub lengths: [f64; 3],
    /// Conditions at all sides.
    pub sides: BoxSides,
    /// Number of dimensions, 2 or 3.
    pub dimensions: usize,
}

/// Accepted lengths of a box.
const LENGTHS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

impl SimulationBox {
    /// Returns a periodic box with its lowest corner at 0.
    pub fn periodic(lengths: [f64; 3], dimensions: usize) -> Self {
        Self { origin: [0.0; 3], lengths, sides: BoxSides::Periodic, dimensions }
    }

    /// Returns an open box around particles between `low` and `high`. All of them are in its middle
    /// half, with room to move.
    pub fn open(low: [f64; 3], high: [f64; 3], dimensions: usize) -> Self {
        let widest = (0..dimensions).map(|axis| high[axis] - low[axis]).fold(0.0, max_or_nan);
        // A power of two, so that doubling and most fractions are exact.
        let length = 2f64.powi((8.0 * widest).max(f64::MIN_POSITIVE).log2().ceil() as i32);
        let mut bounds = Self { origin: [0.0; 3], lengths: [length; 3], sides: BoxSides::Open, dimensions };
        for axis in 0..3 {
            if axis < dimensions {
                bounds.origin[axis] = 0.5 * (low[axis] + high[axis]) - 0.5 * length;
            } else {
                bounds.lengths[axis] = 1.0;
            }
        }
        bounds
    }

    /// Returns the volume, or the area in two dimensions.
    pub fn volume(&self) -> f64 {
        self.lengths[..self.dimensions].iter().product()
    }

    /// Checks lengths and the number of dimensions.
    pub fn validate(&self) -> Result<(), BoxError> {
        if !matches!(self.dimensions, 2 | 3) {
            return Err(BoxError::Dimensions(self.dimensions));
        }
        for axis in 0..self.dimensions {
            let (length, name) = (self.lengths[axis], ["x", "y", "z"][axis]);
            if !LENGTHS.contains(&length) || !self.origin[axis].is_finite() {
                return Err(BoxError::Length { name, length });
            }
        }
        Ok(())
    }

    /// Returns the fraction of a coordinate, and the number of the image of the box that contains
    /// it. Image 0 is the box itself. The coordinate must be finite.
    pub fn fraction(&self, axis: usize, coordinate: f64) -> (u64, i32) {
        let in_boxes = (coordinate - self.origin[axis]) / self.lengths[axis];
        let image = in_boxes.floor();
        // The conversion saturates, so a value that is rounded up to 1 becomes the largest
        // fraction.
        (((in_boxes - image) * FRACTIONS) as u64, image as i32)
    }

    /// Returns the coordinate of a fraction within the box.
    pub fn coordinate(&self, axis: usize, fraction: u64) -> f64 {
        self.origin[axis] + fraction as f64 / FRACTIONS * self.lengths[axis]
    }

    /// Returns the vector from `b` to `a`, to the nearest image in a periodic box.
    pub fn separation(&self, a: [u64; 3], b: [u64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|axis| a[axis].wrapping_sub(b[axis]) as i64 as f64 / FRACTIONS * self.lengths[axis])
    }

    /// Returns the fraction of the box for a displacement, rounded to the nearest one. `None` if it
    /// is half a box or more, or NaN.
    pub fn step_fraction(&self, axis: usize, displacement: f64) -> Option<i64> {
        let in_boxes = displacement / self.lengths[axis];
        (in_boxes.abs() < 0.5).then(|| (in_boxes * FRACTIONS).round_ties_even() as i64)
    }

    /// Returns the box of twice the size around the same centre. [`SimulationBox::halved`] gives
    /// the fractions in it.
    pub fn doubled(&self) -> Self {
        let mut bounds = *self;
        for axis in 0..self.dimensions {
            bounds.origin[axis] -= 0.5 * self.lengths[axis];
            bounds.lengths[axis] *= 2.0;
        }
        bounds
    }

    /// Returns the fraction in the box of twice the size.
    pub fn halved(fraction: u64) -> u64 {
        (fraction >> 1) + (1 << 62)
    }

    /// Returns true if a fraction is in the middle half of the box.
    pub fn is_in_middle(fraction: u64) -> bool {
        (1 << 62..3 << 62).contains(&fraction)
    }
}

/// Moves a fraction, and counts the image if it leaves the box.
pub fn move_fraction(fraction: &mut u64, image: &mut i32, step: i64) {
    let moved = fraction.wrapping_add_signed(step);
    if step >= 0 && moved < *fraction {
        *image += 1;
    } else if step < 0 && moved > *fraction {
        *image -= 1;
    }
    *fraction = moved;
}

/// Reason why a box cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BoxError {
    /// Neither two nor three dimensions.
    #[error("the box has {0} dimensions, expected 2 or 3")]
    Dimensions(usize),
    /// A length is not a positive number of usable size.
    #[error(
        "the box has the length {length:e} along {name}, expected {:e} to {:e}",
        LENGTHS.start(), LENGTHS.end()
    )]
    Length {
        /// x, y or z.
        name: &'static str,
        /// Length found.
        length: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> SimulationBox {
        SimulationBox { origin: [-1.0, 2.0, 0.0], ..SimulationBox::periodic([4.0, 5.0, 6.0], 3) }
    }

    #[test]
    fn coordinates_become_fractions_and_images() {
        let bounds = bounds();
        assert_eq!(bounds.fraction(0, -1.0), (0, 0));
        assert_eq!(bounds.fraction(0, 1.0), (1 << 63, 0));
        assert_eq!(bounds.fraction(0, 3.0), (0, 1));
        assert_eq!(bounds.fraction(0, -2.0), (3 << 62, -1));
        for x in [-0.75, 0.3, 2.999] {
            let (fraction, image) = bounds.fraction(0, x);
            assert_eq!(image, 0);
            assert!((bounds.coordinate(0, fraction) - x).abs() < 1e-15);
        }
    }

    #[test]
    fn separations_are_those_of_the_nearest_image() {
        let bounds = bounds();
        let at = |x: f64| [bounds.fraction(0, x).0, 0, 0];
        assert!((bounds.separation(at(2.9), at(-0.9))[0] + 0.2).abs() < 1e-15);
        assert!((bounds.separation(at(-0.9), at(2.9))[0] - 0.2).abs() < 1e-15);
        assert!((bounds.separation(at(1.0), at(0.0))[0] - 1.0).abs() < 1e-15);
    }

    /// The same steps forth and back lead to the same fraction and image.
    #[test]
    fn moves_count_images_and_can_be_undone() {
        let bounds = bounds();
        let (mut fraction, mut image) = bounds.fraction(1, 6.9);
        let start = (fraction, image);
        let step = bounds.step_fraction(1, 0.7).unwrap();
        move_fraction(&mut fraction, &mut image, step);
        assert_eq!(image, 1);
        assert!((bounds.coordinate(1, fraction) - 2.6).abs() < 1e-14);
        move_fraction(&mut fraction, &mut image, -step);
        assert_eq!((fraction, image), start);
        assert_eq!(bounds.step_fraction(1, 2.5), None);
        assert_eq!(bounds.step_fraction(1, f64::NAN), None);
    }

    #[test]
    fn an_open_box_contains_its_particles_in_the_middle_half() {
        let bounds = SimulationBox::open([-1.0, 0.0, 3.0], [1.0, 5.0, 4.0], 3);
        assert_eq!(bounds.lengths, [64.0; 3]);
        for (axis, x) in [(0, -1.0), (0, 1.0), (1, 0.0), (1, 5.0), (2, 3.0)] {
            let (fraction, image) = bounds.fraction(axis, x);
            assert!(image == 0 && SimulationBox::is_in_middle(fraction), "{axis} {x}");
            let doubled = bounds.doubled();
            let halved = SimulationBox::halved(fraction);
            assert!((doubled.coordinate(axis, halved) - x).abs() < 1e-14);
        }
        assert!(!SimulationBox::is_in_middle(bounds.fraction(0, 17.0).0));
    }

    #[test]
    fn impossible_boxes_are_refused() {
        let flat = SimulationBox::periodic([1.0, 0.0, 1.0], 3);
        assert_eq!(
            flat.validate().unwrap_err().to_string(),
            "the box has the length 0e0 along y, expected 1e-100 to 1e100"
        );
        assert!(SimulationBox::periodic([1.0, 1.0, 0.0], 2).validate().is_ok());
        assert!(SimulationBox::periodic([f64::NAN; 3], 2).validate().is_err());
        assert!(SimulationBox::periodic([1.0; 3], 1).validate().is_err());
        assert!(bounds().validate().is_ok());
    }
}
