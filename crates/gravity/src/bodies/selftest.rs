//! Checks of the bins of pictures against their reference, for `orrery selftest` and the tests.
//! `team_selftest` checks shared forces.

use std::sync::Arc;

use orrery_device::Device;
use orrery_device::check::Check;
use orrery_model::Vec3s;
use orrery_model::analysis::{BinnedBodies, Bins, Projection};
use orrery_model::rng::Draws;

use super::bins::DeviceBinner;
use super::device::upload;
use super::team_selftest;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let mut checks = vec![Check { name: "bodies: bins of pictures".to_owned(), run: check_bins }];
    checks.extend(team_selftest::checks());
    checks
}

/// Returns bodies of two layers in a dense core and a halo. Some are outside of pictures, hidden or
/// not finite.
pub(super) fn cloud(count: u64) -> (Vec3s, Arc<BinnedBodies>) {
    let mut position = Vec3s::default();
    for i in 0..count {
        let mut draws = Draws::new(7, 0, i);
        let radius = if i.is_multiple_of(3) { 0.02 } else { 0.6 };
        position.push([(); 3].map(|()| radius * draws.normal()));
    }
    if count > 20 {
        position.x[4] = f64::NAN;
        position.y[11] = f64::INFINITY;
    }
    let mass: Vec<f64> = (0..count).map(|i| 0.25 + (i % 5) as f64).collect();
    let layer_of = |i: usize| (!i.is_multiple_of(7)).then_some((i % 2) as u8);
    (position, Arc::new(BinnedBodies::new(&mass, layer_of)))
}

/// Returns views from a tilted direction, with sizes from one pixel on.
pub(super) fn projections() -> Vec<Projection> {
    let tilted = |(width, height): (u32, u32)| Projection {
        centre: [0.01, -0.02, 0.3],
        right: [0.8, 0.6, 0.0],
        up: [-0.36, 0.48, 0.8],
        pixel_size: 2.0 / f64::from(width.max(height)),
        width,
        height,
    };
    [(640, 640), (101, 37), (1, 1), (3, 2), (64, 1)].map(tilted).to_vec()
}

fn check_bins(device: &Device) -> Result<(), String> {
    for count in [1, 64, 5000] {
        let (position, bodies) = cloud(count);
        let vectors = upload(device, &position).map_err(|error| error.to_string())?;
        for projection in projections() {
            let pending = DeviceBinner::new(device, &bodies, 2, &projection)
                .and_then(|binner| binner.queue_bins(&vectors, &projection))
                .map_err(|error| error.to_string())?;
            for layer in 0..2 {
                let expected = Bins::of_layer(&position, &bodies, layer as u8, &projection);
                if pending.of_layer(layer) != expected {
                    let Projection { width, height, .. } = projection;
                    return Err(format!(
                        "{count} bodies, {width} x {height} pixels: other bins than on the CPU"
                    ));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use orrery_device::testing::test_devices_with_f64;

    use super::*;

    #[test]
    fn every_device_passes_the_checks() {
        for device in test_devices_with_f64() {
            for check in checks() {
                assert_eq!((check.run)(&device), Ok(()), "{}: {}", device.label(), check.name);
            }
        }
    }

    /// The check above would pass with empty pictures.
    #[test]
    fn the_large_picture_is_not_empty() {
        let (position, bodies) = cloud(5000);
        for layer in 0..2 {
            let bins = Bins::of_layer(&position, &bodies, layer, &projections()[0]);
            let used = bins.levels.iter().filter(|level| level.iter().any(|&sum| sum > 0)).count();
            assert!(used >= 4, "{used} levels of the pyramid are used");
        }
    }
}
