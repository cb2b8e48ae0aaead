//! An 8-bit RGB image, rows from the top.

use super::stroke::Mask;

/// Pixels in sRGB, three bytes each, row by row from the top left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Red, green, blue of each pixel.
    pub rgb: Vec<u8>,
}

impl Image {
    /// Returns an image of one colour.
    pub fn filled(width: u32, height: u32, colour: [u8; 3]) -> Self {
        Self { width, height, rgb: colour.repeat(width as usize * height as usize) }
    }

    /// Returns the pixel in column `x` of row `y`, counted from the top.
    pub fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        let at = 3 * (y as usize * self.width as usize + x as usize);
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// Fills the part of a rectangle (left, top, right, bottom) inside the image.
    pub(crate) fn fill_rectangle(&mut self, [left, top, right, bottom]: [i64; 4], colour: [u8; 3]) {
        let (width, height) = (i64::from(self.width), i64::from(self.height));
        let (left, right) = (left.clamp(0, width), right.clamp(0, width));
        for y in top.clamp(0, height)..bottom.clamp(0, height) {
            for x in left..right {
                let at = 3 * (y * width + x) as usize;
                self.rgb[at..at + 3].copy_from_slice(&colour);
            }
        }
    }

    /// Draws a frame of `line` pixels around a rectangle. It covers no pixel of the rectangle.
    pub(crate) fn draw_frame(&mut self, [left, top, right, bottom]: [i64; 4], line: i64, colour: [u8; 3]) {
        let (outer_left, outer_right) = (left - line, right + line);
        self.fill_rectangle([outer_left, top - line, outer_right, top], colour);
        self.fill_rectangle([outer_left, bottom, outer_right, bottom + line], colour);
        self.fill_rectangle([outer_left, top, left, bottom], colour);
        self.fill_rectangle([right, top, outer_right, bottom], colour);
    }

    /// Paints `colour` through the mask. `opacity` is the opacity at full coverage.
    pub(crate) fn paint_mask(&mut self, mask: &Mask, colour: [u8; 3], opacity: f32) {
        let (width, height) = (i64::from(self.width), i64::from(self.height));
        for row in mask.rows.clone() {
            let y = mask.top + row as i64;
            if !(0..height).contains(&y) {
                continue;
            }
            for column in mask.columns.clone() {
                let x = mask.left + column as i64;
                let alpha = mask.coverage[row * mask.width + column] * opacity;
                if alpha <= 0.0 || !(0..width).contains(&x) {
                    continue;
                }
                let at = 3 * (y * width + x) as usize;
                for (under, over) in self.rgb[at..at + 3].iter_mut().zip(colour) {
                    *under = (f32::from(*under) * (1.0 - alpha) + f32::from(over) * alpha).round() as u8;
                }
            }
        }
    }
}
