//! A fixed palette for animations: one set of colours for all frames, so that nothing flickers.
//!
//! Index 255 is kept for "as in the frame before".

use super::{ColourMap, Image};

/// Colours a GIF's frames share.
#[derive(Clone, Debug, PartialEq)]
pub struct Palette {
    colours: Vec<[u8; 3]>,
    /// Height of the dither pattern in sRGB steps: about the distance of neighbouring colours.
    dither: f32,
}

/// The index that stands for an unchanged pixel.
pub(crate) const UNCHANGED: u8 = 255;
/// Greys for labels.
const GREYS: usize = 12;
const USABLE: usize = UNCHANGED as usize;

impl Palette {
    /// Colours for pictures rendered with these maps: each map's own, and for two maps their mixtures too.
    pub fn from_colour_maps(maps: &[&ColourMap]) -> Self {
        let ramps: Vec<Box<dyn Fn(f32) -> [u8; 3] + '_>> = match maps {
            [a, b] => (0..=6)
                .map(|k| {
                    let share = k as f32 / 6.0;
                    Box::new(move |t: f32| {
                        let (a, b) = (a.linear(t), b.linear(t));
                        [0, 1, 2].map(|c| super::colour::encode((1.0 - share) * a[c] + share * b[c]))
                    }) as Box<dyn Fn(f32) -> [u8; 3]>
                })
                .collect(),
            maps => maps.iter().map(|map| Box::new(|t| map.srgb(t)) as Box<dyn Fn(f32) -> [u8; 3]>).collect(),
        };
        Self::of_ramps(&ramps)
    }

    /// Colours for pictures of the orbits of so many bodies.
    pub fn for_orbits(bodies: usize) -> Self {
        let colours: Vec<[u8; 3]> = (0..bodies).map(super::body_colour).collect();
        Self::from_colours(super::orbits::BACKGROUND, &colours)
    }

    /// Colours for drawings: shades of each colour over `background`.
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
        Self::of_ramps(&ramps)
    }

    fn of_ramps(ramps: &[Box<dyn Fn(f32) -> [u8; 3] + '_>]) -> Self {
        let mut colours: Vec<[u8; 3]> = (0..GREYS).map(|k| [(255 * k / (GREYS - 1)) as u8; 3]).collect();
        let steps = ((USABLE - GREYS) / ramps.len().max(1)).max(2);
        for ramp in ramps {
            colours.extend((0..steps).map(|k| ramp(k as f32 / (steps - 1) as f32)));
        }
        colours.truncate(USABLE);
        Self { colours, dither: (255.0 / steps as f32).min(10.0) }
    }

    /// All 256 entries as GIF wants them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.colours.iter().flatten().copied().collect();
        bytes.resize(3 * 256, 0);
        bytes
    }

    fn nearest(&self, colour: [u8; 3]) -> u8 {
        let distance = |entry: &[u8; 3]| {
            // Green counts most and red least, as to the eye.
            let d = |k: usize| i32::from(entry[k]) - i32::from(colour[k]);
            2 * d(0) * d(0) + 4 * d(1) * d(1) + 3 * d(2) * d(2)
        };
        (0..self.colours.len()).min_by_key(|&i| distance(&self.colours[i])).unwrap_or(0) as u8
    }
}

/// Finds palette entries, remembering what it found.
pub(crate) struct Matcher {
    palette: Palette,
    /// By seven bits of each channel; `UNCHANGED` where not yet looked up.
    known: Vec<u8>,
}

impl Matcher {
    pub fn new(palette: Palette) -> Self {
        Self { palette, known: vec![UNCHANGED; 1 << 21] }
    }

    /// The image in the palette's colours, dithered by a pattern that stays in its place.
    pub fn indices(&mut self, image: &Image) -> Vec<u8> {
        let width = image.width as usize;
        let pixels = image.rgb.chunks_exact(3).enumerate();
        pixels
            .map(|(i, pixel)| {
                let shift = self.palette.dither * bayer(i % width, i / width);
                let colour = [0, 1, 2].map(|c| (f32::from(pixel[c]) + shift).clamp(0.0, 255.0) as u8);
                let key = colour.iter().fold(0, |key, &c| key << 7 | usize::from(c >> 1));
                if self.known[key] == UNCHANGED {
                    self.known[key] = self.palette.nearest(colour.map(|c| c & !1));
                }
                self.known[key]
            })
            .collect()
    }
}

/// The 8 x 8 ordered-dither pattern (Bayer 1973), centred on 0, in -1/2..1/2.
fn bayer(x: usize, y: usize) -> f32 {
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
    fn the_dither_pattern_holds_each_level_once() {
        let mut levels: Vec<i32> = (0..64).map(|i| ((bayer(i % 8, i / 8) + 0.5) * 64.0) as i32).collect();
        levels.sort_unstable();
        assert_eq!(levels, (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn palettes_hold_their_maps() {
        let (ember, blue, orange) = (ColourMap::ember(), ColourMap::blue(), ColourMap::orange());
        for maps in [vec![&ember], vec![&blue, &orange]] {
            let palette = Palette::from_colour_maps(&maps);
            assert!(palette.colours.len() <= USABLE);
            for map in maps {
                for k in 0..=100 {
                    let wanted = map.srgb(k as f32 / 100.0);
                    let got = palette.colours[usize::from(palette.nearest(wanted))];
                    assert!((0..3).all(|c| wanted[c].abs_diff(got[c]) <= 16), "{wanted:?} {got:?}");
                }
            }
        }
        assert_eq!(Palette::from_colours([0; 3], &[[9; 3]; 400]).bytes().len(), 768);
        assert!(Palette::for_orbits(9).colours.contains(&super::super::body_colour(8)));
        assert_eq!(Palette::from_colour_maps(&[]).bytes().len(), 768);
    }
}
