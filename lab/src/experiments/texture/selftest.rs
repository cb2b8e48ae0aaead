//! Checks of the samples on one device, for `orrery selftest` and the tests. Nearest samples must
//! have the bits of the reference, and interpolated ones must be within their error bounds.

use orrery_device::Device;
use orrery_device::check::Check;

use super::{Gather, GatherMethod, Raster, TABLE_SIDE, TextureImage, TextureRung};
use crate::ladder::{CheckedRung, LadderRung};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: texture {name}"), run };
    vec![
        check("samples from global memory", |device| {
            check_some(device, |method| !method.reads_table() && !method.uses_texture())
        }),
        check("samples from textures", |device| check_some(device, GatherMethod::uses_texture)),
        check("samples from tables", |device| check_some(device, GatherMethod::reads_table)),
    ]
}

/// Widths and heights: one texel, one row, one column, around a block of 32 x 8, several blocks.
const SIZES: [(usize, usize); 7] = [(1, 1), (40, 1), (1, 19), (31, 9), (32, 8), (33, 7), (150, 101)];
/// Angles in degrees. At a quarter turn a row of pixels reads a column of the image.
const ANGLES: [f64; 5] = [0.0, 30.0, 45.0, 90.0, 200.0];

/// Checks the rungs of some methods.
fn check_some(device: &Device, is_checked: impl Fn(GatherMethod) -> bool) -> Result<(), String> {
    for rung in TextureRung::all(device).into_iter().filter(|rung| is_checked(rung.method)) {
        rung.check(device).map_err(|error| format!("{}: {error}", rung.name))?;
    }
    Ok(())
}

/// Compares the samples of a method with the reference.
pub fn check_method(device: &Device, method: GatherMethod) -> Result<(), String> {
    for (width, height) in SIZES {
        let image = match method.reads_table() {
            true => TextureImage::random(TABLE_SIDE, TABLE_SIDE),
            false => TextureImage::random(width, height),
        };
        let gather = Gather::new(device, method, &image).map_err(|error| error.to_string())?;
        for degrees in ANGLES {
            compare(device, &gather, &image, &Raster::new(width, height, degrees))
                .map_err(|error| format!("{width} x {height}, {degrees} degrees: {error}"))?;
        }
    }
    Ok(())
}

fn compare(device: &Device, gather: &Gather, image: &TextureImage, raster: &Raster) -> Result<(), String> {
    let run = || {
        let out = device.upload(&vec![f32::NAN; raster.width * raster.height])?;
        gather.launch(device.queue(), raster, &out)?;
        out.to_vec()
    };
    let limit = gather.method().error_bound();
    for (pixel, found) in run().map_err(|error| error.to_string())?.into_iter().enumerate() {
        let (column, row) = (pixel % raster.width, pixel / raster.width);
        let expected = gather.method().reference_at(raster, image, column, row);
        let error = (f64::from(found) - expected).abs();
        if error.is_nan() || error > limit {
            return Err(format!(
                "column {column}, row {row}: got {found}, expected {expected} with an error of at most {limit:.1e}"
            ));
        }
    }
    Ok(())
}
