//! Conditions on the sides of a grid of waves.

use std::ops::RangeInclusive;

use super::{WaveGrid, WaveGridError};

/// A side of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Nodes with i = 0.
    XMin,
    /// Nodes with i = nx − 1.
    XMax,
    /// Nodes with j = 0.
    YMin,
    /// Nodes with j = ny − 1.
    YMax,
    /// Nodes with k = 0.
    ZMin,
    /// Nodes with k = nz − 1.
    ZMax,
}

impl Side {
    /// All sides in declaration order: `ALL[k] as usize == k`. The two sides of axis a are 2 a and
    /// 2 a + 1.
    pub const ALL: [Self; 6] = [Self::XMin, Self::XMax, Self::YMin, Self::YMax, Self::ZMin, Self::ZMax];

    /// Returns the name in case files and messages, for example "z_min".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::XMin => "x_min",
            Self::XMax => "x_max",
            Self::YMin => "y_min",
            Self::YMax => "y_max",
            Self::ZMin => "z_min",
            Self::ZMax => "z_max",
        }
    }

    /// Returns the axis that is normal to the side: 0 to 2 for x, y and z.
    pub const fn axis(self) -> usize {
        self as usize / 2
    }

    /// Returns true for the side with the largest coordinate.
    pub const fn is_max(self) -> bool {
        self as usize % 2 == 1
    }
}

/// A convolutional perfectly matched layer.
///
/// The damping grows from zero at its inner edge to d0 = −3 c ln(reflection)/(2 thickness h) at its
/// outer edge, with the square of the distance. c is the largest velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbsorbingLayer {
    /// Nodes of the layer, which are part of the grid.
    pub thickness: usize,
    /// Reflection coefficient of the continuous equation at normal incidence.
    pub reflection: f64,
    /// Largest frequency shift α, per time. It grows inwards. Zero is best up to 80 degrees of
    /// incidence. π times the dominant frequency reflects 10% less from 85 degrees on, and 50 times
    /// more at normal incidence.
    pub shift: f64,
}

/// Accepted numbers of nodes of a layer.
pub(super) const THICKNESSES: RangeInclusive<usize> = 1..=1000;

impl AbsorbingLayer {
    /// Returns a layer of `thickness` nodes. Its reflection coefficient is 1e-4 for 10 nodes and
    /// 1e-5 for 20: a thin layer with strong damping reflects at its inner edge.
    pub fn new(thickness: usize) -> Self {
        let exponent = (3.0 + thickness as f64 / 10.0).min(8.0);
        Self { thickness, reflection: libm::exp10(-exponent), shift: 0.0 }
    }
}

/// Condition on a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SideCondition {
    /// Waves leave the grid through an absorbing layer.
    Absorbing(AbsorbingLayer),
    /// u = 0 on the side, as the pressure on a free surface. Waves are reflected with the opposite
    /// sign.
    Free,
    /// ∂u/∂n = 0 on the side. Waves are reflected with the same sign.
    Rigid,
}

impl SideCondition {
    /// Returns the layer of an absorbing side.
    pub fn layer(&self) -> Option<&AbsorbingLayer> {
        match self {
            Self::Absorbing(layer) => Some(layer),
            Self::Free | Self::Rigid => None,
        }
    }

    /// Returns the factor of the image of a node beyond the side: −1 for a free surface, 1 for a
    /// rigid side. Beyond an absorbing side u is zero.
    pub fn image_sign(&self) -> Option<f64> {
        match self {
            Self::Absorbing(_) => None,
            Self::Free => Some(-1.0),
            Self::Rigid => Some(1.0),
        }
    }
}

/// Conditions on all sides. Those of z have no meaning in two dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sides {
    /// Condition at i = 0.
    pub x_min: SideCondition,
    /// Condition at i = nx − 1.
    pub x_max: SideCondition,
    /// Condition at j = 0.
    pub y_min: SideCondition,
    /// Condition at j = ny − 1.
    pub y_max: SideCondition,
    /// Condition at k = 0.
    pub z_min: SideCondition,
    /// Condition at k = nz − 1.
    pub z_max: SideCondition,
}

/// Nodes on each side of an axis that its layers need between them: the reach of the widest
/// stencil.
const NODES_INSIDE: usize = 4;

impl Sides {
    /// Returns the same condition on all sides.
    pub fn uniform(condition: SideCondition) -> Self {
        let [x_min, x_max, y_min, y_max, z_min, z_max] = [condition; 6];
        Self { x_min, x_max, y_min, y_max, z_min, z_max }
    }

    /// Returns the condition on a side.
    pub fn on(&self, side: Side) -> &SideCondition {
        match side {
            Side::XMin => &self.x_min,
            Side::XMax => &self.x_max,
            Side::YMin => &self.y_min,
            Side::YMax => &self.y_max,
            Side::ZMin => &self.z_min,
            Side::ZMax => &self.z_max,
        }
    }

    /// Returns the sides that a grid has: four in two dimensions, six in three.
    pub fn used(grid: &WaveGrid) -> &'static [Side] {
        &Side::ALL[..2 * grid.dimensions()]
    }

    /// Checks that layers have usable parameters and fit in the grid.
    pub fn validate(&self, grid: &WaveGrid) -> Result<(), WaveGridError> {
        for &side in Self::used(grid) {
            let Some(layer) = self.on(side).layer() else { continue };
            if !THICKNESSES.contains(&layer.thickness) {
                return Err(WaveGridError::Thickness { side, thickness: layer.thickness });
            }
            let parameter = |name, value: f64, is_accepted: bool, expected| match is_accepted {
                true => Ok(()),
                false => Err(WaveGridError::LayerParameter { side, name, value, expected }),
            };
            let is_between = layer.reflection > 0.0 && layer.reflection < 1.0;
            parameter("reflection", layer.reflection, is_between, "a number between 0 and 1")?;
            let is_shift = layer.shift >= 0.0 && layer.shift.is_finite();
            parameter("shift", layer.shift, is_shift, "a finite number of at least 0")?;
        }
        for axis in 0..grid.dimensions() {
            let thickness = |side: Side| self.on(side).layer().map_or(0, |layer| layer.thickness);
            let thicknesses = [2 * axis, 2 * axis + 1].map(|side| thickness(Side::ALL[side]));
            let nodes = grid.nodes[axis];
            let needed = thicknesses[0] + thicknesses[1] + 2 * NODES_INSIDE;
            if needed > nodes && thicknesses != [0, 0] {
                return Err(WaveGridError::LayersTooThick { axis, needed, nodes });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_know_their_axis() {
        for (k, side) in Side::ALL.into_iter().enumerate() {
            assert_eq!(side as usize, k);
            assert_eq!(&side.as_str()[..1], super::super::AXIS_NAMES[side.axis()]);
            assert_eq!(side.as_str().ends_with("max"), side.is_max());
        }
        assert_eq!(Sides::used(&WaveGrid::plane([9, 9], [1.0; 2])).len(), 4);
    }

    #[test]
    fn default_layers_get_weaker_reflections_with_thickness() {
        assert!((AbsorbingLayer::new(10).reflection - 1e-4).abs() < 1e-18);
        assert!((AbsorbingLayer::new(20).reflection - 1e-5).abs() < 1e-19);
    }

    #[test]
    fn bad_layers_are_refused_with_the_side() {
        let grid = WaveGrid::plane([40, 28], [1.0; 2]);
        let layer = AbsorbingLayer::new(10);
        let free = Sides::uniform(SideCondition::Free);
        let message = |layer| {
            let sides = Sides { y_max: SideCondition::Absorbing(layer), ..free };
            sides.validate(&grid).unwrap_err().to_string()
        };
        assert_eq!(
            message(AbsorbingLayer { thickness: 0, ..layer }),
            "the layer at y_max is 0 nodes thick, expected 1 to 1000"
        );
        assert_eq!(
            message(AbsorbingLayer { reflection: 1.0, ..layer }),
            "the layer at y_max has reflection = 1.0, expected a number between 0 and 1"
        );
        assert_eq!(
            message(AbsorbingLayer { shift: f64::NAN, ..layer }),
            "the layer at y_max has shift = NaN, expected a finite number of at least 0"
        );
        assert_eq!(
            message(AbsorbingLayer::new(21)),
            "the layers at y need 29 nodes with those between them, expected at most ny = 28"
        );
        let both = Sides::uniform(SideCondition::Absorbing(layer));
        assert_eq!(both.validate(&grid), Ok(()));
        assert_eq!(free.validate(&WaveGrid::plane([9, 9], [1.0; 2])), Ok(()));
    }
}
