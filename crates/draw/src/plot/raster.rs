//! Drawing of a layout as an image, with the line drawing and font of the pictures.

use super::layout::{Anchor, Item, PlotLayout};
use crate::picture::{Image, Mask, text_width, write_text};

/// Draws the layout with `zoom` pixels per unit.
pub(super) fn draw_layout(layout: &PlotLayout, zoom: f64) -> Image {
    let side = |length: f64| (length * zoom).round().max(1.0) as u32;
    let mut image = Image::filled(side(layout.width), side(layout.height), [255; 3]);
    let mut whole = Mask::for_image(image.width, image.height);
    layout.items.iter().for_each(|item| draw_item(&mut image, item, zoom, &mut whole));
    let [left, top, right, bottom] = layout.frame.map(|edge| edge * zoom);
    let (x, y) = (left.round() as i64, (top - 2.0 * zoom).round() as i64);
    let size = [right + 2.0 * zoom - left, bottom - top + 4.0 * zoom].map(|s| s.max(0.0) as usize);
    let mut inside = Mask::new(x, y, size[0], size[1]);
    layout.curves.iter().for_each(|item| draw_item(&mut image, item, zoom, &mut inside));
    image
}

/// Draws the part of `item` inside the rectangle of `mask`, which is empty before and after.
pub(crate) fn draw_item(image: &mut Image, item: &Item, zoom: f64, mask: &mut Mask) {
    let scaled = |points: &[[f64; 2]]| points.iter().map(|p| p.map(|c| c * zoom)).collect::<Vec<_>>();
    match item {
        Item::Line { points, colour, width, dashed } => {
            let (points, radius) = (align_to_pixels(scaled(points)), 0.5 * width * zoom);
            if *dashed {
                mask.draw_dashes(&points, radius, 6.0 * zoom, 4.0 * zoom);
            } else {
                mask.draw_polyline(&points, radius);
            }
            image.paint_mask(mask, *colour, 1.0);
            mask.clear();
        }
        Item::Marks { points, colour, radius } => {
            scaled(points).into_iter().for_each(|p| mask.draw_disc(p, radius * zoom));
            image.paint_mask(mask, *colour, 1.0);
            mask.clear();
        }
        Item::Area { points, colour } => {
            mask.fill_polygon(&scaled(points));
            image.paint_mask(mask, *colour, 1.0);
            mask.clear();
        }
        Item::Text { text, at, size, colour, anchor, upwards, bold } => {
            let size = size * zoom;
            let shift = text_width(text, size)
                * match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
            let [x, y] = at.map(|c| c * zoom);
            let start = if *upwards { [x, y + shift] } else { [x - shift, y] };
            write_text(image, text, start, size, *colour, None, *upwards);
            if *bold {
                write_text(image, text, [start[0] + 0.05 * size, start[1]], size, *colour, None, *upwards);
            }
        }
    }
}

/// Moves horizontal and vertical lines to the centre of a row or column of pixels, where they are
/// sharp.
fn align_to_pixels(mut points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    if let [p, q] = &mut points[..] {
        for k in 0..2 {
            if p[k] == q[k] {
                p[k] = p[k].floor() + 0.5;
                q[k] = p[k];
            }
        }
    }
    points
}
