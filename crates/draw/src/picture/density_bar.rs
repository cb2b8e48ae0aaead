//! Colour bar of pictures of surface density, at the bottom right.
//!
//! It is logarithmic, like the brightness of the picture. A picture that is too small for it has
//! none.

use orrery_model::Units;

use super::colour_bar::ColourBar;
use super::font::{text_width, write_text};
use super::overlay::{INK, RIM, text_size};
use super::{ColourMap, Image, Scale};
use crate::plot::{Range, label_with_unit};

/// Largest length, relative to the width of the picture.
const MAX_LENGTH: f64 = 0.34;
/// Largest length and thickness, relative to the height of capitals.
const LENGTH: f64 = 24.0;
const THICKNESS: f64 = 1.1;
/// Height of capitals of the labels, relative to that of the title.
const LABEL: f64 = 0.85;

/// Draws the bar of pictures with this scale. `left_end` is the right end of everything else at the
/// bottom, in pixels. `is_exceeded` is true if a density is above the scale.
pub(super) fn draw_density_bar(
    image: &mut Image,
    maps: &[&ColourMap],
    scale: Scale,
    units: &Units,
    left_end: f64,
    is_exceeded: bool,
) {
    let (size, width) = (text_size(image), f64::from(image.width));
    let (small, margin, bottom) = (LABEL * size, 2.0 * size, f64::from(image.height) - 2.0 * size);
    let thickness = (THICKNESS * size).round().max(4.0);
    // The space for a pointed end is always left free, so that the bar does not move.
    let right = width - margin - 0.5 * thickness;
    let length = (MAX_LENGTH * width).min(LENGTH * size).round();
    let unit = units.shown_surface_density();
    let name = label_with_unit("surface density", units.axis_unit(unit.name));
    let left = right - length.max(text_width(&name, small));
    let top = bottom - small - 0.6 * size - thickness;
    let is_drawable = scale.low > 0.0 && scale.low < scale.high && scale.high.is_finite();
    if !is_drawable || left < left_end + 2.0 * size || top < 0.7 * f64::from(image.height) {
        return;
    }
    let area = [right - length, top, right, top + thickness].map(|side| side.round() as i64);
    let line = ((0.1 * size).round() as i64).max(1);
    image.draw_frame(area, 2 * line, RIM);
    let bar = ColourBar { area, is_horizontal: true, line, ink: INK };
    bar.draw(image, maps);
    if let (true, Some(last)) = (is_exceeded, maps.last()) {
        bar.draw_point(image, true, last.srgb_colour(1.0));
    }
    let name_at = [right - text_width(&name, small), top - 0.7 * size];
    write_text(image, &name, name_at, small, INK, Some(RIM), false);
    let range = Range { low: scale.low / unit.size, high: scale.high / unit.size, log: true };
    let ticks = range.ticks((length / (5.0 * size)) as usize);
    for tick in ticks.iter().filter(|tick| !tick.text.is_empty()) {
        let Some(position) = range.position_of(tick.value) else { continue };
        let x = area[0] as f64 + position * length;
        let (from, column) = (area[3] + line, x.round() as i64);
        let to = from + ((0.3 * size).round() as i64).max(1);
        image.fill_rectangle([column, from, column + line, to], INK);
        let at = [x - 0.5 * text_width(&tick.text, small), bottom];
        write_text(image, &tick.text, at, small, INK, Some(RIM), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { low: 1e-4, high: 1.0 };

    fn drawn(pixels: (u32, u32), maps: &[&ColourMap], left_end: f64) -> Image {
        let mut image = Image::filled(pixels.0, pixels.1, [0; 3]);
        draw_density_bar(&mut image, maps, SCALE, &Units::Galactic, left_end, false);
        image
    }

    /// Returns true if a pixel has this colour, within the distance of neighbouring stripes.
    fn is_like(pixel: [u8; 3], colour: [u8; 3]) -> bool {
        (0..3).all(|c| pixel[c].abs_diff(colour[c]) <= 4)
    }

    /// The bar has the colours of its map from left to right, in the lower right quarter.
    #[test]
    fn bar_shows_the_colours_of_the_map() {
        let map = ColourMap::viridis();
        for pixels in [(320, 320), (640, 640), (1920, 1080)] {
            let image = drawn(pixels, &[&map], 0.0);
            let positions = [0.0, 0.5, 1.0].map(|t| {
                let mut all = (0..pixels.1).flat_map(|y| (0..pixels.0).map(move |x| [x, y]));
                let found = all.find(|&[x, y]| is_like(image.pixel(x, y), map.srgb_colour(t)));
                found.unwrap_or_else(|| panic!("{pixels:?} {t}"))
            });
            assert!(positions[0][0] > pixels.0 / 2 && positions[0][1] > pixels.1 / 2, "{positions:?}");
            assert!(positions.windows(2).all(|pair| pair[0][0] < pair[1][0]), "{positions:?}");
        }
    }

    #[test]
    fn maps_of_two_groups_share_the_bar() {
        let (blue, orange) = (ColourMap::blue(), ColourMap::orange());
        let image = drawn((640, 640), &[&blue, &orange], 0.0);
        let count = |map: &ColourMap| {
            let colour = map.srgb_colour(0.5);
            let pixels = image.rgb.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
            pixels.filter(|&pixel| is_like(pixel, colour)).count()
        };
        assert!(count(&blue) > 2 && count(&orange) > 2, "{} {}", count(&blue), count(&orange));
    }

    #[test]
    fn bar_is_left_out_where_it_does_not_fit() {
        let map = ColourMap::ember();
        let is_empty = |image: Image| image.rgb.iter().all(|byte| *byte == 0);
        assert!(is_empty(drawn((64, 64), &[&map], 0.0)));
        assert!(is_empty(drawn((640, 60), &[&map], 0.0)));
        assert!(is_empty(drawn((640, 640), &[&map], 500.0)));
        let mut image = Image::filled(640, 640, [0; 3]);
        for scale in [Scale { low: 0.0, high: 1.0 }, Scale { low: 1.0, high: f64::INFINITY }] {
            draw_density_bar(&mut image, &[&map], scale, &Units::NBody, 0.0, true);
        }
        assert!(is_empty(image));
    }
}
