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
    let size = text_size(&image);
    let pen = (0.075 * size).max(0.6);
    let trails: Vec<Vec<[f64; 2]>> =
        history.iter().map(|trail| trail.iter().map(|&p| view.project(p)).collect()).collect();

    for (k, trail) in trails.iter().enumerate() {
        let mut mask = Mask::for_image(width, height);
        let steps = trail.len().saturating_sub(1).max(1) as f64;
        // The strength is quadratic in time, to emphasise the recent past, and never zero.
        let strength = |age: usize| 0.12 + 0.88 * (age as f64 / steps).powi(2);
        let mut last = 0;
        for i in 1..trail.len() {
            // After many revolutions a trail has far more points than pixels, so near points are
            // skipped. Points that are not finite count as not near.
            if i + 1 == trail.len() || !is_near(trail[last], trail[i]) {
                mask.draw_fading_segment(trail[last], trail[i], pen, strength(last), strength(i));
                last = i;
            }
        }
        image.paint_mask(&mask, body_colour(k), 0.9);
    }
    let present = || trails.iter().enumerate().filter_map(|(k, trail)| Some((k, *trail.last()?)));
    let near_image = |[x, y]: [f64; 2]| {
        let beyond = 2.0 * size;
        (-beyond..f64::from(width) + beyond).contains(&x)
            && (-beyond..f64::from(height) + beyond).contains(&y)
    };
    for (k, place) in present().filter(|(_, place)| near_image(*place)) {
        for (radius, opacity) in [(1.0, 0.10), (0.75, 0.15), (0.4, 1.0)] {
            let reach = radius * size + 2.0;
            let corner = place.map(|c| (c - reach).floor() as i64);
            let side = (2.0 * reach).ceil() as usize + 1;
            let mut mask = Mask::new(corner[0], corner[1], side, side);
            mask.draw_disc(place, radius * size);
            image.paint_mask(&mask, body_colour(k), opacity);
        }
    }
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for (k, [x, y]) in present() {
        let name = names.get(k).copied().unwrap_or_default();
        let inside = (0.0..f64::from(width)).contains(&x) && (0.0..f64::from(height)).contains(&y);
        let small = 0.85 * size;
        let start = [x + 0.9 * size, y + 0.45 * small];
        let place =
            [start[0], start[1] - 1.4 * small, start[0] + text_width(name, small), start[1] + 0.5 * small];
        let free =
            taken.iter().all(|t| place[2] < t[0] || t[2] < place[0] || place[3] < t[1] || t[3] < place[1]);
        if inside && free && !name.is_empty() {
            write_text(&mut image, name, start, small, body_colour(k), Some(BACKGROUND), false);
            taken.push(place);
        }
    }
    labels.draw_labels(&mut image, view);
    image
}

/// Returns true for points closer together than can be seen.
fn is_near(p: [f64; 2], q: [f64; 2]) -> bool {
    (p[0] - q[0]).hypot(p[1] - q[1]) < 1.25
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View = View { centre: [0.0; 3], half_width: 1.0, axes: (0, 1), pixels: (200, 200) };

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
