//! Drawing of axes, colour bar, heading and legend around the plate.

use super::layout::{
    BAR_TICK, BarLayout, EDGE_BAND, FieldLayout, HEADING, HEADING_GAP, LEGEND_ROW, MARGIN, NAME_GAP, TICK_GAP,
};
use super::legend::{ENTRY_GAP, LegendEntry, SAMPLE, SAMPLE_GAP, row_width};
use super::{FieldPicture, Found, NAN_COLOUR, PointKind, RegionKind, marks, points, shaded};
use crate::picture::colour_bar::ColourBar;
use crate::picture::{Image, Mask, text_width};
use crate::plot::{Anchor, INK, Item, LABEL, SMALL, TICK, draw_item};

pub(super) const BACKGROUND: [u8; 3] = [255; 3];

/// Image with the positions of its parts. Coordinates of lines and texts are in units of `zoom`
/// pixels.
pub(super) struct Canvas<'a> {
    pub image: &'a mut Image,
    pub layout: &'a FieldLayout,
    /// Empty mask of the size of the image.
    mask: Mask,
}

impl<'a> Canvas<'a> {
    pub fn new(image: &'a mut Image, layout: &'a FieldLayout) -> Self {
        let mask = Mask::for_image(image.width, image.height);
        Self { image, layout, mask }
    }

    /// Draws everything but the field.
    pub fn draw_all(&mut self, picture: &FieldPicture, time: &str, found: Found) {
        marks::draw_regions(self, picture);
        self.image.draw_frame(self.layout.plate, self.line(), INK);
        if picture.shows_edges {
            marks::draw_edges(self, picture);
        }
        points::draw_points(self, picture);
        self.draw_axes(picture.is_depth_down);
        if let Some(bar) = &self.layout.bar {
            self.draw_bar(bar, picture, found);
        }
        if self.layout.has_heading {
            self.draw_heading(&picture.title, time);
        }
        self.draw_legend(picture);
    }

    pub fn draw_line(&mut self, points: Vec<[f64; 2]>, colour: [u8; 3], width: f64, dashed: bool) {
        let item = Item::Line { points, colour, width, dashed };
        draw_item(self.image, &item, self.layout.zoom, &mut self.mask);
    }

    fn write(&mut self, text: &str, at: [f64; 2], size: f64, anchor: Anchor, upwards: bool) {
        let text = text.to_owned();
        let item = Item::Text { text, at, size, colour: INK, anchor, upwards, bold: false };
        draw_item(self.image, &item, self.layout.zoom, &mut self.mask);
    }

    /// Converts a rectangle from pixels to units.
    pub fn to_units(&self, area: [i64; 4]) -> [f64; 4] {
        area.map(|side| side as f64 / self.layout.zoom)
    }

    /// Returns the width of the lines of a frame in pixels.
    fn line(&self) -> i64 {
        (self.layout.zoom.round() as i64).max(1)
    }

    /// Draws ticks, tick labels and names of the axes.
    fn draw_axes(&mut self, is_depth_down: bool) {
        let layout = self.layout;
        let [left, top, right, bottom] = self.to_units(layout.plate);
        let start = bottom + EDGE_BAND;
        for tick in &layout.ticks[0] {
            let x = left + tick.position * (right - left);
            self.draw_line(vec![[x, start], [x, start + TICK]], INK, 1.0, false);
            self.write(&tick.text, [x, start + TICK + TICK_GAP + SMALL], SMALL, Anchor::Middle, false);
        }
        let labels = if layout.ticks[0].is_empty() { 0.0 } else { TICK + TICK_GAP + SMALL };
        let at = [0.5 * (left + right), start + labels + NAME_GAP + LABEL];
        self.write(&layout.names[0], at, LABEL, Anchor::Middle, false);

        let start = left - EDGE_BAND;
        let mut widest: f64 = 0.0;
        for tick in &layout.ticks[1] {
            let along = tick.position * (bottom - top);
            let y = if is_depth_down { top + along } else { bottom - along };
            widest = widest.max(text_width(&tick.text, SMALL));
            self.draw_line(vec![[start, y], [start - TICK, y]], INK, 1.0, false);
            self.write(&tick.text, [start - TICK - TICK_GAP, y + 0.5 * SMALL], SMALL, Anchor::End, false);
        }
        let labels = if layout.ticks[1].is_empty() { 0.0 } else { TICK + TICK_GAP + widest };
        // The baseline of an upwards text is its right side.
        let at = [start - labels - NAME_GAP, 0.5 * (top + bottom)];
        self.write(&layout.names[1], at, LABEL, Anchor::Middle, true);
    }

    /// Draws the colour bar. An end is pointed where values are beyond it.
    fn draw_bar(&mut self, bar: &BarLayout, picture: &FieldPicture, found: Found) {
        let stripes =
            ColourBar { area: bar.area, is_horizontal: bar.is_horizontal, line: self.line(), ink: INK };
        stripes.draw(self.image, &[&picture.colours]);
        if found.above {
            stripes.draw_point(self.image, true, picture.colours.srgb_colour(1.0));
        }
        if found.below {
            stripes.draw_point(self.image, false, picture.colours.srgb_colour(0.0));
        }
        self.draw_bar_labels(bar);
    }

    fn draw_bar_labels(&mut self, bar: &BarLayout) {
        let [left, top, right, bottom] = self.to_units(bar.area);
        for tick in &bar.ticks {
            if bar.is_horizontal {
                let x = left + tick.position * (right - left);
                self.draw_line(vec![[x, bottom], [x, bottom + BAR_TICK]], INK, 1.0, false);
                let at = [x, bottom + BAR_TICK + TICK_GAP + SMALL];
                self.write(&tick.text, at, SMALL, Anchor::Middle, false);
            } else {
                let y = bottom - tick.position * (bottom - top);
                self.draw_line(vec![[right, y], [right + BAR_TICK, y]], INK, 1.0, false);
                let at = [right + BAR_TICK + TICK_GAP, y + 0.5 * SMALL];
                self.write(&tick.text, at, SMALL, Anchor::Start, false);
            }
        }
        let labels = BAR_TICK + TICK_GAP + if bar.is_horizontal { SMALL } else { bar.label_width };
        let (middle, past) = if bar.is_horizontal {
            (0.5 * (left + right), bottom + labels + NAME_GAP + LABEL)
        } else {
            (0.5 * (top + bottom), right + labels + NAME_GAP + LABEL)
        };
        // A name that is longer than the bar stays within the picture.
        let half = 0.5 * text_width(&bar.name, LABEL);
        let image_side = if bar.is_horizontal { self.image.width } else { self.image.height };
        let last = f64::from(image_side) / self.layout.zoom - 0.5 * MARGIN - half;
        let middle = middle.min(last).max(0.5 * MARGIN + half);
        let at = if bar.is_horizontal { [middle, past] } else { [past, middle] };
        self.write(&bar.name, at, LABEL, Anchor::Middle, !bar.is_horizontal);
    }

    /// Writes the time at the left and the title at the right, above the plate if they fit there,
    /// otherwise across the whole picture.
    fn draw_heading(&mut self, title: &str, time: &str) {
        let [mut left, top, mut right, _] = self.to_units(self.layout.plate);
        let baseline = top - EDGE_BAND - HEADING_GAP;
        // Reserve space, so that the position does not depend on the digits of the time.
        let time_width = if time.is_empty() { 0.0 } else { text_width(time, HEADING).max(110.0) + 16.0 };
        if time_width + text_width(title, HEADING) > right - left {
            (left, right) = (MARGIN, f64::from(self.image.width) / self.layout.zoom - MARGIN);
        }
        let time = shortened(time, right - left);
        let used = if time.is_empty() { 0.0 } else { text_width(&time, HEADING) + 16.0 };
        let title = shortened(title, right - left - used);
        self.write(&time, [left, baseline], HEADING, Anchor::Start, false);
        self.write(&title, [right, baseline], HEADING, Anchor::End, false);
    }

    fn draw_legend(&mut self, picture: &FieldPicture) {
        let layout = self.layout;
        let middle = 0.5 * f64::from(self.image.width) / layout.zoom;
        for (k, row) in layout.legend.iter().enumerate() {
            let baseline = layout.legend_baseline + k as f64 * LEGEND_ROW;
            let mut x = middle - 0.5 * row_width(row);
            for entry in row {
                self.draw_sample(entry, x, baseline - 0.5 * SMALL, picture);
                self.write(entry.text(), [x + SAMPLE + SAMPLE_GAP, baseline], SMALL, Anchor::Start, false);
                x += entry.width() + ENTRY_GAP;
            }
        }
    }

    /// Draws the sample of a legend entry from `x`, centred at `y`.
    fn draw_sample(&mut self, entry: &LegendEntry, x: f64, y: f64, picture: &FieldPicture) {
        let zoom = self.layout.zoom;
        let swatch = [x, y - 5.5, x + SAMPLE, y + 5.5].map(|side| (side * zoom).round() as i64);
        match entry {
            LegendEntry::Nan => self.image.fill_rectangle(swatch, NAN_COLOUR),
            LegendEntry::Source | LegendEntry::Material | LegendEntry::Layer => {
                let kind = match entry {
                    LegendEntry::Source => RegionKind::Source,
                    LegendEntry::Material => RegionKind::Material,
                    _ => RegionKind::Interior,
                };
                self.image.fill_rectangle(swatch, picture.colours.srgb_colour(0.6));
                let middle = [[x, y], [x + SAMPLE, y]].map(|p| p.map(|c| c * zoom));
                marks::draw_outline(self.image, swatch, &middle, kind, zoom);
            }
            LegendEntry::PointSource => {
                let centre = [x + 0.5 * SAMPLE, y].map(|c| c * zoom);
                points::draw_symbols(self.image, &[centre], PointKind::Source, zoom);
            }
            LegendEntry::Receiver => {
                let tip = [x + 0.5 * SAMPLE, y + 3.5].map(|c| c * zoom);
                points::draw_symbols(self.image, &[tip], PointKind::Receiver, zoom);
            }
            LegendEntry::Underlay(_) => self.draw_shades(swatch, picture),
            // The plate would be above the line.
            edge => marks::draw_edge(self, edge, [x, y - 4.0], [x + SAMPLE, y - 4.0], [0.0, 1.0], |_| 1.0),
        }
    }

    /// Fills a rectangle with the shades of an underlay from light to dark, as they are in the
    /// middle of the range of colours.
    fn draw_shades(&mut self, [left, top, right, bottom]: [i64; 4], picture: &FieldPicture) {
        let unshaded = picture.colours.srgb_colour(0.5);
        for column in left..right {
            let shade = 255.0 * (column - left) as f64 / (right - left - 1).max(1) as f64;
            self.image.fill_rectangle([column, top, column + 1, bottom], shaded(unshaded, shade));
        }
        self.image.draw_frame([left, top, right, bottom], self.line(), INK);
    }
}

/// Returns the text, with its end replaced by dots if it is wider than `width`.
fn shortened(text: &str, width: f64) -> String {
    if text_width(text, HEADING) <= width {
        return text.to_owned();
    }
    let mut characters: Vec<char> = text.chars().collect();
    while characters.pop().is_some() {
        let shorter = format!("{}...", characters.iter().collect::<String>().trim_end());
        if !characters.is_empty() && text_width(&shorter, HEADING) <= width {
            return shorter;
        }
    }
    String::new()
}
