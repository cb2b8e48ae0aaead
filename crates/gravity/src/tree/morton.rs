//! Morton keys: the bits of three 21-bit coordinates, interleaved as x y z from the most
//! significant bit.
//!
//! Keys that agree in their first 3 k bits are in the same cell of level k.

use rayon::prelude::*;

use orrery_model::Vec3s;
use orrery_model::analysis::max_or_nan;

/// Bits per coordinate. A key has three times as many, 63.
pub const COORDINATE_BITS: u32 = 21;

/// Cube around all bodies, which the keys divide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cube {
    /// Corner with the smallest coordinates.
    pub corner: [f64; 3],
    /// Side length, above 0.
    pub side: f64,
}

impl Default for Cube {
    /// Returns the cube of side 1 at the origin.
    fn default() -> Self {
        Self { corner: [0.0; 3], side: 1.0 }
    }
}

/// Bodies whose extent one thread finds at a time.
const EXTENT_CHUNK: usize = 2048;

/// Smallest and largest of no values.
const EMPTY_EXTENT: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

/// Returns the smallest and the largest of `values`. NaN is ignored.
fn extent(values: &[f64]) -> (f64, f64) {
    // Eight independent minima and maxima compile to SIMD. One of each would be a chain of
    // dependent instructions.
    let mut low = [EMPTY_EXTENT.0; 8];
    let mut high = [EMPTY_EXTENT.1; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for lane in 0..8 {
            low[lane] = if chunk[lane] < low[lane] { chunk[lane] } else { low[lane] };
            high[lane] = if chunk[lane] > high[lane] { chunk[lane] } else { high[lane] };
        }
    }
    let low = low.iter().chain(rest).copied().fold(f64::INFINITY, f64::min);
    let high = high.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

impl Cube {
    /// Returns the smallest cube around all `positions`, or one with side 1 if they coincide. All
    /// positions must be finite.
    pub fn around(positions: &Vec3s) -> Self {
        let Vec3s { x, y, z } = positions;
        let chunks =
            x.par_chunks(EXTENT_CHUNK).zip(y.par_chunks(EXTENT_CHUNK)).zip(z.par_chunks(EXTENT_CHUNK));
        let extents = chunks.map(|((x, y), z)| [x, y, z].map(extent));
        let [x, y, z] = extents.reduce(
            || [EMPTY_EXTENT; 3],
            |a, b| std::array::from_fn(|axis| (a[axis].0.min(b[axis].0), a[axis].1.max(b[axis].1))),
        );
        let side = [x, y, z].iter().map(|(low, high)| high - low).fold(0.0, max_or_nan);
        Self { corner: [x.0, y.0, z.0], side: if side > 0.0 { side } else { 1.0 } }
    }

    /// Returns the key of the finest cell that contains `position`.
    pub fn key(&self, position: [f64; 3]) -> u64 {
        let cells_per_length = f64::from(1u32 << COORDINATE_BITS) / self.side;
        let mut key = 0;
        for axis in 0..3 {
            let cell = (position[axis] - self.corner[axis]) * cells_per_length;
            // The far faces belong to the last cells.
            let cell = (cell.max(0.0) as u64).min((1 << COORDINATE_BITS) - 1);
            key |= spread_bits(cell) << (2 - axis);
        }
        key
    }

    /// Returns the centre and side of the cell given by the first 3 × `level` bits of `key`.
    pub fn cell_geometry(&self, key: u64, level: u32) -> ([f64; 3], f64) {
        let side = self.side * 0.5f64.powi(level as i32);
        let centre = std::array::from_fn(|axis| {
            let cell = gather_bits(key >> (2 - axis)) >> (COORDINATE_BITS - level);
            self.corner[axis] + (cell as f64 + 0.5) * side
        });
        (centre, side)
    }
}

/// Returns the octant, 0 to 7, of a cell at `level` that contains the key.
pub fn octant(key: u64, level: u32) -> usize {
    (key >> (3 * (COORDINATE_BITS - 1 - level)) & 7) as usize
}

/// Inserts two zero bits before each bit of a 21-bit number. For example, 0b11 becomes 0b1001.
fn spread_bits(mut x: u64) -> u64 {
    x = (x | x << 32) & 0x001f_0000_0000_ffff;
    x = (x | x << 16) & 0x001f_0000_ff00_00ff;
    x = (x | x << 8) & 0x100f_00f0_0f00_f00f;
    x = (x | x << 4) & 0x10c3_0c30_c30c_30c3;
    (x | x << 2) & 0x1249_2492_4924_9249
}

/// Collects every third bit. The inverse of [`spread_bits`].
fn gather_bits(mut x: u64) -> u64 {
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
        fn gather_bits_inverts_spread_bits(x in 0u64..1 << COORDINATE_BITS) {
            prop_assert_eq!(gather_bits(spread_bits(x)), x);
            prop_assert_eq!(spread_bits(x).count_ones(), x.count_ones());
        }

        /// At any level, the cell of a key contains the position, up to rounding at its faces.
        #[test]
        fn cell_of_a_key_contains_its_position(
            position in prop::array::uniform3(-3.0f64..5.0),
            level in 0u32..=COORDINATE_BITS,
        ) {
            let cube = Cube { corner: [-3.0; 3], side: 8.0 };
            let (centre, side) = cube.cell_geometry(cube.key(position), level);
            for axis in 0..3 {
                prop_assert!((position[axis] - centre[axis]).abs() <= 0.5 * side * (1.0 + 1e-9));
            }
        }

        /// Two positions have the same octant at level 0 exactly if they are on the same side of
        /// all three mid-planes.
        #[test]
        fn octants_separate_positions_at_the_mid_planes(a in prop::array::uniform3(0.0f64..1.0), b in prop::array::uniform3(0.0f64..1.0)) {
            let cube = Cube { corner: [0.0; 3], side: 1.0 };
            let sides = |x: [f64; 3]| x.map(|c| c >= 0.5);
            prop_assert_eq!(sides(a) == sides(b), octant(cube.key(a), 0) == octant(cube.key(b), 0));
        }
    }
}
