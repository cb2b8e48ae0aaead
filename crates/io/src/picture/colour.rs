//! Perceptually uniform colour maps.
//!
//! The maps are paths in OKLCh, the cylindrical form of Oklab (B. Ottosson 2020). Lightness rises
//! linearly with the value, and hue varies. Chroma is reduced where sRGB cannot show it. Equal
//! steps of the value are then nearly equal steps of perceived lightness, also in greyscale print.
//!
//! Colours are mixed in linear light, like the light of two populations of stars.

/// Number of entries of a map, enough for 8-bit output without visible steps.
const ENTRIES: usize = 1024;

/// Colours for values 0..=1.
#[derive(Clone, Debug, PartialEq)]
pub struct ColourMap {
    linear: Vec<[f32; 3]>,
}

impl ColourMap {
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
        let entry = |k| {
            let t = k as f64 / (ENTRIES - 1) as f64;
            // Lightness starts above 0, because most screens do not show the darkest colours.
            linear_from_lch(0.09 + 0.895 * t, chroma(t), hue_degrees(t).to_radians())
        };
        Self { linear: (0..ENTRIES).map(entry).collect() }
    }

    /// Returns the colour of `t` in linear light. `t` is clamped to 0..=1, and NaN counts as 0.
    pub fn linear_colour(&self, t: f32) -> [f32; 3] {
        // `as` converts NaN to 0 and saturates.
        self.linear[((t.max(0.0) * (ENTRIES - 1) as f32 + 0.5) as usize).min(ENTRIES - 1)]
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
        for map in [ColourMap::ember(), ColourMap::blue(), ColourMap::orange(), ColourMap::green()] {
            let steps: Vec<f64> = (0..=50).map(|k| lightness(map.linear_colour(k as f32 / 50.0))).collect();
            // CIE and Oklab differ slightly for saturated colours, so steps vary but stay positive.
            assert!(steps.windows(2).all(|w| w[1] > w[0] + 0.2), "{steps:?}");
            assert!(steps[0] < 2.0 && steps[50] > 93.0, "{steps:?}");
        }
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
