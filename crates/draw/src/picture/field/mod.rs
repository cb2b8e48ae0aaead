//! Pictures of fields on rectangular grids, with axes, colour bar and marks.
//!
//! The plate keeps its aspect ratio. Row 0 of the grid is at the bottom and column 0 at the left.
//! Beside each edge a mark shows its boundary condition: a thick line for fixed values, arrows for
//! a flux (into or out of the plate), hatching for an insulated edge and dashes for a periodic
//! edge. Outlines show regions with a source or with another material, and symbols show point
//! sources and receivers. An [`Underlay`] shows a second field, such as the velocities of a medium.

mod axis;
mod draw;
mod file;
mod layout;
mod legend;
mod marks;
mod points;
mod samples;
mod underlay;

use orrery_model::grid::{Boundaries, Grid, RegionShape};
use rayon::prelude::*;

use super::{ColourMap, Image, PictureError};
use layout::FieldLayout;

pub use file::render_field_file;
pub use samples::{FieldSampler, FieldSamples, TakenMeans};
pub use underlay::Underlay;

pub(super) use marks::MARK_COLOURS;
pub(super) use points::POINT_COLOURS;
pub(super) use underlay::shaded;

/// Colour of pixels with a value that is NaN. No colour map is near it.
pub(super) const NAN_COLOUR: [u8; 3] = [0, 255, 120];

/// Description of the pictures of a field. It is the same for all pictures of a run.
///
/// ```
/// use orrery_draw::picture::{FieldPicture, ValueRange, render_field};
/// use orrery_model::grid::{Boundaries, Boundary, Grid};
///
/// let grid = Grid { nx: 32, ny: 16, hx: 0.01, hy: 0.01 };
/// let west = Boundary::fixed(400.0);
/// let boundaries = Boundaries { west, ..Boundaries::uniform(Boundary::INSULATED) };
/// let picture = FieldPicture {
///     title: "plate".into(),
///     length_unit: "m".into(),
///     quantity: "temperature".into(),
///     unit: "K".into(),
///     ..FieldPicture::new(grid, boundaries, (640, 400))
/// };
/// let values: Vec<f32> = (0..grid.len()).map(|i| 400.0 - 3.0 * (i % 32) as f32).collect();
/// let range = ValueRange::covering(&values);
/// let image = render_field(&values, &picture, range, "t = 0 s")?;
/// assert_eq!((image.width, image.height), (640, 400));
/// # Ok::<(), orrery_draw::picture::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPicture {
    /// Grid of the field.
    pub grid: Grid,
    /// Conditions on the edges, for their marks and for the extent of the plate.
    pub boundaries: Boundaries,
    /// Width and height in pixels. [`FieldPicture::fitted_pixels`] suggests a size.
    pub pixels: (u32, u32),
    /// Colours from the low to the high end of the range.
    pub colours: ColourMap,
    /// Whether the edges have marks. They have none if their conditions are unknown.
    pub shows_edges: bool,
    /// Whether y points downwards, as a depth does.
    pub is_depth_down: bool,
    /// Names of the axes that point right, and up or down.
    pub axis_names: [&'static str; 2],
    /// Outlines of parts of the plate.
    pub regions: Vec<RegionMark>,
    /// Symbols at points of the plate.
    pub points: Vec<PointMark>,
    /// Field under the colours.
    pub underlay: Option<Underlay>,
    /// Text above the plate at the right.
    pub title: String,
    /// Unit of lengths of the grid. It may be empty. Lengths in `"m"` are shown in a unit from nm
    /// to km that is easy to read.
    pub length_unit: String,
    /// Name of the field at the colour bar, such as `"temperature"`. It may be empty.
    pub quantity: String,
    /// Unit of the field. It may be empty.
    pub unit: String,
}

/// Outline of a part of the plate. Parts outside the plate are not drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionMark {
    /// Outline, in the lengths of the grid.
    pub shape: RegionShape,
    /// Meaning of the outline.
    pub kind: RegionKind,
}

/// Meaning of an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Region with a source, outlined by a white line.
    Source,
    /// Region of another material, outlined by black dashes. Where it is also a source, the dashes
    /// are on the white line.
    Material,
    /// Region in which waves are not absorbed, outlined by a thin grey line.
    Interior,
}

/// Symbol at a point of the plate. Points outside the plate are not drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointMark {
    /// Position along x and y, in the lengths of the grid.
    pub position: [f64; 2],
    /// Meaning of the point.
    pub kind: PointKind,
}

/// Meaning of a point. Of symbols that would cover one another, some are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// Source, shown by a star.
    Source,
    /// Receiver, shown by a triangle whose lower tip is at its position.
    Receiver,
}

/// Range of values that the colours span. Values outside get the colour of the nearer end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueRange {
    /// Value with the first colour.
    pub low: f64,
    /// Value with the last colour.
    pub high: f64,
}

impl ValueRange {
    /// Returns the range from the smallest to the largest finite value, see [`Self::spanning`].
    pub fn covering<T: Copy + Into<f64> + Sync>(values: &[T]) -> Self {
        let (low, high) = finite_bounds(values);
        if low > high { Self { low: -1.0, high: 1.0 } } else { Self::spanning(low, high) }
    }

    /// Returns the range from `low` to `high`, the smallest and the largest value of a field.
    ///
    /// A range narrower than 1e-6 of its values is widened, because it would show round-off.
    pub fn spanning(low: f64, high: f64) -> Self {
        Self { low, high }.widened(1e-6)
    }

    /// Returns the smallest range that contains this one and has 0 in its middle. With it,
    /// [`ColourMap::diverging`] shows the sign of a value.
    pub fn symmetric(self) -> Self {
        let size = self.low.abs().max(self.high.abs());
        Self { low: -size, high: size }
    }

    /// Returns a range that can be drawn: finite, with `low` < `high`, and not narrower than
    /// `smallest` times the larger end.
    fn widened(self, smallest: f64) -> Self {
        // Beyond these limits the arithmetic of axes would overflow or underflow.
        let limited = |value: f64| match value {
            value if value.is_nan() || value.abs() < 1e-290 => 0.0,
            value => value.clamp(-1e300, 1e300),
        };
        let (low, high) = (limited(self.low), limited(self.high));
        let size = low.abs().max(high.abs());
        if high - low > smallest * size {
            return Self { low, high };
        }
        let (middle, margin) = (0.5 * low + 0.5 * high, if size == 0.0 { 1.0 } else { 0.1 * size });
        Self { low: middle - margin, high: middle + margin }
    }

    /// Returns the position of a value: 0 at `low`, 1 at `high`.
    fn position_of(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// Returns the smallest and the largest finite value. Without finite values these are infinite.
fn finite_bounds<T: Copy + Into<f64> + Sync>(values: &[T]) -> (f64, f64) {
    let empty = (f64::INFINITY, f64::NEG_INFINITY);
    let wider = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    let extend = |range: (f64, f64), value: &T| {
        let value: f64 = (*value).into();
        if value.is_finite() { wider(range, (value, value)) } else { range }
    };
    values.par_chunks(1 << 16).map(|chunk| chunk.iter().fold(empty, extend)).reduce(|| empty, wider)
}

impl FieldPicture {
    /// Returns a picture with the colours [`ColourMap::inferno`], without marks and texts.
    pub fn new(grid: Grid, boundaries: Boundaries, pixels: (u32, u32)) -> Self {
        Self {
            grid,
            boundaries,
            pixels,
            colours: ColourMap::inferno(),
            shows_edges: true,
            is_depth_down: false,
            axis_names: ["x", "y"],
            regions: Vec::new(),
            points: Vec::new(),
            underlay: None,
            title: String::new(),
            length_unit: String::new(),
            quantity: String::new(),
            unit: String::new(),
        }
    }

    /// Returns a width and a height for this plate. The longer one is `longer_side`, and the other
    /// one is chosen such that little of the picture is empty. Both are even, as video encoders
    /// require.
    ///
    /// For example, a square plate gets a picture that is a little wider than high, because of the
    /// colour bar. An invalid grid gets a square picture.
    pub fn fitted_pixels(&self, longer_side: u32, range: ValueRange) -> (u32, u32) {
        let longer = longer_side.max(2) / 2 * 2;
        let mut picture = Self { pixels: (longer, longer), ..self.clone() };
        if self.grid.validate().is_err() {
            return picture.pixels;
        }
        // The size of the texts depends on that of the picture, so the size is iterated.
        for _ in 0..4 {
            let layout = FieldLayout::new(&picture, range.widened(1e-9), "t", false);
            let side = |used: f64| ((0.5 * used).ceil() as u32 * 2).clamp(longer.min(64), longer);
            picture.pixels = (side(layout.used_pixels[0]), side(layout.used_pixels[1]));
            if picture.pixels.0.max(picture.pixels.1) < longer {
                if picture.pixels.0 > picture.pixels.1 {
                    picture.pixels.0 = longer;
                } else {
                    picture.pixels.1 = longer;
                }
            }
        }
        picture.pixels
    }
}

/// Draws a field as a picture with axes, colour bar, marks, title and `time`.
///
/// `values` has one value per node of the grid, f32 or f64, x fastest. A pixel shows the mean of
/// the field over its area. Values outside `range` get the colour of the nearer end, which then has
/// a pointed colour bar. Pixels with a contribution of NaN are green.
pub fn render_field<T: Copy + Into<f64> + Send + Sync>(
    values: &[T],
    picture: &FieldPicture,
    range: ValueRange,
    time: &str,
) -> Result<Image, PictureError> {
    FieldSamples::new(values, picture, range, time)?.render(picture)
}

/// Values that the colour bar and the legend must explain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    below: bool,
    above: bool,
    nan: bool,
}

impl Found {
    fn or(self, other: Self) -> Self {
        Self {
            below: self.below || other.below,
            above: self.above || other.above,
            nan: self.nan || other.nan,
        }
    }
}

/// Tolerance for values outside of the range, relative to its width. Means have round-off.
const OUTSIDE: f64 = 1e-6;

#[cfg(test)]
mod tests;
