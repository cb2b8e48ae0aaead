//! Orbits of a few bodies: the position of each body, and its trail, which fades into the past.

use super::colour::srgb_from_lch;
use super::font::{text_width, write_text};
use super::overlay::text_size;
use super::stroke::Mask;
use super::{Image, Labels, View};

/// Background colour.
pub(super) const BACKGROUND: [u8; 3] = [8, 9, 16];

/// Returns the colour of body `k`. Hues are a golden angle apart, so neighbours in the list look
/// different. Bodies whose hues are close differ in lightness: the distance in Oklab of any two of
/// the first nine is at least 0.09, and 0.05 if all have the same lightness.
pub fn body_colour(k: usize) -> [u8; 3] {
    const LIGHTNESS: [f64; 3] = [0.82, 0.68, 0.74];
    srgb_from_lch(LIGHTNESS[k % 3], 0.16, 70.0 + 137.507_764 * k as f64)
}

/// Draws the trails of bodies, and discs at their present positions.
///
/// `history[body]` lists positions from the oldest to the present. `names[body]`, if given, is
/// written next to the disc, or at a line from the disc, unless it would cover another body or
/// text.
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
    labels.draw_labels(&mut image, view);
    let texts = labels.text_areas(&image, view);
    for name in place_names(&image, &present, names, texts) {
        draw_name(&mut image, &name);
    }
    image
}

fn draw_trail(image: &mut Image, trail: &[[f64; 2]], colour: [u8; 3]) {
    let pen = (0.075 * text_size(image)).max(0.6);
    let mut mask = Mask::for_image(image.width, image.height);
    let steps = trail.len().saturating_sub(1).max(1) as f64;
    // The strength is quadratic in time, to emphasise the recent past, and never zero.
    let strength = |index: usize| 0.12 + 0.88 * (index as f64 / steps).powi(2);
    // After many revolutions a trail has far more points than pixels.
    for pair in drawn_points(trail).windows(2) {
        let [from, to] = [pair[0], pair[1]];
        mask.draw_fading_segment(trail[from], trail[to], pen, strength(from), strength(to));
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

/// A name next to a body.
#[derive(Debug, PartialEq)]
struct PlacedName<'a> {
    name: &'a str,
    /// Index of the body.
    body: usize,
    /// Left end of the baseline.
    start: [f64; 2],
    /// Line from the disc to the name. `None` for a name that touches the disc.
    line: Option<[[f64; 2]; 2]>,
}

/// Rectangle: left, top, right, bottom.
type Area = [f64; 4];

fn overlaps(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Returns squares along a line, with sides of twice `reach`.
fn areas_of_line([from, to]: [[f64; 2]; 2], reach: f64) -> Vec<Area> {
    /// The longest line has 5.2 text sizes, so squares of 0.4 text sizes leave no gap.
    const INTERVALS: u32 = 16;
    let area_at = |k| {
        let t = f64::from(k) / f64::from(INTERVALS);
        let [x, y] = [0, 1].map(|axis| from[axis] + t * (to[axis] - from[axis]));
        [x - reach, y - reach, x + reach, y + reach]
    };
    (0..=INTERVALS).map(area_at).collect()
}

/// Directions from a disc to its name, in the order of preference. The first four are also tried
/// next to the disc.
const DIRECTIONS: [[f64; 2]; 8] =
    [[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0], [0.0, 1.0], [0.8, -0.6], [-0.8, 0.6], [-0.8, -0.6], [0.8, 0.6]];

/// Places the names of the bodies where they cover no other disc, no other name with its line and
/// no text of the picture: next to the disc, or at two larger distances. Other names are left out.
fn place_names<'a>(
    image: &Image,
    present: &[(usize, [f64; 2])],
    names: &[&'a str],
    mut occupied: Vec<Area>,
) -> Vec<PlacedName<'a>> {
    let size = text_size(image);
    let (width, height) = (f64::from(image.width), f64::from(image.height));
    let small = 0.85 * size;
    let disc = |[x, y]: [f64; 2]| [x - 0.5 * size, y - 0.5 * size, x + 0.5 * size, y + 0.5 * size];
    let mut placed = Vec::new();
    for &(body, [x, y]) in present {
        let name = names.get(body).copied().unwrap_or_default();
        if name.is_empty() || !((0.0..width).contains(&x) && (0.0..height).contains(&y)) {
            continue;
        }
        let length = text_width(name, small);
        let near = DIRECTIONS[..4].iter().map(|&direction| (direction, 0.9 * size));
        let far = [3.5, 6.0].into_iter().flat_map(|d| DIRECTIONS.map(|direction| (direction, d * size)));
        let found = near.chain(far).find_map(|([right, down], distance)| {
            // The point of the text that is nearest to the disc.
            let [from_x, from_y] = [x + distance * right, y + distance * down];
            let left = from_x - 0.5 * (1.0 - right.signum() * f64::from(right != 0.0)) * length;
            let middle = from_y + if right == 0.0 { 0.6 * small * down } else { 0.0 };
            let start = [left, middle + 0.45 * small];
            let area = [
                left - 0.2 * size,
                start[1] - 1.3 * small,
                left + length + 0.2 * size,
                start[1] + 0.4 * small,
            ];
            let is_inside = area[0] >= 0.0 && area[1] >= 0.0 && area[2] <= width && area[3] <= height;
            let covers_disc = present.iter().any(|&(other, p)| other != body && overlaps(&area, &disc(p)));
            let is_free = is_inside && !covers_disc && !occupied.iter().any(|other| overlaps(&area, other));
            let is_far = distance > size;
            let line = is_far.then(|| {
                let step = distance - 0.3 * size;
                [[x + 0.5 * size * right, y + 0.5 * size * down], [x + step * right, y + step * down]]
            });
            let line_areas = line.map(|line| areas_of_line(line, 0.2 * size)).unwrap_or_default();
            let crosses = line_areas.iter().any(|part| occupied.iter().any(|other| overlaps(part, other)));
            (is_free && !crosses).then_some((PlacedName { name, body, start, line }, area, line_areas))
        });
        if let Some((name, area, line_areas)) = found {
            occupied.push(area);
            occupied.extend(line_areas);
            placed.push(name);
        }
    }
    placed
}

fn draw_name(image: &mut Image, name: &PlacedName<'_>) {
    let (size, colour) = (text_size(image), body_colour(name.body));
    if let Some([from, to]) = name.line {
        let mut mask = Mask::for_image(image.width, image.height);
        mask.draw_segment(from, to, (0.05 * size).max(0.5));
        image.paint_mask(&mask, colour, 0.6);
    }
    write_text(image, name.name, name.start, 0.85 * size, colour, Some(BACKGROUND), false);
}

/// Longest part of a trail that is drawn as a straight line, in pixels.
const MAX_CHORD: f64 = 5.0;
/// Largest distance of the trail from this line, in pixels. It cannot be seen.
const MAX_SAGITTA: f64 = 0.1;

/// Returns true if the line from the first to the last point is so short and so near to the trail
/// that the points between them need not be drawn. `reach` is the largest distance of these points
/// from the first one: a body that has turned back is nearer.
fn can_skip(part: &[[f64; 2]], reach: f64) -> bool {
    let [first, .., before_last, last] = part else { return false };
    let length = distance(*first, *last);
    let is_near = |p: &[f64; 2]| {
        let cross = (last[0] - first[0]) * (p[1] - first[1]) - (last[1] - first[1]) * (p[0] - first[0]);
        cross.abs() < MAX_SAGITTA * length.max(MAX_SAGITTA)
    };
    // The largest distance of a short part from the line is at its middle.
    length < MAX_CHORD
        && length >= reach - MAX_SAGITTA
        && is_near(&part[part.len() / 2])
        && is_near(before_last)
}

fn distance(p: [f64; 2], q: [f64; 2]) -> f64 {
    (p[0] - q[0]).hypot(p[1] - q[1])
}

/// Returns the indices of the points between which a trail is drawn.
fn drawn_points(trail: &[[f64; 2]]) -> Vec<usize> {
    let (mut drawn, mut last, mut reach) = (vec![0], 0, 0.0f64);
    for i in 1..trail.len() {
        reach = reach.max(distance(trail[last], trail[i]));
        // Points that are not finite are not skipped.
        if i + 1 == trail.len() || !can_skip(&trail[last..i + 2], reach) {
            drawn.push(i);
            (last, reach) = (i, 0.0);
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use orrery_model::Units;

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

    /// A trail through a point where a body turns round, and a circle with 4000 points, are drawn
    /// as with all points.
    #[test]
    fn points_are_skipped_where_a_trail_is_straight() {
        let circle = |k: u32| {
            let angle = std::f64::consts::TAU * f64::from(k) / 4000.0;
            [100.0 + 60.0 * angle.cos(), 100.0 + 60.0 * angle.sin()]
        };
        let turn = |k: u32| [20.0 + 0.05 * f64::from(1000u32.abs_diff(k)), 30.0 + 1e-4 * f64::from(k)];
        for (name, trail, fewer) in [
            ("circle", (0..=4000).map(circle).collect::<Vec<_>>(), 0.05),
            ("turn", (0..=2000).map(turn).collect(), 0.05),
            ("corner", vec![[10.0, 10.0], [13.0, 10.0], [13.0, 13.0], [13.0, 16.0]], 1.0),
        ] {
            let mut skipped = Image::filled(200, 200, BACKGROUND);
            draw_trail(&mut skipped, &trail, [255; 3]);
            let mut all = Image::filled(200, 200, BACKGROUND);
            let mut mask = Mask::for_image(200, 200);
            let steps = (trail.len() - 1) as f64;
            let strength = |index: usize| 0.12 + 0.88 * (index as f64 / steps).powi(2);
            for i in 1..trail.len() {
                let pen = (0.075 * text_size(&all)).max(0.6);
                mask.draw_fading_segment(trail[i - 1], trail[i], pen, strength(i - 1), strength(i));
            }
            all.paint_mask(&mask, [255; 3], 0.9);
            let largest = skipped.rgb.iter().zip(&all.rgb).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
            // A tenth of a pixel of 255 levels.
            assert!(largest <= 26, "{name}: {largest}");
            let drawn = drawn_points(&trail).len() as f64;
            assert!(drawn <= fewer * trail.len() as f64, "{name}: {drawn} segments");
        }
    }

    /// Distances in Oklab. A difference of 0.02 is just visible.
    #[test]
    fn colours_of_bodies_differ() {
        let point = |k: usize| {
            let [l, m, s] = lms_from_srgb(body_colour(k)).map(f64::cbrt);
            [
                0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
                1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
                0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
            ]
        };
        for (bodies, least) in [(9, 0.08), (16, 0.05)] {
            for (a, b) in (0..bodies).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let (p, q) = (point(a), point(b));
                let distance = (0..3).map(|k| (p[k] - q[k]).powi(2)).sum::<f64>().sqrt();
                assert!(distance > least, "{a}, {b}: {distance}");
            }
        }
    }

    /// Returns the cone responses of B. Ottosson, "A perceptual color space for image processing".
    fn lms_from_srgb(colour: [u8; 3]) -> [f64; 3] {
        let [r, g, b] = colour.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        [
            0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b,
            0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b,
            0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b,
        ]
    }

    /// The Sun and four planets within two text sizes, and planets near the edges and the labels.
    #[test]
    fn names_cover_neither_bodies_nor_texts() {
        let places = [
            [100.0, 100.0],
            [104.0, 98.0],
            [93.0, 100.0],
            [100.0, 110.0],
            [112.0, 104.0],
            [195.0, 100.0],
            [30.0, 16.0],
            [60.0, 190.0],
            [100.0, 3.0],
        ];
        let names = ["Sun", "Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"];
        let present: Vec<_> = places.into_iter().enumerate().collect();
        let image = Image::filled(200, 200, BACKGROUND);
        let labels = Labels { title: "planets".into(), time: "t = 75 yr".into(), units: Some(Units::Solar) };
        let texts = labels.text_areas(&image, &VIEW);
        assert_eq!(texts.len(), 3);
        let placed = place_names(&image, &present, &names, texts.clone());
        assert!(placed.len() >= 7, "{placed:?}");
        assert!(
            placed.iter().any(|name| name.line.is_some()) && placed.iter().any(|name| name.line.is_none())
        );
        let size = text_size(&image);
        let areas: Vec<Area> = placed
            .iter()
            .map(|PlacedName { name, start: [x, y], .. }| {
                [*x, y - 0.85 * size, x + text_width(name, 0.85 * size), *y]
            })
            .collect();
        for (k, area) in areas.iter().enumerate() {
            let name = placed[k].name;
            assert!(area[0] >= 0.0 && area[1] >= 0.0 && area[2] <= 200.0 && area[3] <= 200.0, "{name}");
            assert!(areas.iter().skip(k + 1).chain(&texts).all(|other| !overlaps(area, other)), "{name}");
            let disc = |[x, y]: [f64; 2]| [x - 3.0, y - 3.0, x + 3.0, y + 3.0];
            let mut discs = present.iter().filter(|(body, _)| *body != placed[k].body);
            assert!(discs.all(|(_, place)| !overlaps(area, &disc(*place))), "{name}");
            for other in placed.iter().filter(|other| other.name != name) {
                let Some([from, to]) = other.line else { continue };
                for step in 0..=200 {
                    let t = f64::from(step) / 200.0;
                    let [x, y] = [0, 1].map(|axis| from[axis] + t * (to[axis] - from[axis]));
                    assert!(!overlaps(area, &[x, y, x, y]), "the line of {} crosses {name}", other.name);
                }
            }
        }
    }

    /// Areas around a body leave no place next to it. One of them is on the way to a free place on
    /// the right.
    #[test]
    fn lines_cross_no_text() {
        let image = Image::filled(200, 200, BACKGROUND);
        let size = text_size(&image);
        let areas =
            [[1.5, -0.3, 1.7, 0.3], [-2.0, -0.5, -0.8, 0.5], [-0.5, -1.5, 0.5, -0.7], [-0.5, 0.7, 0.5, 1.5]];
        let occupied: Vec<Area> = areas.iter().map(|area| area.map(|c| 100.0 + c * size)).collect();
        let placed = place_names(&image, &[(0, [100.0; 2])], &["Venus"], occupied.clone());
        let line = placed[0].line.expect("a place next to the disc is free");
        assert!(line[1][0] > 101.0 && line[1][1] < 99.0, "not to the upper right: {line:?}");
        let parts = areas_of_line(line, 0.0);
        assert!(parts.iter().all(|part| occupied.iter().all(|area| !overlaps(part, area))), "{line:?}");
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
