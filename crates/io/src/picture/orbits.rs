//! Orbits of a few bodies: the position of each body, and its trail, which fades into the past.

use super::colour::srgb_from_lch;
use super::font::{text_width, write_text};
use super::overlay::text_size;
use super::stroke::Mask;
use super::{Image, Labels, View};

/// Background colour.
pub(super) const BACKGROUND: [u8; 3] = [8, 9, 16];

/// Returns the colour of body `k`. All have the same lightness. Hues are a golden angle apart, so
/// neighbours in the list look different.
pub fn body_colour(k: usize) -> [u8; 3] {
    srgb_from_lch(0.8, 0.145, 70.0 + 137.507_764 * k as f64)
}

/// Draws the trails of bodies, and discs at their present positions.
///
/// `history[body]` lists positions from the oldest to the present. `names[body]`, if given, is
/// written next to the disc unless it would cover another name.
pub fn render_orbits(history: &[Vec<[f64; 3]>], names: &[&str], view: &View, labels: &Labels) -> Image {
    let (width, height) = (view.pixels.0.max(1), view.pixels.1.max(1));
    let mut image = Image::filled(width, height, BACKGROUND);
    let trails: Vec<Vec<[f64; 2]>> =
        history.iter().map(|trail| trail.iter().map(|&p| view.project(p)).collect()).collect();
    for (k, trail) in trails.iter().enumerate() {
        draw_trail(&mut image, trail, body_colour(k));
    }
    let present: Vec<(usize, [f64; 2])> =
        trails.iter().enumerate().filter_map(|(k, trail)| Some((k, *trail.last()?))).collect();
    for &(k, position) in &present {
        draw_body(&mut image, position, body_colour(k));
    }
    draw_names(&mut image, &present, names);
    labels.draw_labels(&mut image, view);
    image
}

fn draw_trail(image: &mut Image, trail: &[[f64; 2]], colour: [u8; 3]) {
    let pen = (0.075 * text_size(image)).max(0.6);
    let mut mask = Mask::for_image(image.width, image.height);
    let steps = trail.len().saturating_sub(1).max(1) as f64;
    // The strength is quadratic in time, to emphasise the recent past, and never zero.
    let strength = |index: usize| 0.12 + 0.88 * (index as f64 / steps).powi(2);
    let mut last = 0;
    for i in 1..trail.len() {
        // After many revolutions a trail has far more points than pixels, so near points are
        // skipped. Points that are not finite count as not near.
        if i + 1 == trail.len() || !is_near(trail[last], trail[i]) {
            mask.draw_fading_segment(trail[last], trail[i], pen, strength(last), strength(i));
            last = i;
        }
    }
    image.paint_mask(&mask, colour, 0.9);
}

/// Draws a disc with a glow, if it is in or near the image.
fn draw_body(image: &mut Image, position: [f64; 2], colour: [u8; 3]) {
    let size = text_size(image);
    let margin = 2.0 * size;
    let is_near_image = (-margin..f64::from(image.width) + margin).contains(&position[0])
        && (-margin..f64::from(image.height) + margin).contains(&position[1]);
    if !is_near_image {
        return;
    }
    for (radius, opacity) in [(1.0, 0.10), (0.75, 0.15), (0.4, 1.0)] {
        let reach = radius * size + 2.0;
        let corner = position.map(|c| (c - reach).floor() as i64);
        let side = (2.0 * reach).ceil() as usize + 1;
        let mut mask = Mask::new(corner[0], corner[1], side, side);
        mask.draw_disc(position, radius * size);
        image.paint_mask(&mask, colour, opacity);
    }
}

/// Writes the names of the bodies next to their discs. A name that would cover an earlier one is
/// omitted.
fn draw_names(image: &mut Image, present: &[(usize, [f64; 2])], names: &[&str]) {
    let size = text_size(image);
    let (width, height) = (f64::from(image.width), f64::from(image.height));
    let mut occupied: Vec<[f64; 4]> = Vec::new();
    for &(k, [x, y]) in present {
        let name = names.get(k).copied().unwrap_or_default();
        let is_inside = (0.0..width).contains(&x) && (0.0..height).contains(&y);
        let small = 0.85 * size;
        let start = [x + 0.9 * size, y + 0.45 * small];
        let area =
            [start[0], start[1] - 1.4 * small, start[0] + text_width(name, small), start[1] + 0.5 * small];
        let is_free =
            occupied.iter().all(|o| area[2] < o[0] || o[2] < area[0] || area[3] < o[1] || o[3] < area[1]);
        if is_inside && is_free && !name.is_empty() {
            write_text(image, name, start, small, body_colour(k), Some(BACKGROUND), false);
            occupied.push(area);
        }
    }
}

/// Returns true for points closer together than can be seen.
fn is_near(p: [f64; 2], q: [f64; 2]) -> bool {
    (p[0] - q[0]).hypot(p[1] - q[1]) < 1.25
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Orientation;

    const VIEW: View =
        View { centre: [0.0; 3], half_width: 1.0, orientation: Orientation::XY, pixels: (200, 200) };

    #[test]
    fn present_is_brighter_than_the_past() {
        let trail: Vec<[f64; 3]> = (0..=100).map(|i| [-0.8 + 0.016 * f64::from(i), 0.5, 0.0]).collect();
        let image = render_orbits(&[trail], &[], &VIEW, &Labels::none());
        let brightness = |x, y| image.pixel(x, y).iter().map(|&b| u32::from(b)).sum::<u32>();
        assert_eq!(image.pixel(180, 50), body_colour(0));
        assert!(brightness(120, 50) > brightness(40, 50) + 30);
        assert!(brightness(40, 50) > brightness(40, 150) + 10);
    }

    #[test]
    fn empty_and_non_finite_trails_are_drawn() {
        let nan = [f64::NAN; 3];
        let history = [
            vec![],
            vec![[0.0; 3]],
            vec![nan, nan],
            vec![[0.1; 3], nan, [1e300, 0.0, 0.0]],
            vec![[0.0; 3]; 5],
        ];
        let image = render_orbits(&history, &["a", "b", "c", "d", "e"], &VIEW, &Labels::none());
        assert_eq!(image.pixel(100, 100), body_colour(4));
    }
}
