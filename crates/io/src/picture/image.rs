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
