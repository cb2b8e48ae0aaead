//! A scene as pixels, with the pictures' pen and letters.

use super::layout::{Anchor, Item, PlotLayout};
use crate::picture::{Image, Mask, text_width, write_text};

/// Draws the scene, one of its units being `zoom` pixels.
pub(super) fn image(scene: &PlotLayout, zoom: f64) -> Image {
    let side = |length: f64| (length * zoom).round().max(1.0) as u32;
    let mut image = Image::filled(side(scene.width), side(scene.height), [255; 3]);
    let whole = Mask::whole(image.width, image.height);
    scene.items.iter().for_each(|item| put(&mut image, item, zoom, &whole));
    let [left, top, right, bottom] = scene.frame.map(|edge| edge * zoom);
    let (x, y) = (left.round() as i64, (top - 2.0 * zoom).round() as i64);
    let size = [right + 2.0 * zoom - left, bottom - top + 4.0 * zoom].map(|s| s.max(0.0) as usize);
    let inside = Mask::new(x, y, size[0], size[1]);
    scene.curves.iter().for_each(|item| put(&mut image, item, zoom, &inside));
    image
}

/// Draws what falls into `area`, a mask that only lends its place and size.
fn put(image: &mut Image, item: &Item, zoom: f64, area: &Mask) {
    let fresh = || Mask::new(area.left, area.top, area.width, area.height);
    let scaled = |points: &[[f64; 2]]| points.iter().map(|p| p.map(|c| c * zoom)).collect::<Vec<_>>();
    match item {
        Item::Line { points, colour, width, dashed } => {
            let mut mask = fresh();
            let (points, radius) = (aligned(scaled(points)), 0.5 * width * zoom);
            if *dashed {
                mask.dashed(&points, radius, 6.0 * zoom, 4.0 * zoom);
            } else {
                mask.polyline(&points, radius);
            }
            image.paint(&mask, *colour, 1.0);
        }
        Item::Marks { points, colour, radius } => {
            let mut mask = fresh();
            scaled(points).into_iter().for_each(|p| mask.disc(p, radius * zoom));
            image.paint(&mask, *colour, 1.0);
        }
        Item::Text { text, at, size, colour, anchor, upwards, bold } => {
            let size = size * zoom;
            let back = text_width(text, size)
                * match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
            let [x, y] = at.map(|c| c * zoom);
            let start = if *upwards { [x, y + back] } else { [x - back, y] };
            write_text(image, text, start, size, *colour, None, *upwards);
            if *bold {
                write_text(image, text, [start[0] + 0.05 * size, start[1]], size, *colour, None, *upwards);
            }
        }
    }
}

/// Puts level and upright lines on the middle of a row or column of pixels, where they are sharp.
fn aligned(mut points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
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
