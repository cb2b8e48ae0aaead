//! Positions of the parts of a field picture.
//!
//! Lengths are in units of `zoom` pixels, so that texts and lines scale with the picture, except
//! `plate` and `bar`, which are in pixels. A picture that is too small for all texts has fewer of
//! them, see [`Detail`].

use super::axis::{AxisScale, AxisTick};
use super::legend::{LegendEntry, divide_into_rows};
use super::{FieldPicture, ValueRange};
use crate::picture::text_width;
use crate::plot::{LABEL, SMALL, TICK};

/// Space around the picture.
pub(super) const MARGIN: f64 = 12.0;
/// Width of the space beside an edge for its mark.
pub(super) const EDGE_BAND: f64 = 8.0;
/// Height of capitals of title and time.
pub(super) const HEADING: f64 = 11.0;
/// Space between heading and plate, without the mark of the edge.
pub(super) const HEADING_GAP: f64 = 8.0;
/// Space between a tick and its label.
pub(super) const TICK_GAP: f64 = 4.0;
/// Space between tick labels and the name of the axis.
pub(super) const NAME_GAP: f64 = 10.0;
/// Space before the colour bar, its thickness, and the length of its ticks.
const BAR_GAP: f64 = 12.0;
const BAR: f64 = 15.0;
pub(super) const BAR_TICK: f64 = 3.0;
/// Distance of the rows of the legend, and space above it.
pub(super) const LEGEND_ROW: f64 = SMALL + 8.0;
const LEGEND_GAP: f64 = 12.0;
/// Smallest ratio of the sides of a drawn plate. A thinner plate is stretched to it.
const MIN_ASPECT: f64 = 0.04;
/// Smallest area of the plate, relative to a picture without texts. Otherwise texts are omitted.
const MIN_PLATE_AREA: f64 = 0.26;

/// Texts of a picture. Small pictures have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Detail {
    legend: bool,
    /// Names of the axes and of the colour bar.
    names: bool,
    /// Ticks of the axes.
    ticks: bool,
    heading: bool,
    bar: bool,
}

impl Detail {
    /// From all texts to none.
    const LEVELS: [Self; 6] = {
        let all = Self { legend: true, names: true, ticks: true, heading: true, bar: true };
        let no_legend = Self { legend: false, ..all };
        let no_names = Self { names: false, ..no_legend };
        let no_ticks = Self { ticks: false, ..no_names };
        let only_bar = Self { heading: false, ..no_ticks };
        [all, no_legend, no_names, no_ticks, only_bar, Self { bar: false, ..only_bar }]
    };
}

/// Colour bar of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BarLayout {
    /// Left, top, right, bottom in pixels.
    pub area: [i64; 4],
    pub is_horizontal: bool,
    pub ticks: Vec<AxisTick>,
    /// Largest width of the tick labels.
    pub label_width: f64,
    /// Name of the field with its unit. It may be empty.
    pub name: String,
}

/// Positions of the parts of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldLayout {
    /// Pixels per unit.
    pub zoom: f64,
    /// Left, top, right, bottom of the plate in pixels.
    pub plate: [i64; 4],
    /// Ticks along x and y.
    pub ticks: [Vec<AxisTick>; 2],
    /// Names of the axes. They may be empty.
    pub names: [String; 2],
    pub bar: Option<BarLayout>,
    pub has_heading: bool,
    /// Rows of the legend, and the baseline of the first one.
    pub legend: Vec<Vec<LegendEntry>>,
    pub legend_baseline: f64,
    /// Width and height without the empty space, in pixels.
    pub used_pixels: [f64; 2],
}

impl FieldLayout {
    /// Places the parts of a picture of a valid grid. `range` is not empty.
    pub fn new(picture: &FieldPicture, range: ValueRange, time: &str, has_nan: bool) -> Self {
        let pixels = [picture.pixels.0, picture.pixels.1].map(|side| f64::from(side.max(1)));
        let zoom = ((pixels[0] * pixels[1]).sqrt() / 640.0).clamp(0.62, 8.0);
        let space = pixels.map(|side| side / zoom);
        let entries = LegendEntry::list(picture, has_nan);
        let lengths = picture.grid.extents(&picture.boundaries);
        let longest = lengths[0].max(lengths[1]);
        let largest = range.low.abs().max(range.high.abs());
        let parts = Parts {
            space,
            zoom,
            shape: lengths.map(|length| (length / longest).max(MIN_ASPECT)),
            axes: [(picture.axis_names[0], lengths[0]), (picture.axis_names[1], lengths[1])]
                .map(|(name, length)| AxisScale::for_length(name, length, longest, &picture.length_unit)),
            bar: AxisScale::with_power_of_ten(
                &picture.quantity,
                range.low,
                range.high,
                largest,
                &picture.unit,
            ),
            has_heading: !(picture.title.is_empty() && time.is_empty()),
            entries: &entries,
        };
        let bare = parts.fitted_plate(space);
        let is_large_enough = |layout: &Self| {
            let [left, top, right, bottom] = layout.plate.map(|side| side as f64 / zoom);
            (right - left) * (bottom - top) >= MIN_PLATE_AREA * bare[0] * bare[1]
        };
        Detail::LEVELS
            .into_iter()
            .filter_map(|detail| {
                let candidates = [false, true].map(|is_horizontal| parts.place(detail, is_horizontal));
                candidates
                    .into_iter()
                    .flatten()
                    .reduce(|a, b| if b.plate_area() > a.plate_area() { b } else { a })
            })
            .find(is_large_enough)
            .unwrap_or_else(|| parts.plate_only())
    }

    fn plate_area(&self) -> i64 {
        (self.plate[2] - self.plate[0]) * (self.plate[3] - self.plate[1])
    }
}

/// Input of the layout.
struct Parts<'a> {
    /// Width and height of the picture.
    space: [f64; 2],
    zoom: f64,
    /// Width and height of the drawn plate, relative to the longer one.
    shape: [f64; 2],
    axes: [AxisScale; 2],
    bar: AxisScale,
    has_heading: bool,
    entries: &'a [LegendEntry],
}

impl Parts<'_> {
    /// Returns the size of the largest plate in `space`.
    fn fitted_plate(&self, space: [f64; 2]) -> [f64; 2] {
        let scale = (space[0] / self.shape[0]).min(space[1] / self.shape[1]);
        self.shape.map(|side| side * scale)
    }

    /// Places all parts, or returns `None` if they do not fit.
    fn place(&self, detail: Detail, bar_is_horizontal: bool) -> Option<FieldLayout> {
        let legend = if detail.legend {
            divide_into_rows(self.entries, self.space[0] - 2.0 * MARGIN)?
        } else {
            Vec::new()
        };
        let has_heading = detail.heading && self.has_heading;
        let name_space = |name: &str| if detail.names && !name.is_empty() { NAME_GAP + LABEL } else { 0.0 };
        let widest =
            |ticks: &[AxisTick]| ticks.iter().map(|t| text_width(&t.text, SMALL)).fold(0.0, f64::max);
        let legend_height =
            if legend.is_empty() { 0.0 } else { LEGEND_GAP + SMALL + LEGEND_ROW * (legend.len() - 1) as f64 };
        let top = MARGIN + EDGE_BAND + if has_heading { HEADING + HEADING_GAP } else { 0.0 };
        // The widths of tick labels depend on the size of the plate and vice versa.
        let mut plate = self.fitted_plate(self.space).map(|side| 0.7 * side);
        let mut sides = [0.0; 4];
        for _ in 0..3 {
            let [x_ticks, y_ticks] = self.plate_ticks(detail, plate);
            let bar_length = plate[usize::from(!bar_is_horizontal)];
            let bar_ticks =
                if detail.bar { self.bar.ticks(bar_length, bar_is_horizontal) } else { Vec::new() };
            if detail.bar && bar_ticks.is_empty() {
                return None;
            }
            let outer_ticks = |ticks: &[AxisTick], labels: f64| {
                if ticks.is_empty() { 0.0 } else { TICK + TICK_GAP + labels }
            };
            // Half of the last tick label can be beyond the plate.
            let overhang = (0.5
                * widest(&x_ticks).max(if bar_is_horizontal { widest(&bar_ticks) } else { 0.0 })
                - EDGE_BAND)
                .max(0.0);
            let left = MARGIN
                + EDGE_BAND
                + (outer_ticks(&y_ticks, widest(&y_ticks)) + name_space(&self.axes[1].name)).max(overhang);
            let mut right = MARGIN + EDGE_BAND + overhang;
            let mut bottom = MARGIN
                + EDGE_BAND
                + outer_ticks(&x_ticks, SMALL)
                + name_space(&self.axes[0].name)
                + legend_height;
            if detail.bar {
                let across = BAR_GAP + BAR + BAR_TICK + TICK_GAP + name_space(&self.bar.name);
                if bar_is_horizontal {
                    bottom += across + SMALL;
                } else {
                    right = (MARGIN + EDGE_BAND + across + widest(&bar_ticks)).max(right);
                }
            }
            sides = [left, top, right, bottom];
            let free = [self.space[0] - left - right, self.space[1] - top - bottom];
            if free[0] < 8.0 || free[1] < 8.0 {
                return None;
            }
            plate = self.fitted_plate(free);
        }
        self.finish(detail, bar_is_horizontal, plate, sides, legend, has_heading)
    }

    fn plate_ticks(&self, detail: Detail, plate: [f64; 2]) -> [Vec<AxisTick>; 2] {
        [0, 1].map(|k| if detail.ticks { self.axes[k].ticks(plate[k], k == 0) } else { Vec::new() })
    }

    /// Centres the parts and rounds to pixels. `sides` are the spaces left, above, right of and
    /// below the plate.
    fn finish(
        &self,
        detail: Detail,
        bar_is_horizontal: bool,
        plate: [f64; 2],
        sides: [f64; 4],
        legend: Vec<Vec<LegendEntry>>,
        has_heading: bool,
    ) -> Option<FieldLayout> {
        let used = [sides[0] + plate[0] + sides[2], sides[1] + plate[1] + sides[3]];
        let offset = [0, 1].map(|k| 0.5 * (self.space[k] - used[k]).max(0.0));
        let to_pixels = |length: f64| (length * self.zoom).round() as i64;
        let (left, top) = (to_pixels(offset[0] + sides[0]), to_pixels(offset[1] + sides[1]));
        let area = [left, top, left + to_pixels(plate[0]).max(1), top + to_pixels(plate[1]).max(1)];
        let ticks = self.plate_ticks(detail, plate);
        let name = |axis: &AxisScale| if detail.names { axis.name.clone() } else { String::new() };
        let legend_height = SMALL + LEGEND_ROW * legend.len().saturating_sub(1) as f64;
        let bottom = offset[1] + used[1] - MARGIN;
        let legend_top = bottom - if legend.is_empty() { 0.0 } else { legend_height + LEGEND_GAP };
        let bar_length = plate[usize::from(!bar_is_horizontal)];
        let bar = detail.bar.then(|| {
            let ticks = self.bar.ticks(bar_length, bar_is_horizontal);
            let thick = to_pixels(BAR).max(2);
            let name = name(&self.bar);
            let bar_area = if bar_is_horizontal {
                let below =
                    BAR_TICK + TICK_GAP + SMALL + if name.is_empty() { 0.0 } else { NAME_GAP + LABEL };
                let bar_bottom = to_pixels(legend_top - below);
                [area[0], bar_bottom - thick, area[2], bar_bottom]
            } else {
                let bar_left = area[2] + to_pixels(EDGE_BAND + BAR_GAP);
                [bar_left, area[1], bar_left + thick, area[3]]
            };
            let label_width = ticks.iter().map(|t| text_width(&t.text, SMALL)).fold(0.0, f64::max);
            BarLayout { area: bar_area, is_horizontal: bar_is_horizontal, ticks, label_width, name }
        });
        let names_fit = |k: usize| text_width(&name(&self.axes[k]), LABEL) <= self.space[k];
        let bar_name_fits = bar.as_ref().is_none_or(|bar| {
            text_width(&bar.name, LABEL) <= self.space[usize::from(!bar.is_horizontal)] - MARGIN
        });
        (names_fit(0) && names_fit(1) && bar_name_fits).then(|| FieldLayout {
            zoom: self.zoom,
            plate: area,
            ticks,
            names: [name(&self.axes[0]), name(&self.axes[1])],
            bar,
            has_heading,
            legend,
            legend_baseline: bottom - legend_height + SMALL,
            used_pixels: used.map(|side| side * self.zoom),
        })
    }

    /// Returns the layout of a picture that is too small for anything but the plate.
    fn plate_only(&self) -> FieldLayout {
        let side = |k: usize| ((self.space[k] * self.zoom).round() as i64).max(1);
        let plate = self.fitted_plate(self.space).map(|length| (length * self.zoom).round() as i64);
        let (width, height) = (plate[0].clamp(1, side(0)), plate[1].clamp(1, side(1)));
        let (left, top) = ((side(0) - width) / 2, (side(1) - height) / 2);
        FieldLayout {
            zoom: self.zoom,
            plate: [left, top, left + width, top + height],
            ticks: Default::default(),
            names: Default::default(),
            bar: None,
            has_heading: false,
            legend: Vec::new(),
            legend_baseline: 0.0,
            used_pixels: [side(0) as f64, side(1) as f64],
        }
    }
}
