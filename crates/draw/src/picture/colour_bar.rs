//! Colour bars of fields and of surface densities.

use super::{ColourMap, Image};

/// Colour bar without labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColourBar {
    /// Left, top, right, bottom in pixels.
    pub area: [i64; 4],
    pub is_horizontal: bool,
    /// Width of the frame in pixels.
    pub line: i64,
    /// Colour of the frame.
    pub ink: [u8; 3],
}

impl ColourBar {
    /// Draws the colours from low to high, and the frame. Several maps divide the thickness of the
    /// bar.
    pub fn draw(&self, image: &mut Image, maps: &[&ColourMap]) {
        let [left, top, right, bottom] = self.area;
        let (length, thickness) =
            if self.is_horizontal { (right - left, bottom - top) } else { (bottom - top, right - left) };
        let count = maps.len().max(1) as i64;
        for (map, index) in maps.iter().zip(0..) {
            let table = map.srgb_table();
            let (from, to) = (index * thickness / count, (index + 1) * thickness / count);
            for k in 0..length {
                // Both ends of the bar have the colours of the ends of the range.
                let entry = k as f64 / (length - 1).max(1) as f64 * (table.len() - 1) as f64;
                let stripe = if self.is_horizontal {
                    [left + k, top + from, left + k + 1, top + to]
                } else {
                    [left + from, bottom - 1 - k, left + to, bottom - k]
                };
                image.fill_rectangle(stripe, table[entry.round() as usize]);
            }
        }
        image.draw_frame(self.area, self.line, self.ink);
    }

    /// Draws a triangle at an end of the bar, for values beyond it.
    pub fn draw_point(&self, image: &mut Image, at_high_end: bool, colour: [u8; 3]) {
        let [left, top, right, bottom] = self.area;
        let line = self.line;
        let thick = if self.is_horizontal { bottom - top } else { right - left };
        // One row of pixels after the other, beyond the frame.
        let depth = (thick / 2).max(1);
        for k in 0..depth {
            let inset = k * thick / (2 * depth);
            let stripe = |inset: i64| match (self.is_horizontal, at_high_end) {
                (true, true) => [right + line + k, top + inset, right + line + k + 1, bottom - inset],
                (true, false) => [left - line - k - 1, top + inset, left - line - k, bottom - inset],
                (false, true) => [left + inset, top - line - k - 1, right - inset, top - line - k],
                (false, false) => [left + inset, bottom + line + k, right - inset, bottom + line + k + 1],
            };
            image.fill_rectangle(stripe(inset - line), self.ink);
            if k < depth - line {
                image.fill_rectangle(stripe(inset), colour);
            }
        }
    }
}
