//! Gravity with Plummer softening:  a = m d / ρ³,  φ = −m / ρ,  ρ² = |d|² + eps²,  d = x_source − x_target
//! (the caller multiplies by G).
//!
//! 1/ρ³ is computed from an estimate y of 1/ρ. With e = 1 − ρ² y², a small number known to full precision,
//!
//!   1/ρ³ = y³ (1 − e)^(−3/2) = y³ (1 + 3/2 e + 15/8 e² + 35/16 e³ + …)
//!   1/ρ  = y  (1 − e)^(−1/2) = y  (1 + 1/2 e +  3/8 e² +  5/16 e³ + …)
//!
//! cut where the next term is below the type's rounding. That corrects the cube in one go, which is
//! cheaper than refining y and cubing it.

use crate::simd::{Real, Vector};

/// ρ² from a difference of positions.
#[inline(always)]
pub fn softened_square<V: Vector>(d: [V; 3], eps2: V) -> V {
    d[2].mul_add(d[2], d[1].mul_add(d[1], d[0].mul_add(d[0], eps2)))
}

/// The series' coefficients after the leading 1, by Horner's rule: p e with 1 + p e the correction.
#[inline(always)]
fn series<V: Vector>(e: V, coefficients: [f64; 3]) -> V {
    let [c0, c1, c2] = coefficients;
    let c = [
        V::splat(V::Scalar::from_f64(c0)),
        V::splat(V::Scalar::from_f64(c1)),
        V::splat(V::Scalar::from_f64(c2)),
    ];
    match V::RSQRT_TERMS {
        1 => c[0],
        2 => e.mul_add(c[1], c[0]),
        _ => e.mul_add(e.mul_add(c[2], c[1]), c[0]),
    }
}

/// m / ρ³ over [`force_factor`], for an estimate y of 1/ρ.
#[inline(always)]
pub fn force_weight<V: Vector>(m: V, rho2: V, y: V) -> V {
    let y2 = y.mul(y);
    let cube = m.mul(y).mul(y2);
    match V::RSQRT_TERMS {
        0 => cube,
        // 1 + 3/2 e = 3/2 (5/3 − ρ² y²): one operation less a pair, the factor 3/2 once a sum.
        1 => cube.mul(rho2.neg_mul_add(y2, V::splat(V::Scalar::from_f64(5.0 / 3.0)))),
        _ => {
            let e = rho2.neg_mul_add(y2, V::splat(V::Scalar::from_f64(1.0)));
            cube.mul(e).mul_add(series(e, [1.5, 1.875, 2.1875]), cube)
        }
    }
}

/// What a sum of [`force_weight`]s is to be multiplied by, in f64.
///
/// With one term, 5/3 is rounded in f32, and the series drops 15/8 e², which is never negative: both would make every
/// force too weak by a little, 6e-8 and 2.9e-9, and a sum of many pairs would keep that. So the factor undoes
/// the rounding exactly and the dropped term on average (over all significands of vrsqrt14ps, equally spread in
/// the logarithm).
#[inline(always)]
pub fn force_factor<V: Vector>() -> f64 {
    if V::RSQRT_TERMS == 1 { (1.0 + 2.87e-9) / (f64::from((5.0f64 / 3.0) as f32) - 1.0) } else { 1.0 }
}

/// 1 / ρ for an estimate y of it.
#[inline(always)]
pub fn refined<V: Vector>(rho2: V, y: V) -> V {
    if V::RSQRT_TERMS == 0 {
        return y;
    }
    let e = rho2.neg_mul_add(y.mul(y), V::splat(V::Scalar::from_f64(1.0)));
    y.mul(e).mul_add(series(e, [0.5, 0.375, 0.3125]), y)
}
