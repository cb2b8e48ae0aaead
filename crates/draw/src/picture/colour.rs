//! Perceptually uniform colour maps.
//!
//! The maps are paths in OKLCh, the cylindrical form of Oklab (B. Ottosson 2020). Lightness rises
//! linearly with the value, and hue varies. Chroma is reduced where sRGB cannot show it. Equal
//! steps of the value are then nearly equal steps of perceived lightness, also in greyscale print.
//! In the diverging map lightness falls linearly from the middle to both ends.
//!
//! Colours are mixed in linear light, like the light of two populations of stars.

/// Number of entries of a map, enough for 8-bit output without visible steps.
const ENTRIES: usize = 1024;

/// Every eighth colour of inferno and viridis (S. van der Walt and N. Smith 2015, CC0), which are
/// uniform in CAM02-UCS. Interpolation gives the others within 2/255.
const INFERNO: [u32; 33] = [
    0x000004, 0x040312, 0x0b0724, 0x150b37, 0x210c4a, 0x2e0a5a, 0x3c0965, 0x4a0c6b, 0x57106d, 0x63146e,
    0x70196e, 0x7d1e6d, 0x89226a, 0x962766, 0xa32b61, 0xaf315c, 0xbb3755, 0xc63e4d, 0xd14644, 0xdb4f3b,
    0xe35932, 0xeb6528, 0xf1711e, 0xf67f14, 0xf98d0a, 0xfb9c06, 0xfcab0f, 0xfbba1f, 0xf9ca32, 0xf5d949,
    0xf2e865, 0xf3f586, 0xfcffa4,
];
const VIRIDIS: [u32; 33] = [
    0x440154, 0x470d60, 0x48186a, 0x482374, 0x472d7b, 0x453681, 0x424086, 0x3f4989, 0x3b528b, 0x375a8d,
    0x33638d, 0x2f6a8e, 0x2c728e, 0x297a8e, 0x26818e, 0x23898e, 0x21908c, 0x1f988b, 0x1f9f88, 0x21a685,
    0x28ae80, 0x31b57b, 0x3ebc74, 0x4cc26c, 0x5dc963, 0x6ece58, 0x82d34c, 0x96d83f, 0xabdc32, 0xc0df24,
    0xd5e21a, 0xeae51a, 0xfde725,
];

/// Colours for values 0..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct ColourMap {
    linear: Vec<[f32; 3]>,
}

impl ColourMap {
    /// Names of the maps for fields.
    pub const NAMES: [&str; 4] = ["inferno", "viridis", "grey", "diverging"];

    /// Names of the maps for surface densities. All are dark at 0, because that is the sky.
    pub const DENSITY_NAMES: [&str; 8] =
        ["ember", "inferno", "viridis", "grey", "blue", "orange", "green", "rose"];

    /// Returns the map with a name of [`ColourMap::NAMES`] or [`ColourMap::DENSITY_NAMES`].
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ember" => Self::ember(),
            "blue" => Self::blue(),
            "orange" => Self::orange(),
            "green" => Self::green(),
            "rose" => Self::rose(),
            "inferno" => Self::inferno(),
            "viridis" => Self::viridis(),
            "grey" => Self::grey(),
            "diverging" => Self::diverging(),
            _ => return None,
        })
    }

    /// Black through purple, red and orange to pale yellow.
    pub fn inferno() -> Self {
        Self::from_points(&INFERNO)
    }

    /// Violet through blue and green to yellow. It is the easiest to read for most kinds of colour
    /// vision.
    pub fn viridis() -> Self {
        Self::from_points(&VIRIDIS)
    }

    /// Black through violet, red and orange to pale yellow, similar to inferno of matplotlib.
    pub fn ember() -> Self {
        Self::from_path(|t| 285.0 + 175.0 * t, |t| 0.19 * chroma_profile(t, 0.5))
    }

    /// Black through blue to white, for young stars.
    pub fn blue() -> Self {
        Self::from_path(|t| 274.0 - 50.0 * t, |t| 0.155 * chroma_profile(t, 0.42))
    }

    /// Black through copper and orange to white, for old stars.
    pub fn orange() -> Self {
        Self::from_path(|t| 30.0 + 55.0 * t, |t| 0.165 * chroma_profile(t, 0.45))
    }

    /// Black through green to white, for a third group.
    pub fn green() -> Self {
        Self::from_path(|t| 165.0 - 20.0 * t, |t| 0.15 * chroma_profile(t, 0.45))
    }

    /// Black through purple and rose to white, for a fourth group.
    pub fn rose() -> Self {
        Self::from_path(|t| 320.0 + 40.0 * t, |t| 0.18 * chroma_profile(t, 0.45))
    }

    /// Black to white without hue.
    pub fn grey() -> Self {
        Self::from_path(|_| 0.0, |_| 0.0)
    }

    /// Blue through white to red, for fields with positive and negative values. White is at 1/2.
    pub fn diverging() -> Self {
        // Rounded in the middle, because a kink would look like a line at the value 1/2.
        let rounded = |x: f64| (x * x + 0.06 * 0.06).sqrt() - 0.06;
        let distance = |t: f64| rounded(2.0 * t - 1.0) / rounded(1.0);
        // All these colours are inside sRGB, so chroma has no kink where it would be reduced.
        Self::from_full_path(
            |t| 0.97 - 0.58 * distance(t),
            |t| if t < 0.5 { 262.0 } else { 28.0 },
            |t| 0.15 * distance(t) * (2.0 - distance(t)),
        )
    }

    /// Returns the map for group `k`: blue, orange, green, rose, and then blue again.
    pub fn for_group(k: usize) -> Self {
        match k % 4 {
            0 => Self::blue(),
            1 => Self::orange(),
            2 => Self::green(),
            _ => Self::rose(),
        }
    }

    fn from_path(hue_degrees: impl Fn(f64) -> f64, chroma: impl Fn(f64) -> f64) -> Self {
        // Lightness starts above 0, because most screens do not show the darkest colours.
        Self::from_full_path(|t| 0.09 + 0.895 * t, hue_degrees, chroma)
    }

    fn from_full_path(
        lightness: impl Fn(f64) -> f64,
        hue_degrees: impl Fn(f64) -> f64,
        chroma: impl Fn(f64) -> f64,
    ) -> Self {
        let entry = |k| {
            let t = k as f64 / (ENTRIES - 1) as f64;
            linear_from_lch(lightness(t), chroma(t), hue_degrees(t).to_radians())
        };
        Self { linear: (0..ENTRIES).map(entry).collect() }
    }

    /// Interpolates between equidistant sRGB colours, given as 0xrrggbb.
    fn from_points(points: &[u32]) -> Self {
        let entry = |k: usize| {
            let position = k as f64 / (ENTRIES - 1) as f64 * (points.len() - 1) as f64;
            let first = (position as usize).min(points.len() - 2);
            let fraction = position - first as f64;
            [16, 8, 0].map(|shift| {
                let byte = |point: u32| f64::from(point >> shift & 255);
                let (from, to) = (byte(points[first]), byte(points[first + 1]));
                decode_srgb((from + (to - from) * fraction) / 255.0) as f32
            })
        };
        Self { linear: (0..ENTRIES).map(entry).collect() }
    }

    /// Returns the colour of `t` in linear light. `t` is clamped to 0..=1, and NaN counts as 0.
    pub fn linear_colour(&self, t: f32) -> [f32; 3] {
        self.linear[Self::entry_of(t)]
    }

    /// Returns the index of the entry for `t`, in the order of [`ColourMap::srgb_table`].
    pub(crate) fn entry_of(t: f32) -> usize {
        // `as` converts NaN to 0 and saturates.
        ((t.max(0.0) * (ENTRIES - 1) as f32 + 0.5) as usize).min(ENTRIES - 1)
    }

    /// Returns all entries as sRGB bytes.
    pub(crate) fn srgb_table(&self) -> Vec<[u8; 3]> {
        self.linear.iter().map(|colour| colour.map(encode_srgb)).collect()
    }

    /// Returns the colour of `t` as sRGB bytes.
    pub fn srgb_colour(&self, t: f32) -> [u8; 3] {
        self.linear_colour(t).map(encode_srgb)
    }
}

/// Chroma profile: 0 at both ends and 1 at `peak`.
fn chroma_profile(t: f64, peak: f64) -> f64 {
    let s = if t < peak { t / peak } else { (1.0 - t) / (1.0 - peak) };
    // It rises fast, so that dim parts have a visible colour, too.
    (s * (2.0 - s)).max(0.0).powf(0.8)
}

/// Converts lightness, chroma and hue (radians) of Oklab to linear sRGB. Chroma is reduced to the
/// largest value that fits.
fn linear_from_lch(lightness: f64, chroma: f64, hue: f64) -> [f32; 3] {
    let fits = |c: f64| {
        linear_from_oklab(lightness, c * hue.cos(), c * hue.sin()).iter().all(|v| (0.0..=1.0).contains(v))
    };
    let (mut low, mut high) = (0.0, chroma);
    if fits(chroma) {
        low = chroma;
    } else {
        for _ in 0..24 {
            let middle = 0.5 * (low + high);
            if fits(middle) { low = middle } else { high = middle }
        }
    }
    linear_from_oklab(lightness, low * hue.cos(), low * hue.sin()).map(|v| v.clamp(0.0, 1.0) as f32)
}

/// Converts Oklab to linear sRGB, with the coefficients of its definition.
fn linear_from_oklab(lightness: f64, a: f64, b: f64) -> [f64; 3] {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ]
}

/// Converts linear light to a byte with the sRGB transfer curve.
pub(crate) fn encode_srgb(linear: f32) -> u8 {
    let v = linear.clamp(0.0, 1.0);
    let curve = if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
    (255.0 * curve).round() as u8
}

/// Converts a value of the sRGB transfer curve in 0..=1 to linear light.
fn decode_srgb(v: f64) -> f64 {
    if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
}

/// Returns a colour of given lightness, chroma and hue as sRGB bytes.
pub(crate) fn srgb_from_lch(lightness: f64, chroma: f64, hue_degrees: f64) -> [u8; 3] {
    linear_from_lch(lightness, chroma, hue_degrees.to_radians()).map(encode_srgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CIE lightness from relative luminance, an independent measure of perceived lightness.
    fn lightness(linear: [f32; 3]) -> f64 {
        let y = 0.2126 * f64::from(linear[0]) + 0.7152 * f64::from(linear[1]) + 0.0722 * f64::from(linear[2]);
        if y > 0.008_856 { 116.0 * y.cbrt() - 16.0 } else { 903.3 * y }
    }

    #[test]
    fn lightness_rises_along_each_map() {
        let dark = [ColourMap::ember(), ColourMap::blue(), ColourMap::orange(), ColourMap::green()];
        for map in dark.into_iter().chain([ColourMap::inferno(), ColourMap::grey()]) {
            let steps: Vec<f64> = (0..=50).map(|k| lightness(map.linear_colour(k as f32 / 50.0))).collect();
            // CIE and Oklab differ slightly for saturated colours, so steps vary but stay positive.
            assert!(steps.windows(2).all(|w| w[1] > w[0] + 0.2), "{steps:?}");
            assert!(steps[0] < 2.0 && steps[50] > 93.0, "{steps:?}");
        }
    }

    /// Colours of matplotlib 3.11 at 0, 85/255, 1/2 and 1.
    #[test]
    fn inferno_and_viridis_are_those_of_matplotlib() {
        let inferno = [[0, 0, 4], [120, 28, 109], [188, 55, 84], [252, 255, 164]];
        let viridis = [[68, 1, 84], [49, 104, 142], [33, 145, 140], [253, 231, 37]];
        for (map, expected) in [(ColourMap::inferno(), inferno), (ColourMap::viridis(), viridis)] {
            for (t, expected) in [0.0, 85.0 / 255.0, 0.5, 1.0].into_iter().zip(expected) {
                let got = map.srgb_colour(t);
                assert!((0..3).all(|c| got[c].abs_diff(expected[c]) <= 2), "{t}: {got:?} {expected:?}");
            }
        }
    }

    #[test]
    fn diverging_map_is_white_in_the_middle_and_equally_dark_at_the_ends() {
        let map = ColourMap::diverging();
        let steps: Vec<f64> = (0..=50).map(|k| lightness(map.linear_colour(k as f32 / 50.0))).collect();
        assert!(steps[..=25].windows(2).all(|w| w[1] > w[0]), "{steps:?}");
        assert!(steps[25..].windows(2).all(|w| w[1] < w[0]), "{steps:?}");
        assert!(steps[25] > 94.0 && (steps[0] - steps[50]).abs() < 5.0, "{steps:?}");
        let (low, middle, high) = (map.srgb_colour(0.0), map.srgb_colour(0.5), map.srgb_colour(1.0));
        assert!(low[2] > low[0] + 50 && high[0] > high[2] + 50, "{low:?} {high:?}");
        assert!(middle.iter().all(|&c| c > 235), "{middle:?}");
    }

    #[test]
    fn every_name_gives_another_map() {
        let maps: Vec<_> =
            ColourMap::NAMES.into_iter().map(|name| ColourMap::from_name(name).unwrap()).collect();
        for (k, map) in maps.iter().enumerate() {
            assert!(maps[..k].iter().all(|other| other != map), "{}", ColourMap::NAMES[k]);
        }
        for name in ColourMap::DENSITY_NAMES {
            let sky = ColourMap::from_name(name).unwrap().linear_colour(0.0);
            assert!(lightness(sky) < 16.0, "{name}");
        }
        assert_eq!(ColourMap::from_name("Inferno"), None);
    }

    #[test]
    fn oklab_gives_white_and_red() {
        assert!(linear_from_oklab(1.0, 0.0, 0.0).iter().all(|v| (v - 1.0).abs() < 1e-6));
        // Ottosson's value for sRGB red: L 0.62796, a 0.22486, b 0.12585.
        let red = linear_from_oklab(0.627_96, 0.224_86, 0.125_85);
        assert!((red[0] - 1.0).abs() < 1e-3 && red[1].abs() < 1e-3 && red[2].abs() < 1e-3, "{red:?}");
    }

    #[test]
    fn values_outside_the_range_are_clamped() {
        let map = ColourMap::ember();
        assert_eq!(map.linear_colour(f32::NAN), map.linear_colour(0.0));
        assert_eq!(map.linear_colour(-1.0), map.linear_colour(0.0));
        assert_eq!(map.linear_colour(f32::INFINITY), map.linear_colour(1.0));
    }
}
