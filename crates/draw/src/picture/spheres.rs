//! Particles of a fluid as shaded spheres in their box.
//!
//! The projection is parallel. Each pixel shows the sphere that is nearest to the viewer, found
//! with a depth buffer, so the order of the spheres does not matter. Far spheres are darker.

use super::colour_bar::ColourBar;
use super::font::{text_width, write_text};
use super::overlay::{INK, RIM, text_size};
use super::stroke::Mask;
use super::{ColourMap, Image, Labels, View};

/// Background colour.
const BACKGROUND: [u8; 3] = super::orbits::BACKGROUND;
/// Colour of the edges of the box.
const EDGE: [u8; 3] = [150, 158, 180];
/// Direction to the light: right, up and towards the viewer. A unit vector.
const LIGHT: [f32; 3] = [-0.36, 0.48, 0.8];
/// Brightness of the parts that the light does not reach.
const AMBIENT: f32 = 0.35;
/// Largest part of the height of a picture that the legend of a colour map may take, with its
/// margin. Text has at least 7 pixels, so the legend would cover the box in pictures of fewer than
/// about 220 pixels.
const MAX_LEGEND_PART: f64 = 0.15;
/// Part of the brightness that the farthest sphere loses.
const DEPTH_FADE: f32 = 0.55;

/// A sphere of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sphere {
    /// Centre.
    pub centre: [f32; 3],
    /// Radius.
    pub radius: f32,
    /// Colour in full light.
    pub colour: [u8; 3],
}

/// Explanation of the colours of spheres.
#[derive(Clone, Debug)]
pub enum SphereLegend {
    /// One colour per name.
    Names(Vec<(String, [u8; 3])>),
    /// A colour map between two labelled ends.
    Bar {
        /// The colours.
        colours: ColourMap,
        /// Name of the quantity.
        quantity: String,
        /// Texts of the lowest and of the highest value.
        ends: [String; 2],
    },
}

/// Lowest and highest corner of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cuboid {
    /// Lowest coordinates.
    pub low: [f64; 3],
    /// Highest coordinates.
    pub high: [f64; 3],
}

impl Cuboid {
    /// Returns the corners. Bit k of the index selects the high side along axis k.
    pub fn corners(&self) -> [[f64; 3]; 8] {
        std::array::from_fn(|corner| {
            [0, 1, 2].map(|axis| if corner >> axis & 1 == 1 { self.high[axis] } else { self.low[axis] })
        })
    }
}

/// Draws spheres and the edges of their box, if there is one, then the labels and the legend.
pub fn render_spheres(
    spheres: &[Sphere],
    bounds: Option<&Cuboid>,
    view: &View,
    labels: &Labels,
    legend: &SphereLegend,
) -> Image {
    let (width, height) = (view.pixels.0.max(1), view.pixels.1.max(1));
    let mut image = Image::filled(width, height, BACKGROUND);
    let edges = bounds.map(|bounds| BoxEdges::new(bounds, view));
    if let Some(edges) = &edges {
        edges.draw(&mut image, true);
    }
    SphereBuffer::new(view, spheres).draw(&mut image, spheres);
    if let Some(edges) = &edges {
        edges.draw(&mut image, false);
    }
    let left_end = labels.draw_labels(&mut image, view);
    draw_legend(&mut image, legend, left_end);
    image
}

/// The nearest sphere of each pixel.
struct SphereBuffer {
    view: View,
    toward: [f64; 3],
    /// Largest and smallest depth of all centres. Larger is nearer.
    range: [f32; 2],
}

impl SphereBuffer {
    fn new(view: &View, spheres: &[Sphere]) -> Self {
        let toward = view.orientation.toward_viewer();
        let mut buffer = Self { view: *view, toward, range: [f32::INFINITY, f32::NEG_INFINITY] };
        for sphere in spheres {
            let depth = buffer.depth(sphere);
            buffer.range = [buffer.range[0].min(depth), buffer.range[1].max(depth)];
        }
        buffer
    }

    fn depth(&self, sphere: &Sphere) -> f32 {
        let offset = [0, 1, 2].map(|k| f64::from(sphere.centre[k]) - self.view.centre[k]);
        (0..3).map(|k| self.toward[k] * offset[k]).sum::<f64>() as f32
    }

    fn draw(&self, image: &mut Image, spheres: &[Sphere]) {
        let (width, height) = (image.width as i64, image.height as i64);
        let projection = self.view.projection();
        let pixel = self.view.pixel_size() as f32;
        let mut depths = vec![f32::NEG_INFINITY; (width * height) as usize];
        let span = (self.range[1] - self.range[0]).max(f32::MIN_POSITIVE);
        for sphere in spheres {
            let [x, y] = projection.pixel_position(sphere.centre.map(f64::from));
            let (x, y, depth) = (x as f32, y as f32, self.depth(sphere));
            let radius = sphere.radius / pixel;
            let fade = 1.0 - DEPTH_FADE * (self.range[1] - depth) / span;
            let columns = ((x - radius).round() as i64).max(0)..=((x + radius).round() as i64).min(width - 1);
            let rows = ((y - radius).round() as i64).max(0)..=((y + radius).round() as i64).min(height - 1);
            for row in rows {
                for column in columns.clone() {
                    // Unit vector of the surface at the centre of the pixel. A sphere that is
                    // smaller than a pixel shows its front.
                    let (dx, dy) = ((column as f32 + 0.5 - x) / radius, (row as f32 + 0.5 - y) / radius);
                    let distance2 = dx * dx + dy * dy;
                    let (right, up, front) = match distance2 <= 1.0 {
                        true => (dx, -dy, (1.0 - distance2).sqrt()),
                        false if radius < 1.0 => (0.0, 0.0, 1.0),
                        false => continue,
                    };
                    let at = (row * width + column) as usize;
                    let surface = depth + front * sphere.radius;
                    if surface > depths[at] {
                        depths[at] = surface;
                        let lit = (LIGHT[0] * right + LIGHT[1] * up + LIGHT[2] * front).max(0.0);
                        let light = fade * (AMBIENT + (1.0 - AMBIENT) * lit);
                        let colour = shaded(sphere.colour, light);
                        image.rgb[3 * at..3 * at + 3].copy_from_slice(&colour);
                    }
                }
            }
        }
    }
}

/// Mixes a colour with the background.
fn shaded(colour: [u8; 3], light: f32) -> [u8; 3] {
    [0, 1, 2].map(|k| {
        let (dark, full) = (f32::from(BACKGROUND[k]), f32::from(colour[k]));
        (dark + (full - dark) * light.clamp(0.0, 1.0)).round() as u8
    })
}

/// Projected edges of a box, those behind its inside and those in front.
struct BoxEdges {
    behind: Vec<[[f64; 2]; 2]>,
    front: Vec<[[f64; 2]; 2]>,
}

impl BoxEdges {
    fn new(bounds: &Cuboid, view: &View) -> Self {
        let corners = bounds.corners();
        let toward = view.orientation.toward_viewer();
        let depth = |corner: usize| (0..3).map(|k| toward[k] * corners[corner][k]).sum::<f64>();
        let farthest = (0..8).min_by(|&a, &b| depth(a).total_cmp(&depth(b))).unwrap_or(0);
        let mut edges = Self { behind: Vec::new(), front: Vec::new() };
        for corner in 0..8usize {
            for axis in 0..3 {
                let other = corner | 1 << axis;
                if other == corner {
                    continue;
                }
                let ends = [corner, other].map(|k| view.project(corners[k]));
                // The three edges at the farthest corner are behind the particles.
                match corner == farthest || other == farthest {
                    true => edges.behind.push(ends),
                    false => edges.front.push(ends),
                }
            }
        }
        edges
    }

    fn draw(&self, image: &mut Image, is_behind: bool) {
        let (edges, opacity) = if is_behind { (&self.behind, 0.45) } else { (&self.front, 0.8) };
        let mut mask = Mask::for_image(image.width, image.height);
        let radius = (0.05 * text_size(image)).max(0.5);
        edges.iter().for_each(|&[p, q]| mask.draw_segment(p, q, radius));
        image.paint_mask(&mask, EDGE, opacity);
    }
}

/// Draws the legend at the bottom right. `left_end` is the right end of everything else at the
/// bottom, in pixels.
fn draw_legend(image: &mut Image, legend: &SphereLegend, left_end: f64) {
    let size = text_size(image);
    let margin = 2.0 * size;
    let (right, baseline) = (f64::from(image.width) - margin, f64::from(image.height) - margin);
    let write = |image: &mut Image, text: &str, x: f64, y: f64, colour: [u8; 3]| {
        write_text(image, text, [x, y], size, colour, Some(RIM), false);
    };
    match legend {
        // One colour needs no explanation.
        SphereLegend::Names(names) if names.len() < 2 => {}
        SphereLegend::Names(names) => {
            let mut x = right;
            for (name, colour) in names.iter().rev() {
                x -= text_width(name, size);
                write(image, name, x, baseline, *colour);
                x -= 1.5 * size;
            }
        }
        SphereLegend::Bar { colours, quantity, ends: [low, high] } => {
            let length = 12.0 * size;
            let bar_right = right - text_width(high, size) - 0.6 * size;
            let low_left = bar_right - length - 0.6 * size - text_width(low, size);
            // Next to the bar, because the box of the particles can be above it.
            let quantity_left = low_left - size - text_width(quantity, size);
            let is_in_one_row = quantity_left > left_end + 1.5 * size;
            let legend_height = margin + size + if is_in_one_row { 0.0 } else { 1.7 * size };
            if legend_height > MAX_LEGEND_PART * f64::from(image.height) {
                return;
            }
            write(image, high, right - text_width(high, size), baseline, INK);
            write(image, low, low_left, baseline, INK);
            match is_in_one_row {
                true => write(image, quantity, quantity_left, baseline, INK),
                false => {
                    let middle = bar_right - 0.5 * (length + text_width(quantity, size));
                    write(image, quantity, middle, baseline - 1.7 * size, INK);
                }
            }
            let area = [bar_right - length, baseline - size, bar_right, baseline].map(|x| x as i64);
            let line = (0.08 * size).round().max(1.0) as i64;
            ColourBar { area, is_horizontal: true, line, ink: INK }.draw(image, &[colours]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Orientation;

    const VIEW: View =
        View { centre: [0.0; 3], half_width: 10.0, orientation: Orientation::XY, pixels: (101, 101) };
    const RED: [u8; 3] = [250, 40, 30];
    const BLUE: [u8; 3] = [30, 40, 250];

    fn render(spheres: &[Sphere], view: &View) -> Image {
        render_spheres(spheres, None, view, &Labels::none(), &SphereLegend::Names(Vec::new()))
    }

    fn is_mostly(colour: [u8; 3], channel: usize) -> bool {
        (0..3).all(|k| k == channel || colour[k] < colour[channel] / 2)
    }

    /// The order of the spheres does not matter.
    #[test]
    fn the_nearest_sphere_is_seen() {
        let near = Sphere { centre: [0.0, 0.0, 3.0], radius: 2.0, colour: RED };
        let far = Sphere { centre: [1.0, 0.0, -3.0], radius: 4.0, colour: BLUE };
        let image = render(&[near, far], &VIEW);
        assert_eq!(image, render(&[far, near], &VIEW));
        assert!(is_mostly(image.pixel(50, 50), 0), "{:?}", image.pixel(50, 50));
        // 3 units to the right is beyond the near sphere.
        assert!(is_mostly(image.pixel(65, 50), 2), "{:?}", image.pixel(65, 50));
        assert_eq!(image.pixel(90, 50), BACKGROUND);
    }

    /// The view from -y sees the sphere with the lower y in front.
    #[test]
    fn depth_is_along_the_direction_of_view() {
        let spheres = [
            Sphere { centre: [0.0, -3.0, 0.0], radius: 2.0, colour: RED },
            Sphere { centre: [0.0, 3.0, 0.0], radius: 2.0, colour: BLUE },
        ];
        let image = render(&spheres, &View { orientation: Orientation::XZ, ..VIEW });
        assert!(is_mostly(image.pixel(50, 50), 0));
    }

    #[test]
    fn spheres_smaller_than_a_pixel_are_drawn() {
        let dust = Sphere { centre: [2.0, 2.0, 0.0], radius: 0.01, colour: RED };
        let image = render(&[dust], &VIEW);
        let lit = image.rgb.chunks_exact(3).filter(|pixel| **pixel != BACKGROUND).count();
        assert!((1..=4).contains(&lit), "{lit}");
    }

    #[test]
    fn the_box_has_twelve_edges_of_which_three_are_behind() {
        let bounds = Cuboid { low: [-5.0; 3], high: [5.0; 3] };
        let view = View { orientation: Orientation::from_angles(-1.0, 0.4), ..VIEW };
        let edges = BoxEdges::new(&bounds, &view);
        assert_eq!((edges.behind.len(), edges.front.len()), (3, 9));
        let legend = SphereLegend::Bar {
            colours: ColourMap::viridis(),
            quantity: "speed".into(),
            ends: ["0".into(), "2".into()],
        };
        let image = render_spheres(&[], Some(&bounds), &view, &Labels::none(), &legend);
        assert!(image.rgb.chunks_exact(3).filter(|pixel| **pixel != BACKGROUND).count() > 300);
    }

    /// The lower edge of a box in a plane is just above the legend, over the whole width.
    #[test]
    fn the_legend_does_not_cover_the_box() {
        let bounds = Cuboid { low: [-5.0, -5.0, 0.0], high: [5.0, 5.0, 0.0] };
        let legend = SphereLegend::Bar {
            colours: ColourMap::viridis(),
            quantity: "neighbours".into(),
            ends: ["0".into(), "14".into()],
        };
        for pixels in [320, 640, 1280] {
            let corners = bounds.corners().into_iter();
            let view = View::enclosing_points(corners, Orientation::XY, (pixels, pixels));
            let labels = Labels { units: Some(orrery_model::Units::LennardJones), ..Labels::none() };
            let render = |legend: &SphereLegend| render_spheres(&[], Some(&bounds), &view, &labels, legend);
            let (with, without) = (render(&legend), render(&SphereLegend::Names(Vec::new())));
            let changed = (0..pixels * pixels).filter(|&i| {
                let (x, y) = (i % pixels, i / pixels);
                with.pixel(x, y) != without.pixel(x, y)
            });
            let top = changed.map(|i| i / pixels).min().expect("a legend");
            let edge = (0..pixels).rev().find(|&y| without.pixel(pixels / 2, y) != BACKGROUND);
            assert!(top > edge.expect("a box") + 1, "{pixels}: {top}, {edge:?}");
        }
    }

    #[test]
    fn small_pictures_have_no_legend() {
        let legend = SphereLegend::Bar {
            colours: ColourMap::viridis(),
            quantity: "neighbours".into(),
            ends: ["0".into(), "14".into()],
        };
        for (pixels, has_legend) in [(96, false), (160, false), (320, true)] {
            let mut image = Image::filled(pixels, pixels, BACKGROUND);
            let empty = image.clone();
            draw_legend(&mut image, &legend, 0.0);
            assert_eq!(image != empty, has_legend, "{pixels}");
        }
    }
}
