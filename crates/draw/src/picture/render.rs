//! Conversion of surface densities to colours.
//!
//! Brightness follows the logarithm of the total density. Where layers overlap, their colours at
//! this brightness are mixed in linear light, weighted by mass. The picture is as bright as with
//! one layer, and the hue shows which layer the bodies belong to.

use super::colour::encode_srgb;
use super::density_bar::draw_density_bar;
use super::{ColourMap, Image, Labels, PictureError, Scale, SurfaceDensity, View};

/// A group of bodies and its colours.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// Surface density of the group.
    pub map: &'a SurfaceDensity,
    /// Colours of the group.
    pub colours: &'a ColourMap,
}

/// Draws the layers with one brightness scale, then the labels, and a colour bar if the labels have
/// units.
///
/// Layers of different sizes are an error. All layers have the same mass unit. Without any layer
/// the picture is black.
pub fn render_layers(
    layers: &[Layer<'_>],
    scale: Scale,
    view: &View,
    labels: &Labels,
) -> Result<Image, PictureError> {
    let (width, height) = (view.pixels.0.max(1), view.pixels.1.max(1));
    for layer in layers {
        let got = (layer.map.width, layer.map.height);
        if got != (width, height) {
            return Err(PictureError::SizeMismatch { what: "a layer", expected: (width, height), got });
        }
    }
    let mut image = Image::filled(width, height, [0; 3]);
    let bytes: Vec<u8> =
        (0..=CURVE_STEPS).map(|k| encode_srgb((k as f32 / CURVE_STEPS as f32).powi(2))).collect();
    let brightness = scale.brightness_function();
    let sky = layers.first().map_or([0; 3], |layer| layer.colours.srgb_colour(0.0));
    let density_unit = layers.first().map_or(1.0, |layer| layer.map.density_unit());
    let mut is_exceeded = false;
    for (i, pixel) in image.rgb.chunks_exact_mut(3).enumerate() {
        let total: f32 = layers.iter().map(|layer| layer.map.mass[i]).sum();
        let density = f64::from(total) * density_unit;
        is_exceeded |= density > scale.high;
        let t = brightness(density);
        if t == 0.0 {
            pixel.copy_from_slice(&sky);
            continue;
        }
        let mut light = [0.0f32; 3];
        for layer in layers {
            let fraction = layer.map.mass[i] / total;
            if fraction > 0.0 {
                let colour = layer.colours.linear_colour(t);
                (0..3).for_each(|k| light[k] += fraction * colour[k]);
            }
        }
        for (byte, v) in pixel.iter_mut().zip(light) {
            *byte = bytes[(v.clamp(0.0, 1.0).sqrt() * CURVE_STEPS as f32 + 0.5) as usize];
        }
    }
    let left_end = labels.draw_labels(&mut image, view);
    if let Some(units) = &labels.units {
        let maps: Vec<&ColourMap> = layers.iter().map(|layer| layer.colours).collect();
        draw_density_bar(&mut image, &maps, scale, units, left_end, is_exceeded);
    }
    Ok(image)
}

/// Steps of the tabulated sRGB curve. It is tabulated in the square root of light, where it is
/// nearly linear.
const CURVE_STEPS: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Orientation;

    fn map(mass: Vec<f32>) -> SurfaceDensity {
        SurfaceDensity { width: 2, height: 1, pixel_area: 1.0, mass_unit: 1.0, mass }
    }

    const VIEW: View =
        View { centre: [0.0; 3], half_width: 1.0, orientation: Orientation::XY, pixels: (2, 1) };

    #[test]
    fn overlap_mixes_hues_and_keeps_brightness() {
        let (a, b) = (map(vec![1.0, 0.5]), map(vec![0.0, 0.5]));
        let (blue, orange) = (ColourMap::blue(), ColourMap::orange());
        let layers = [Layer { map: &a, colours: &blue }, Layer { map: &b, colours: &orange }];
        let scale = Scale { low: 0.1, high: 10.0 };
        let image = render_layers(&layers, scale, &VIEW, &Labels::none()).unwrap();
        let mixed = [0, 1, 2]
            .map(|k| encode_srgb(0.5 * blue.linear_colour(0.5)[k] + 0.5 * orange.linear_colour(0.5)[k]));
        for (x, expected) in [(0, blue.srgb_colour(0.5)), (1, mixed)] {
            let got = image.pixel(x, 0);
            assert!((0..3).all(|k| got[k].abs_diff(expected[k]) <= 1), "{got:?} {expected:?}");
        }
    }

    #[test]
    fn layers_of_another_size_are_rejected() {
        let other = SurfaceDensity { width: 1, height: 2, ..map(vec![0.0; 2]) };
        let colours = ColourMap::ember();
        let layers = [Layer { map: &other, colours: &colours }];
        let error =
            render_layers(&layers, Scale { low: 0.1, high: 1.0 }, &VIEW, &Labels::none()).unwrap_err();
        assert_eq!(error.to_string(), "a layer has 1x2 pixels, expected 2x1");
    }
}
