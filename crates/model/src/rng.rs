//! Random numbers as a function of (seed, stream, index): Philox4x32-10.
//!
//! A counter-based generator (Salmon, Moraes, Dror & Shaw, SC'11, "Parallel random numbers: as easy
//! as 1, 2, 3"). Ten rounds of a multiply-and-swap network turn a 128-bit counter and a 64-bit key
//! into 128 random bits. No state is carried from one number to the next. The numbers of body i
//! therefore do not depend on the number of bodies, on threads, or on the machine.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Returns the image of `counter` under the Philox bijection with `key`, after ten rounds.
pub fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product0 = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let product1 = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (product1 >> 32) as u32 ^ counter[1] ^ key[0],
            product1 as u32,
            (product0 >> 32) as u32 ^ counter[3] ^ key[1],
            product0 as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// Sequence of random numbers for one (seed, stream, index), of any length.
///
/// A stream separates uses, for example the bodies of the halo from those of the disc. The index is
/// usually the number of the body within that use.
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    stream: u32,
    index: u64,
    /// Number of Philox blocks (two f64 each) drawn so far.
    block: u32,
    spare: Option<f64>,
}

impl Draws {
    /// Starts the sequence of `index` in `stream` with `seed`.
    pub fn new(seed: u64, stream: u32, index: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], stream, index, block: 0, spare: None }
    }

    /// Draws a number that is uniform in the open interval (0, 1). It has 52 random bits and never
    /// equals 0 or 1.
    pub fn uniform(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let counter = [self.block, self.index as u32, (self.index >> 32) as u32, self.stream];
        let bits = philox4x32_10(counter, self.key);
        self.block += 1;
        let unit = |low: u32, high: u32| {
            let word = u64::from(high) << 32 | u64::from(low);
            ((word >> 12) as f64 + 0.5) * 2f64.powi(-52)
        };
        self.spare = Some(unit(bits[2], bits[3]));
        unit(bits[0], bits[1])
    }

    /// Draws a number that is uniform in (low, high).
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Draws a standard normal number (Box-Muller). The second number of each pair is discarded,
    /// for simplicity.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        libm::sqrt(-2.0 * libm::log(u)) * libm::cos(std::f64::consts::TAU * v)
    }

    /// Draws a direction that is uniform on the unit sphere.
    pub fn direction(&mut self) -> [f64; 3] {
        let z = self.uniform_in(-1.0, 1.0);
        let phi = self.uniform_in(0.0, std::f64::consts::TAU);
        let s = (1.0 - z * z).sqrt();
        [s * libm::cos(phi), s * libm::sin(phi), z]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published by the authors with Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn philox_gives_the_published_answers() {
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn mean_and_variance_are_correct() {
        let n = 100_000;
        let (mut sum, mut square, mut mean) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let mut draws = Draws::new(1, 2, i);
            mean += draws.uniform();
            let g = draws.normal();
            sum += g;
            square += g * g;
        }
        let n = n as f64;
        // Five standard errors each: 1/sqrt(12 n), 1/sqrt(n), sqrt(2/n).
        assert!((mean / n - 0.5).abs() < 5.0 / (12.0 * n).sqrt());
        assert!((sum / n).abs() < 5.0 / n.sqrt());
        assert!((square / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
    }

    #[test]
    fn seed_stream_and_index_each_change_the_numbers() {
        let first = |seed, stream, index| Draws::new(seed, stream, index).uniform();
        let base = first(1, 1, 1);
        assert_ne!(base, first(2, 1, 1));
        assert_ne!(base, first(1, 2, 1));
        assert_ne!(base, first(1, 1, 2));
        assert_ne!(base, first(1 << 32 | 1, 1, 1));
        assert_ne!(base, first(1, 1, 1 << 32 | 1));
    }
}
