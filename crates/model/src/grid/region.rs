//! Parts of a plate: rectangles and discs.

/// Shape of a region. Nodes on its boundary belong to it, also if rounding places them slightly
/// outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RegionShape {
    /// A rectangle with sides along x and y.
    Rectangle {
        /// South-west corner.
        corner: [f64; 2],
        /// Width and height.
        size: [f64; 2],
    },
    /// A disc.
    Disc {
        /// Centre.
        centre: [f64; 2],
        /// Radius.
        radius: f64,
    },
}

impl RegionShape {
    /// Returns true if the point is in the region.
    pub fn contains(&self, [x, y]: [f64; 2]) -> bool {
        /// Rounding errors of coordinates are far below this fraction of the size.
        const TOLERANCE: f64 = 1e-9;
        match *self {
            Self::Rectangle { corner, size } => {
                let is_within = |k: usize, value: f64| {
                    let (offset, tolerance) = (value - corner[k], TOLERANCE * size[k]);
                    (-tolerance..=size[k] + tolerance).contains(&offset)
                };
                is_within(0, x) && is_within(1, y)
            }
            Self::Disc { centre, radius } => {
                let (dx, dy) = (x - centre[0], y - centre[1]);
                dx * dx + dy * dy <= radius * radius * (1.0 + TOLERANCE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_contain_their_boundary_and_no_point_outside() {
        let rectangle = RegionShape::Rectangle { corner: [0.1, 0.2], size: [0.2, 0.1] };
        for inside in [[0.1, 0.2], [0.3, 0.3], [0.1 + 0.2, 0.2 + 0.1], [0.2, 0.25]] {
            assert!(rectangle.contains(inside), "{inside:?}");
        }
        for outside in [[0.0999, 0.25], [0.3001, 0.25], [0.2, 0.1999], [0.2, 0.3001]] {
            assert!(!rectangle.contains(outside), "{outside:?}");
        }
        let disc = RegionShape::Disc { centre: [0.5, 0.5], radius: 0.3 };
        assert!(disc.contains([0.8, 0.5]) && disc.contains([0.5, 0.5 - 0.3]));
        assert!(!disc.contains([0.8001, 0.5]) && !disc.contains([0.72, 0.72]));
    }
}
