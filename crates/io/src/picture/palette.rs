//! A fixed palette for animations. All frames share one set of colours, so that nothing flickers.
//!
//! Index 255 is reserved for pixels that did not change since the previous frame.

use super::{ColourMap, Image};

/// Colours that all frames of a GIF share.
#[derive(Clone, Debug, PartialEq)]
pub struct Palette {
    colours: Vec<[u8; 3]>,
    /// Amplitude of the dither pattern in sRGB steps, about the distance of neighbouring colours.
    dither: f32,
}

/// Index of an unchanged pixel.
pub(crate) const UNCHANGED: u8 = 255;
/// Number of greys for labels.
const GREYS: usize = 12;
/// Number of greys for texts and lines on white.
const FIELD_GREYS: usize = 18;
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
        let mut colours: Vec<[u8; 3]> =
            (0..FIELD_GREYS).map(|k| [(255 * k / (FIELD_GREYS - 1)) as u8; 3]).collect();
        colours.push(super::field::NAN_COLOUR);
        for mark in super::field::MARK_COLOURS {
            // Shades over white, for smooth lines.
            colours.extend((1..=4).map(|k| mark.map(|c| (255 - (255 - u32::from(c)) * k / 4) as u8)));
        }
        let steps = USABLE - colours.len();
        colours.extend((0..steps).map(|k| map.srgb_colour(k as f32 / (steps - 1) as f32)));
        Self { colours, dither: 0.0 }
    }

    /// Divides the palette equally among `ramps`, which give a colour for 0..=1.
    fn from_ramps(ramps: &[Box<dyn Fn(f32) -> [u8; 3] + '_>]) -> Self {
        let mut colours: Vec<[u8; 3]> = (0..GREYS).map(|k| [(255 * k / (GREYS - 1)) as u8; 3]).collect();
        let steps = ((USABLE - GREYS) / ramps.len().max(1)).max(2);
        for ramp in ramps {
            colours.extend((0..steps).map(|k| ramp(k as f32 / (steps - 1) as f32)));
        }
        colours.truncate(USABLE);
        Self { colours, dither: (255.0 / steps as f32).min(10.0) }
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

/// Finds the nearest palette entries and caches them.
pub(crate) struct Matcher {
    palette: Palette,
    /// Palette index for each colour with seven bits per channel. `UNCHANGED` marks colours not yet
    /// looked up.
    cache: Vec<u8>,
}

impl Matcher {
    pub fn new(palette: Palette) -> Self {
        Self { palette, cache: vec![UNCHANGED; 1 << 21] }
    }

    /// Converts the image to palette indices, with a dither pattern that does not move between
    /// frames.
    pub fn dithered_indices(&mut self, image: &Image) -> Vec<u8> {
        let width = image.width as usize;
        let pixels = image.rgb.chunks_exact(3).enumerate();
        pixels
            .map(|(i, pixel)| {
                let shift = self.palette.dither * bayer_level(i % width, i / width);
                let colour = [0, 1, 2].map(|c| (f32::from(pixel[c]) + shift).clamp(0.0, 255.0) as u8);
                let key = colour.iter().fold(0, |key, &c| key << 7 | usize::from(c >> 1));
                if self.cache[key] == UNCHANGED {
                    self.cache[key] = self.palette.nearest_index(colour.map(|c| c & !1));
                }
                self.cache[key]
            })
            .collect()
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
    use super::*;

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
            let indices = Matcher::new(palette.clone()).dithered_indices(&image);
            assert!(indices.chunks_exact(500).all(|row| row == &indices[..500]), "{name}");
            for (&index, pixel) in indices.iter().zip(image.rgb.chunks_exact(3)) {
                let got = palette.colours[usize::from(index)];
                assert!((0..3).all(|c| got[c].abs_diff(pixel[c]) <= 4), "{name}: {got:?} {pixel:?}");
            }
        }
    }
}
