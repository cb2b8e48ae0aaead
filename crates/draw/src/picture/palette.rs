//! A fixed palette for animations. All frames share one set of colours, so that nothing flickers.
//!
//! Index 255 is reserved for pixels that did not change since the previous frame.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{ColourMap, FieldPicture, Image, Underlay};

/// Colours that all frames of a GIF share.
#[derive(Clone, Debug, PartialEq)]
pub struct Palette {
    colours: Vec<[u8; 3]>,
    /// Amplitude of the dither pattern in sRGB steps, about the distance of neighbouring colours.
    dither: f32,
    /// Whether pixels that have a colour of the palette keep it exactly, without dither. Areas of
    /// one colour are then even.
    keeps_own_colours: bool,
}

/// Index of an unchanged pixel.
pub(crate) const UNCHANGED: u8 = 255;
/// Number of greys for labels.
const GREYS: usize = 12;
/// Number of greys for texts and lines on white.
const FIELD_GREYS: usize = 18;
/// Steps of sRGB between neighbouring colours of a field that need no dither.
const VISIBLE_STEP: f32 = 5.0;
/// Number of colours without the index of unchanged pixels.
const USABLE: usize = UNCHANGED as usize;

impl Palette {
    /// Returns colours for pictures rendered with these maps. For two maps it contains their
    /// mixtures, too.
    pub fn from_colour_maps(maps: &[&ColourMap]) -> Self {
        let ramps: Vec<Box<dyn Fn(f32) -> [u8; 3] + '_>> = match maps {
            [a, b] => (0..=6)
                .map(|k| {
                    let fraction = k as f32 / 6.0;
                    Box::new(move |t: f32| {
                        let (a, b) = (a.linear_colour(t), b.linear_colour(t));
                        [0, 1, 2]
                            .map(|c| super::colour::encode_srgb((1.0 - fraction) * a[c] + fraction * b[c]))
                    }) as Box<dyn Fn(f32) -> [u8; 3]>
                })
                .collect(),
            maps => maps
                .iter()
                .map(|map| Box::new(|t| map.srgb_colour(t)) as Box<dyn Fn(f32) -> [u8; 3]>)
                .collect(),
        };
        Self::from_ramps(&ramps)
    }

    /// Returns colours for pictures of the orbits of `bodies` bodies.
    pub fn for_orbits(bodies: usize) -> Self {
        let colours: Vec<[u8; 3]> = (0..bodies).map(super::body_colour).collect();
        Self::from_colours(super::orbits::BACKGROUND, &colours)
    }

    /// Returns colours for drawings: shades of each colour over `background`.
    pub fn from_colours(background: [u8; 3], colours: &[[u8; 3]]) -> Self {
        let ramps: Vec<Box<dyn Fn(f32) -> [u8; 3]>> = colours
            .iter()
            .map(|&colour| {
                Box::new(move |t: f32| {
                    [0, 1, 2].map(|c| {
                        let (under, over) = (f32::from(background[c]), f32::from(colour[c]));
                        (under + (over - under) * t).round() as u8
                    })
                }) as Box<dyn Fn(f32) -> [u8; 3]>
            })
            .collect();
        Self::from_ramps(&ramps)
    }

    /// Returns colours for pictures of fields with this map.
    ///
    /// The map gets most of the palette. Neighbouring entries then differ by about one step of
    /// sRGB, so these pictures are not dithered, and equal areas compress well.
    pub fn for_field(map: &ColourMap) -> Self {
        let mut colours = field_inks(&super::field::MARK_COLOURS);
        let steps = USABLE - colours.len();
        colours.extend((0..steps).map(|k| map.srgb_colour(k as f32 / (steps - 1) as f32)));
        Self { colours, dither: 0.0, keeps_own_colours: false }
    }

    /// Returns colours for pictures of a field with underlay and point marks. Without these it is
    /// [`Palette::for_field`].
    ///
    /// An underlay of a few shades gets the colours of the map in each of them. One with many
    /// shades is dithered.
    pub fn for_picture(picture: &FieldPicture) -> Self {
        if picture.underlay.is_none() && picture.points.is_empty() {
            return Self::for_field(&picture.colours);
        }
        let shades = picture.underlay.as_ref().map_or(vec![0.0], Underlay::palette_shades);
        let mut colours = field_inks(&[super::field::MARK_COLOURS, super::field::POINT_COLOURS].concat());
        // An odd number, so that the middle of the map is exact. For waves it is the largest area.
        let steps = ((USABLE - colours.len()) / shades.len() - 1) | 1;
        let ramp: Vec<[u8; 3]> =
            (0..steps).map(|k| picture.colours.srgb_colour(k as f32 / (steps - 1) as f32)).collect();
        for shade in shades {
            colours.extend(ramp.iter().map(|&colour| super::field::shaded(colour, shade)));
        }
        let path: u32 = ramp.windows(2).map(|pair| u32::from(pair[0][1].abs_diff(pair[1][1]))).sum();
        let mean_step = path as f32 / (steps - 1) as f32;
        let dither = if mean_step > VISIBLE_STEP { mean_step } else { 0.0 };
        Self { colours, dither, keeps_own_colours: true }
    }

    /// Divides the palette equally among `ramps`, which give a colour for 0..=1.
    fn from_ramps(ramps: &[Box<dyn Fn(f32) -> [u8; 3] + '_>]) -> Self {
        let mut colours: Vec<[u8; 3]> = (0..GREYS).map(|k| [(255 * k / (GREYS - 1)) as u8; 3]).collect();
        let steps = ((USABLE - GREYS) / ramps.len().max(1)).max(2);
        for ramp in ramps {
            colours.extend((0..steps).map(|k| ramp(k as f32 / (steps - 1) as f32)));
        }
        colours.truncate(USABLE);
        Self { colours, dither: (255.0 / steps as f32).min(10.0), keeps_own_colours: false }
    }

    /// Returns all 256 entries in the layout of GIF.
    pub(crate) fn gif_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.colours.iter().flatten().copied().collect();
        bytes.resize(3 * 256, 0);
        bytes
    }

    fn nearest_index(&self, colour: [u8; 3]) -> u8 {
        let distance = |entry: &[u8; 3]| {
            // The eye is most sensitive to green and least to red.
            let d = |k: usize| i32::from(entry[k]) - i32::from(colour[k]);
            2 * d(0) * d(0) + 4 * d(1) * d(1) + 3 * d(2) * d(2)
        };
        (0..self.colours.len()).min_by_key(|&i| distance(&self.colours[i])).unwrap_or(0) as u8
    }
}

/// Returns the colours of everything but the field: greys, NaN, and shades of `inks` over white for
/// smooth lines.
fn field_inks(inks: &[[u8; 3]]) -> Vec<[u8; 3]> {
    let mut colours: Vec<[u8; 3]> =
        (0..FIELD_GREYS).map(|k| [(255 * k / (FIELD_GREYS - 1)) as u8; 3]).collect();
    colours.push(super::field::NAN_COLOUR);
    for ink in inks {
        colours.extend((1..=4).map(|k| ink.map(|c| (255 - (255 - u32::from(c)) * k / 4) as u8)));
    }
    colours
}

/// Finds the nearest palette entries and caches them. Several threads can share it.
pub struct PaletteMatcher {
    palette: Palette,
    /// Indices of colours that pixels keep exactly.
    kept: HashMap<[u8; 3], u8>,
    /// Dither pattern in sRGB steps: `shifts[y % 8][x % 8]`.
    shifts: [[f32; 8]; 8],
    /// Palette index for each colour with seven bits per channel. `UNCHANGED` marks colours not yet
    /// looked up. Two threads that look up the same colour store the same index.
    cache: Vec<AtomicU8>,
}

impl PaletteMatcher {
    pub(crate) fn new(palette: Palette) -> Self {
        let own = if palette.keeps_own_colours { palette.colours.as_slice() } else { &[] };
        let kept = own.iter().zip(0..).map(|(&colour, index)| (colour, index)).collect();
        let shifts = std::array::from_fn(|y| std::array::from_fn(|x| palette.dither * bayer_level(x, y)));
        let cache = (0..1 << 21).map(|_| AtomicU8::new(UNCHANGED)).collect();
        Self { palette, kept, shifts, cache }
    }

    /// Converts the image to palette indices, with a dither pattern that does not move between
    /// frames.
    pub fn dithered_indices(&self, image: &Image) -> Vec<u8> {
        let width = image.width as usize;
        let mut indices = Vec::with_capacity(width * image.height as usize);
        for (y, row) in image.rgb.as_chunks::<3>().0.chunks_exact(width.max(1)).enumerate() {
            let shifts = &self.shifts[y % 8];
            // Most pixels of an image of bodies have the colour of the sky. The same colour with
            // the same shift has the same index.
            let mut known = shifts.map(|shift| ([0; 3], self.index([0; 3], shift)));
            indices.extend(row.iter().enumerate().map(|(x, &pixel)| {
                let (colour, index) = &mut known[x % 8];
                if *colour != pixel {
                    (*colour, *index) = (pixel, self.index(pixel, shifts[x % 8]));
                }
                *index
            }));
        }
        indices
    }

    fn index(&self, pixel: [u8; 3], shift: f32) -> u8 {
        if !self.kept.is_empty()
            && let Some(&index) = self.kept.get(&pixel)
        {
            return index;
        }
        let colour = pixel.map(|c| (f32::from(c) + shift).clamp(0.0, 255.0) as u8);
        let key = colour.iter().fold(0, |key, &c| key << 7 | usize::from(c >> 1));
        match self.cache[key].load(Ordering::Relaxed) {
            UNCHANGED => {
                let index = self.palette.nearest_index(colour.map(|c| c & !1));
                self.cache[key].store(index, Ordering::Relaxed);
                index
            }
            index => index,
        }
    }
}

/// Returns the 8 x 8 ordered-dither pattern (Bayer 1973) at (x, y), in -1/2..1/2.
fn bayer_level(x: usize, y: usize) -> f32 {
    let level = (0..3).fold(0, |level, bit| {
        let (x, y) = (x >> bit & 1, y >> bit & 1);
        level << 2 | (x ^ y) << 1 | y
    });
    (level as f32 + 0.5) / 64.0 - 0.5
}

#[cfg(test)]
mod tests {
    use orrery_model::grid::{Boundaries, Boundary, Grid};

    use super::super::render_field;
    use super::*;
    use crate::picture::{PointKind, PointMark, ValueRange};

    #[test]
    fn dither_pattern_contains_each_level_once() {
        let mut levels: Vec<i32> =
            (0..64).map(|i| ((bayer_level(i % 8, i / 8) + 0.5) * 64.0) as i32).collect();
        levels.sort_unstable();
        assert_eq!(levels, (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn palettes_contain_the_colours_of_their_maps() {
        let (ember, blue, orange) = (ColourMap::ember(), ColourMap::blue(), ColourMap::orange());
        for maps in [vec![&ember], vec![&blue, &orange]] {
            let palette = Palette::from_colour_maps(&maps);
            assert!(palette.colours.len() <= USABLE);
            for map in maps {
                for k in 0..=100 {
                    let expected = map.srgb_colour(k as f32 / 100.0);
                    let got = palette.colours[usize::from(palette.nearest_index(expected))];
                    assert!((0..3).all(|c| expected[c].abs_diff(got[c]) <= 16), "{expected:?} {got:?}");
                }
            }
        }
        assert_eq!(Palette::from_colours([0; 3], &[[9; 3]; 400]).gif_bytes().len(), 768);
        assert!(Palette::for_orbits(9).colours.contains(&super::super::body_colour(8)));
        assert_eq!(Palette::from_colour_maps(&[]).gif_bytes().len(), 768);
    }

    /// Repeated and alternating colours have the index that each pixel has alone.
    #[test]
    fn indices_do_not_depend_on_neighbours() {
        let matcher = PaletteMatcher::new(Palette::for_orbits(4));
        let mut image = Image::filled(61, 19, super::super::body_colour(1));
        for (i, pixel) in image.rgb.chunks_exact_mut(3).enumerate() {
            if i % 3 == 0 || i % 17 < 5 {
                pixel.copy_from_slice(&[
                    (i % 251) as u8,
                    (i / 5 % 256) as u8,
                    if i % 2 == 0 { 0 } else { 90 },
                ]);
            }
        }
        let alone = |i: usize| {
            let (x, y) = (i % 61, i / 61);
            matcher.index(image.pixel(x as u32, y as u32), matcher.shifts[y % 8][x % 8])
        };
        assert_eq!(matcher.dithered_indices(&image), (0..61 * 19).map(alone).collect::<Vec<_>>());
    }

    /// Without dither a gradient has no noise: its colours follow the map, within the distance of
    /// neighbouring entries and the seven bits of the cache.
    #[test]
    fn fields_are_not_dithered() {
        for name in ColourMap::NAMES {
            let map = ColourMap::from_name(name).unwrap();
            let palette = Palette::for_field(&map);
            assert_eq!(palette.colours.len(), USABLE);
            let mut image = Image::filled(500, 8, [255; 3]);
            for (i, pixel) in image.rgb.chunks_exact_mut(3).enumerate() {
                pixel.copy_from_slice(&map.srgb_colour((i % 500) as f32 / 499.0));
            }
            let indices = PaletteMatcher::new(palette.clone()).dithered_indices(&image);
            assert!(indices.chunks_exact(500).all(|row| row == &indices[..500]), "{name}");
            for (&index, pixel) in indices.iter().zip(image.rgb.chunks_exact(3)) {
                let got = palette.colours[usize::from(index)];
                assert!((0..3).all(|c| got[c].abs_diff(pixel[c]) <= 4), "{name}: {got:?} {pixel:?}");
            }
        }
    }

    const GRID: Grid = Grid { nx: 33, ny: 17, hx: 1.0, hy: 1.0 };

    fn wave_picture(velocity: impl Fn(f64) -> f64) -> FieldPicture {
        let velocities: Vec<f64> = (0..GRID.len()).map(|i| velocity((i / GRID.nx) as f64)).collect();
        FieldPicture {
            colours: ColourMap::diverging(),
            underlay: Underlay::from_values(&velocities, "velocity", "m/s"),
            points: vec![PointMark { position: [16.0, 0.0], kind: PointKind::Source }],
            ..FieldPicture::new(GRID, Boundaries::uniform(Boundary::fixed(0.0)), (320, 240))
        }
    }

    /// Returns the picture of a field in the colours of its palette, and the exact picture.
    fn matched(picture: &FieldPicture, values: &[f64]) -> (Image, Image) {
        let palette = Palette::for_picture(picture);
        assert!(palette.colours.len() <= USABLE);
        let exact = render_field(values, picture, ValueRange { low: -1.0, high: 1.0 }, "").unwrap();
        let indices = PaletteMatcher::new(palette.clone()).dithered_indices(&exact);
        let rgb = indices.iter().flat_map(|&index| palette.colours[usize::from(index)]).collect();
        (Image { rgb, ..exact }, exact)
    }

    #[test]
    fn pictures_without_underlay_and_points_have_the_palette_of_fields() {
        let plain = FieldPicture { underlay: None, points: Vec::new(), ..wave_picture(|_| 1.0) };
        assert_eq!(Palette::for_picture(&plain), Palette::for_field(&plain.colours));
        // Points alone need their colours.
        let with_points = FieldPicture { points: wave_picture(|_| 1.0).points, ..plain };
        let palette = Palette::for_picture(&with_points);
        assert!(super::super::field::POINT_COLOURS.iter().all(|c| palette.colours.contains(c)));
    }

    /// A medium at rest has one colour per layer, and white around it.
    #[test]
    fn layers_at_rest_are_even() {
        let picture = wave_picture(|y| if y < 8.0 { 1500.0 } else { 2500.0 + 500.0 * (y / 12.0).floor() });
        let (got, exact) = matched(&picture, &vec![0.0; GRID.len()]);
        let rest = ColourMap::diverging().srgb_colour(0.5);
        for shade in [0.0, 170.0, 255.0] {
            let colour = super::super::field::shaded(rest, shade);
            let pixels = exact.rgb.chunks_exact(3).zip(got.rgb.chunks_exact(3));
            let matched: Vec<&[u8]> = pixels.filter(|(e, _)| *e == colour).map(|(_, g)| g).collect();
            assert!(matched.len() > 1000, "shade {shade}: {} pixels", matched.len());
            assert!(matched.iter().all(|g| *g == colour), "shade {shade}");
        }
        assert_eq!(got.pixel(0, 0), [255; 3]);
    }

    /// A gradient with waves is dithered. Means over 8 x 8 pixels, the period of the pattern, are
    /// within half a step of the palette, and most of them much closer.
    #[test]
    fn gradients_are_dithered() {
        let picture = wave_picture(|y| 1500.0 + 100.0 * y);
        let dither = Palette::for_picture(&picture).dither;
        assert!(dither > VISIBLE_STEP);
        let values: Vec<f64> = (0..GRID.len()).map(|i| 0.1 * (i % GRID.nx) as f64 / 32.0).collect();
        let (got, exact) = matched(&picture, &values);
        let mean = |image: &Image, x: u32, y: u32, c: usize| {
            (0..64).map(|k| f64::from(image.pixel(x + k % 8, y + k / 8)[c])).sum::<f64>() / 64.0
        };
        let mut errors: Vec<f64> = (0..20 * 12 * 3)
            .map(|k| (120 + 4 * (k / 3 % 20), 80 + 4 * (k / 60), k as usize % 3))
            .map(|(x, y, c)| (mean(&got, x, y, c) - mean(&exact, x, y, c)).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        let (median, largest) = (errors[errors.len() / 2], errors[errors.len() - 1]);
        assert!(largest < 0.5 * f64::from(dither), "{largest} of {dither}");
        assert!(median < 0.15 * f64::from(dither), "{median} of {dither}");
    }
}
