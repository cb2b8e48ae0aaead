//! Velocities as functions of depth.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::WaveGrid;

/// A velocity that depends on depth alone. Depth is the coordinate of the last axis.
#[derive(Clone, Debug, PartialEq)]
pub enum VelocityModel {
    /// The same velocity everywhere.
    Constant {
        /// The velocity.
        velocity: f64,
    },
    /// Layers with constant velocity.
    Layered {
        /// The layers from the surface downwards. The first one starts at depth 0.
        layers: Vec<VelocityLayer>,
    },
    /// A velocity that changes linearly with depth.
    Gradient {
        /// Velocity at depth 0.
        at_surface: f64,
        /// Change of the velocity per depth.
        per_depth: f64,
    },
}

/// A layer of constant velocity, which ends where the next one starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VelocityLayer {
    /// Depth at which the layer starts. A node at this depth belongs to it.
    pub top: f64,
    /// Velocity of the layer.
    pub velocity: f64,
}

/// Accepted velocities. Their squares stay in the range of f32.
pub const VELOCITIES: RangeInclusive<f64> = 1e-15..=1e15;

/// Reason why a velocity model cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum VelocityError {
    /// There are no layers.
    #[error("the velocity has 0 layers, expected at least 1")]
    NoLayers,
    /// The first layer does not start at the surface.
    #[error("layer 1 of the velocity starts at depth {top:?}, expected 0")]
    FirstLayer {
        /// Depth found.
        top: f64,
    },
    /// A layer starts above the one before it, or at no finite depth.
    #[error("layer {} of the velocity starts at depth {top:?}, expected a finite depth below {above:?}", layer + 1)]
    LayerOrder {
        /// Index of the layer. Messages count from 1.
        layer: usize,
        /// Depth found.
        top: f64,
        /// Depth at which the layer before it starts.
        above: f64,
    },
    /// A velocity is not positive or has an unusable size.
    #[error(
        "the velocity is {velocity:?} at depth {depth:?}, expected a number from {:e} to {:e}",
        VELOCITIES.start(), VELOCITIES.end()
    )]
    Velocity {
        /// Velocity found.
        velocity: f64,
        /// Depth of that velocity.
        depth: f64,
    },
}

impl VelocityModel {
    /// Returns the velocity at a depth.
    pub fn at_depth(&self, depth: f64) -> f64 {
        match self {
            Self::Constant { velocity } => *velocity,
            Self::Gradient { at_surface, per_depth } => at_surface + per_depth * depth,
            Self::Layered { layers } => {
                // Rounding errors of a coordinate are far below this.
                let reached = depth + 1e-9 * depth.abs();
                let below = layers.partition_point(|layer| layer.top <= reached);
                layers[below.saturating_sub(1)].velocity
            }
        }
    }

    /// Returns the velocity of every node of `grid`.
    pub fn sample(&self, grid: &WaveGrid) -> Result<Vec<f64>, VelocityError> {
        self.validate(grid)?;
        let [nx, ny, nz] = grid.nodes;
        let axis = grid.depth_axis();
        let mut values = Vec::with_capacity(grid.len());
        for k in 0..nz {
            for j in 0..ny {
                let velocity = self.at_depth([0, j, k][axis] as f64 * grid.spacing[axis]);
                values.resize(values.len() + nx, velocity);
            }
        }
        Ok(values)
    }

    /// Checks the order of layers, and the velocities between the surface and the deepest node.
    pub fn validate(&self, grid: &WaveGrid) -> Result<(), VelocityError> {
        let check = |velocity: f64, depth: f64| match VELOCITIES.contains(&velocity) {
            true => Ok(()),
            false => Err(VelocityError::Velocity { velocity, depth }),
        };
        match self {
            Self::Constant { velocity } => check(*velocity, 0.0),
            Self::Gradient { .. } => {
                let deepest = grid.extent(grid.depth_axis());
                check(self.at_depth(0.0), 0.0)?;
                check(self.at_depth(deepest), deepest)
            }
            Self::Layered { layers } => {
                let Some(first) = layers.first() else { return Err(VelocityError::NoLayers) };
                if first.top != 0.0 {
                    return Err(VelocityError::FirstLayer { top: first.top });
                }
                for (number, pair) in layers.windows(2).enumerate() {
                    let (above, top) = (pair[0].top, pair[1].top);
                    if !(top > above && top.is_finite()) {
                        return Err(VelocityError::LayerOrder { layer: number + 1, top, above });
                    }
                }
                layers.iter().try_for_each(|layer| check(layer.velocity, layer.top))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layered(layers: &[(f64, f64)]) -> VelocityModel {
        let layer = |&(top, velocity)| VelocityLayer { top, velocity };
        VelocityModel::Layered { layers: layers.iter().map(layer).collect() }
    }

    #[test]
    fn velocities_follow_the_last_axis() {
        let volume = WaveGrid::volume([9, 10, 12], [1.0, 1.0, 0.1]);
        // Node 3 is at depth 3 × 0.1 = 0.30000000000000004, and node 7 at 0.7000000000000001.
        let field = layered(&[(0.0, 1.0), (0.3, 2.0), (0.7, 4.0)]).sample(&volume).unwrap();
        let expected = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0];
        for (index, velocity) in field.iter().enumerate() {
            assert_eq!(*velocity, expected[volume.node(index)[2]]);
        }
        let plane = WaveGrid::plane([9, 10], [1.0, 0.5]);
        let gradient = VelocityModel::Gradient { at_surface: 2.0, per_depth: 0.5 };
        let field = gradient.sample(&plane).unwrap();
        for (index, velocity) in field.iter().enumerate() {
            assert_eq!(*velocity, 2.0 + 0.25 * plane.node(index)[1] as f64);
        }
        let constant = VelocityModel::Constant { velocity: 3.0 };
        assert_eq!(constant.sample(&plane).unwrap(), vec![3.0; 90]);
    }

    #[test]
    fn bad_models_are_refused_with_the_value() {
        let grid = WaveGrid::plane([9, 11], [1.0, 0.5]);
        let message = |model: VelocityModel| model.sample(&grid).unwrap_err().to_string();
        assert_eq!(message(layered(&[])), "the velocity has 0 layers, expected at least 1");
        assert_eq!(
            message(layered(&[(1.0, 1.0)])),
            "layer 1 of the velocity starts at depth 1.0, expected 0"
        );
        for top in [2.0, 1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                message(layered(&[(0.0, 1.0), (2.0, 1.0), (top, 1.0)])),
                format!("layer 3 of the velocity starts at depth {top:?}, expected a finite depth below 2.0")
            );
        }
        for velocity in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                message(layered(&[(0.0, 1.0), (2.0, velocity)])),
                format!("the velocity is {velocity:?} at depth 2.0, expected a number from 1e-15 to 1e15")
            );
            assert!(VelocityModel::Constant { velocity }.validate(&grid).is_err());
        }
        assert_eq!(
            message(VelocityModel::Gradient { at_surface: 1.0, per_depth: -0.25 }),
            "the velocity is -0.25 at depth 5.0, expected a number from 1e-15 to 1e15"
        );
    }
}
