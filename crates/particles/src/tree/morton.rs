//! Morton keys: the bits of three 21-bit coordinates, interleaved as x y z from the top.

use rayon::prelude::*;

use orrery_model::Vec3s;

/// Bits a coordinate; 63 in a key.
pub const BITS: u32 = 21;

/// The cube that the keys divide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cube {
    /// The corner of smallest coordinates.
    pub corner: [f64; 3],
    /// The side, above 0.
    pub side: f64,
}

impl Cube {
    /// The smallest cube around all of `positions`, which must be finite.
    pub fn around(positions: &Vec3s) -> Self {
        let extent = |column: &[f64]| {
            let (low, high) = column
                .par_iter()
                .fold(|| (f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)))
                .reduce(|| (f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)));
            (low, high - low)
        };
        let extents = [extent(&positions.x), extent(&positions.y), extent(&positions.z)];
        let side = extents.iter().fold(0.0, |side: f64, e| side.max(e.1));
        Self { corner: extents.map(|e| e.0), side: if side > 0.0 { side } else { 1.0 } }
    }

    /// The key of the finest cell that holds `position`.
    pub fn key(&self, position: [f64; 3]) -> u64 {
        let per_length = f64::from(1u32 << BITS) / self.side;
        let mut key = 0;
        for c in 0..3 {
            let cell = (position[c] - self.corner[c]) * per_length;
            // The far faces belong to the last cells.
            let cell = (cell.max(0.0) as u64).min((1 << BITS) - 1);
            key |= spread(cell) << (2 - c);
        }
        key
    }

    /// Centre and side of the cell that the first 3 × `level` bits of `key` name.
    pub fn cell(&self, key: u64, level: u32) -> ([f64; 3], f64) {
        let side = self.side * 0.5f64.powi(level as i32);
        let centre = std::array::from_fn(|c| {
            let cell = gather(key >> (2 - c)) >> (BITS - level);
            self.corner[c] + (cell as f64 + 0.5) * side
        });
        (centre, side)
    }
}

/// Which of the eight parts of a cell at `level` the key falls into.
pub fn digit(key: u64, level: u32) -> usize {
    (key >> (3 * (BITS - 1 - level)) & 7) as usize
}

/// Puts two zero bits before each bit of a 21-bit number.
fn spread(mut x: u64) -> u64 {
    x = (x | x << 32) & 0x001f_0000_0000_ffff;
    x = (x | x << 16) & 0x001f_0000_ff00_00ff;
    x = (x | x << 8) & 0x100f_00f0_0f00_f00f;
    x = (x | x << 4) & 0x10c3_0c30_c30c_30c3;
    (x | x << 2) & 0x1249_2492_4924_9249
}

/// Takes every third bit: the inverse of [`spread`].
fn gather(mut x: u64) -> u64 {
    x &= 0x1249_2492_4924_9249;
    x = (x | x >> 2) & 0x10c3_0c30_c30c_30c3;
    x = (x | x >> 4) & 0x100f_00f0_0f00_f00f;
    x = (x | x >> 8) & 0x001f_0000_ff00_00ff;
    x = (x | x >> 16) & 0x001f_0000_0000_ffff;
    (x | x >> 32) & 0x001f_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gather_inverts_spread(x in 0u64..1 << BITS) {
            prop_assert_eq!(gather(spread(x)), x);
            prop_assert_eq!(spread(x).count_ones(), x.count_ones());
        }

        /// The cell that a key names at any level holds the position (to rounding at its faces).
        #[test]
        fn a_cell_holds_its_position(x in prop::array::uniform3(-3.0f64..5.0), level in 0u32..=BITS) {
            let cube = Cube { corner: [-3.0; 3], side: 8.0 };
            let (centre, side) = cube.cell(cube.key(x), level);
            for c in 0..3 {
                prop_assert!((x[c] - centre[c]).abs() <= 0.5 * side * (1.0 + 1e-9));
            }
        }

        /// Two positions in one octant share the first digit, in different octants they differ there.
        #[test]
        fn the_first_digit_is_the_octant(a in prop::array::uniform3(0.0f64..1.0), b in prop::array::uniform3(0.0f64..1.0)) {
            let cube = Cube { corner: [0.0; 3], side: 1.0 };
            let octant = |x: [f64; 3]| x.map(|c| c >= 0.5);
            prop_assert_eq!(octant(a) == octant(b), digit(cube.key(a), 0) == digit(cube.key(b), 0));
        }
    }
}
