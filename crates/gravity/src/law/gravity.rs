//! Gravity with Plummer softening (the caller multiplies by G):
//!
//!   a = m d / ρ³,   φ = −m / ρ,   ρ² = |d|² + eps²,   d = x_source − x_target
//!
//! 1/ρ³ is computed from an estimate y of 1/ρ, the `inv_rho_estimate` of the code. With e = 1 − ρ²
//! y², which is small and known to full precision,
//!
//!   1/ρ³ = y³ (1 − e)^(−3/2) = y³ (1 + 3/2 e + 15/8 e² + 35/16 e³ + …)
//!   1/ρ  = y  (1 − e)^(−1/2) = y  (1 + 1/2 e +  3/8 e² +  5/16 e³ + …)
//!
//! The series is cut where the next term is below the rounding error of the type. One series
//! corrects the cube at once, which is cheaper than refining y and then cubing it.

use orrery_simd::{Real, Vector};

/// Returns ρ² for a difference of positions.
#[inline(always)]
pub fn softened_square<V: Vector>(d: [V; 3], eps2: V) -> V {
    d[2].mul_add(d[2], d[1].mul_add(d[1], d[0].mul_add(d[0], eps2)))
}

/// Returns p(e) by Horner's rule, where 1 + p(e) e is the series with these coefficients after the
/// leading 1.
#[inline(always)]
fn series_tail<V: Vector>(e: V, coefficients: [f64; 3]) -> V {
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

/// Returns m / ρ³ divided by [`force_factor`], from an estimate of 1/ρ.
#[inline(always)]
pub fn force_weight<V: Vector>(m: V, rho2: V, inv_rho_estimate: V) -> V {
    let inv_rho2 = inv_rho_estimate.mul(inv_rho_estimate);
    let m_inv_rho3 = m.mul(inv_rho_estimate).mul(inv_rho2);
    match V::RSQRT_TERMS {
        0 => m_inv_rho3,
        // 1 + 3/2 e = 3/2 (5/3 − ρ² y²) saves one operation per pair. The factor 3/2 is applied
        // once per sum.
        1 => m_inv_rho3.mul(rho2.neg_mul_add(inv_rho2, V::splat(V::Scalar::from_f64(5.0 / 3.0)))),
        _ => {
            let e = rho2.neg_mul_add(inv_rho2, V::splat(V::Scalar::from_f64(1.0)));
            m_inv_rho3.mul(e).mul_add(series_tail(e, [1.5, 1.875, 2.1875]), m_inv_rho3)
        }
    }
}

/// Returns the factor by which a sum of [`force_weight`]s must be multiplied, in f64.
///
/// With one term, 5/3 is rounded to f32, and the series drops 15/8 e², which is never negative.
/// Both make every force slightly too weak, by 6e-8 and 2.9e-9, and this does not average out in a
/// sum of many pairs. The factor undoes the rounding exactly and the dropped term on average (over
/// all significands of vrsqrt14ps, uniform in the logarithm).
#[inline(always)]
pub fn force_factor<V: Vector>() -> f64 {
    if V::RSQRT_TERMS == 1 { (1.0 + 2.87e-9) / (f64::from((5.0f64 / 3.0) as f32) - 1.0) } else { 1.0 }
}

/// Returns 1/ρ to full precision, from an estimate of it.
#[inline(always)]
pub fn refined_inv_rho<V: Vector>(rho2: V, inv_rho_estimate: V) -> V {
    if V::RSQRT_TERMS == 0 {
        return inv_rho_estimate;
    }
    let e = rho2.neg_mul_add(inv_rho_estimate.mul(inv_rho_estimate), V::splat(V::Scalar::from_f64(1.0)));
    inv_rho_estimate.mul(e).mul_add(series_tail(e, [0.5, 0.375, 0.3125]), inv_rho_estimate)
}
