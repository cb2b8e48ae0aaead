//! A second field, shown as shades of grey under the colours of the first.
//!
//! A pixel gets its colour times a factor from 1 at the smallest value of the underlay to
//! [`DARKEST`] at the largest. With [`ColourMap::diverging`](crate::picture::ColourMap::diverging),
//! which is white at 0, layers and bodies are visible where there is no wave, and weak waves tint
//! them.

use super::ValueRange;
use super::axis::format_ends;

/// Factor of the largest value. Darker greys would hide weak waves.
const DARKEST: f32 = 0.62;
/// Most shades for which a palette has all colours of the map.
const EXACT_LEVELS: usize = 5;
/// Shades of a palette for an underlay with more of them.
const DITHERED_LEVELS: usize = 8;

/// A field shown as shades of grey under the colours of another one. For example, the velocities of
/// a medium under its waves.
///
/// ```
/// use orrery_draw::picture::Underlay;
///
/// let velocities = [1500.0, 1500.0, 4500.0, 4500.0];
/// let underlay = Underlay::from_values(&velocities, "velocity", "m/s").unwrap();
/// assert_eq!(underlay.label(), "velocity 1500 to 4500 m/s");
/// // A uniform field has no shades.
/// assert_eq!(Underlay::from_values(&[1500.0; 4], "velocity", "m/s"), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Underlay {
    /// From 0 (light) to 255 (dark) for each node of the grid, x fastest. The shades span 97 steps
    /// of sRGB, so bytes are fine enough.
    shades: Vec<u8>,
    label: String,
}

impl Underlay {
    /// Creates the underlay of a field with one value per node of the grid, x fastest. The smallest
    /// value is the lightest and the largest the darkest. Non-finite values are light.
    ///
    /// Returns `None` if the values are equal, up to 1e-6 of their size. `name` and `unit` are for
    /// the legend, and may be empty.
    pub fn from_values<T: Copy + Into<f64> + Sync>(values: &[T], name: &str, unit: &str) -> Option<Self> {
        let (low, high) = super::finite_bounds(values);
        let range = ValueRange { low, high };
        if range.widened(1e-6) != range {
            return None;
        }
        // `as` saturates, and converts NaN to 0.
        let shade = |&value: &T| match value.into() {
            value if value.is_finite() => (255.0 * range.position_of(value)).round() as u8,
            _ => 0,
        };
        let [low, high] = format_ends(low, high);
        let label = format!("{name} {low} to {high} {unit}").trim().to_owned();
        Some(Self { shades: values.iter().map(shade).collect(), label })
    }

    /// Returns the text of the legend.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns one shade per node.
    pub(super) fn shades(&self) -> &[u8] {
        &self.shades
    }

    /// Returns the shades that a palette of an animation needs: all if there are few, as in a
    /// medium of layers, otherwise equidistant ones.
    pub(in crate::picture) fn palette_shades(&self) -> Vec<f64> {
        let mut is_used = [false; 256];
        self.shades.iter().for_each(|&shade| is_used[usize::from(shade)] = true);
        let used: Vec<f64> = (0..=255u8).filter(|&s| is_used[usize::from(s)]).map(f64::from).collect();
        if used.len() <= EXACT_LEVELS {
            return used;
        }
        (0..DITHERED_LEVELS).map(|k| 255.0 * k as f64 / (DITHERED_LEVELS - 1) as f64).collect()
    }
}

/// Returns a colour at a shade from 0 to 255.
pub(in crate::picture) fn shaded(colour: [u8; 3], shade: f64) -> [u8; 3] {
    let factor = 1.0 - (1.0 - DARKEST) * shade as f32 / 255.0;
    colour.map(|c| (f32::from(c) * factor).round() as u8)
}

#[cfg(test)]
mod tests {
    use orrery_model::grid::{Boundaries, Boundary, Grid};

    use super::super::{FieldPicture, layout::FieldLayout, render_field};
    use super::*;
    use crate::picture::ColourMap;

    const GRID: Grid = Grid { nx: 41, ny: 21, hx: 1.0, hy: 1.0 };
    const RANGE: ValueRange = ValueRange { low: -1.0, high: 1.0 };

    fn picture(underlay: Option<Underlay>) -> FieldPicture {
        FieldPicture {
            colours: ColourMap::diverging(),
            is_depth_down: true,
            underlay,
            ..FieldPicture::new(GRID, Boundaries::uniform(Boundary::fixed(0.0)), (400, 300))
        }
    }

    /// The shade depends on depth, which points downwards, and the colour on x.
    #[test]
    fn colours_are_darker_where_the_values_are_larger() {
        let depths: Vec<f64> = (0..GRID.len()).map(|i| (i / GRID.nx) as f64).collect();
        let picture = picture(Underlay::from_values(&depths, "depth", ""));
        let values: Vec<f64> = (0..GRID.len()).map(|i| (i % GRID.nx) as f64 / 20.0 - 1.0).collect();
        let image = render_field(&values, &picture, RANGE, "").unwrap();
        let [left, top, right, bottom] = FieldLayout::new(&picture, RANGE, "", false).plate;
        for row in top..bottom {
            for column in left..right {
                let x = ((column - left) as f64 + 0.5) / (right - left) as f64;
                let depth = ((row - top) as f64 + 0.5) / (bottom - top) as f64;
                let expected =
                    picture.colours.srgb_colour(x as f32).map(|c| f64::from(c) * (1.0 - 0.38 * depth));
                let got = image.pixel(column as u32, row as u32);
                // One entry of the map, and the rounding of shade and colour.
                let is_near = (0..3).all(|c| (f64::from(got[c]) - expected[c]).abs() <= 2.5);
                assert!(is_near, "({column}, {row}): {got:?} {expected:?}");
            }
        }
    }

    #[test]
    fn shades_cover_the_finite_values() {
        let shades = |values: &[f64]| Underlay::from_values(values, "", "").map(|u| u.shades);
        assert_eq!(shades(&[1.0, 3.0, 2.0, 1.4]), Some(vec![0, 255, 128, 51]));
        assert_eq!(shades(&[1.0, f64::NAN, 2.0, f64::INFINITY]), Some(vec![0, 0, 255, 0]));
        for nothing in [&[2000.0, 2000.001][..], &[0.0, 0.0], &[f64::NAN], &[]] {
            assert_eq!(shades(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn labels_have_the_ends() {
        let label = |low: f64, high: f64, unit| {
            Underlay::from_values(&[low, high], "velocity", unit).unwrap().label().to_owned()
        };
        assert_eq!(label(1480.0, 5600.0, "m/s"), "velocity 1480 to 5600 m/s");
        assert_eq!(label(1.5, 4.5, ""), "velocity 1.5 to 4.5");
        assert_eq!(Underlay::from_values(&[0.0f32, 2.0], "", "").unwrap().label(), "0 to 2.0");
    }

    #[test]
    fn wrong_lengths_are_rejected() {
        let picture = picture(Underlay::from_values(&[1.0, 2.0], "", ""));
        let error = render_field(&vec![0.0; GRID.len()], &picture, RANGE, "").unwrap_err();
        assert_eq!(error.to_string(), "the underlay has 2 values, expected 861");
    }

    #[test]
    fn palettes_have_all_shades_of_a_layered_medium() {
        let shades = |values: &[f64]| Underlay::from_values(values, "", "").unwrap().palette_shades();
        assert_eq!(shades(&[1.0, 1.2, 2.0, 1.2, 1.0]), [0.0, 51.0, 255.0]);
        let gradient = shades(&(0..100).map(f64::from).collect::<Vec<_>>());
        assert_eq!(
            (gradient.len(), gradient[0], gradient[DITHERED_LEVELS - 1]),
            (DITHERED_LEVELS, 0.0, 255.0)
        );
    }
}
