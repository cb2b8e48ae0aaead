//! Weights of the derivatives, and stability limits.

use orrery_fields::wave::{SpaceOrder, Stencil};
use orrery_model::wave::WaveGrid;

#[test]
fn derivatives_of_polynomials_are_exact_up_to_the_order() {
    for order in SpaceOrder::ALL {
        let (second, first) = (order.second_derivative(), order.first_derivative());
        for power in 0..=order.number() as i32 {
            let at = |r: usize| [(r as f64).powi(power), (-(r as f64)).powi(power)];
            let pairs = (1..=4).map(|r| second[r] * (at(r)[0] + at(r)[1])).sum::<f64>();
            let found = second[0] * 0f64.powi(power) + pairs;
            let expected = if power == 2 { 2.0 } else { 0.0 };
            // Terms reach 4⁸ × 2/560 = 234.
            assert!((found - expected).abs() < 1e-12, "{order:?} {power}: {found}");
            let found: f64 = (1..=4).map(|r| first[r - 1] * (at(r)[0] - at(r)[1])).sum();
            let expected = if power == 1 { 1.0 } else { 0.0 };
            assert!((found - expected).abs() < 1e-12, "{order:?} {power}: {found}");
        }
    }
}

#[test]
fn courant_limits_are_the_published_ones() {
    // c dt/h for equal spacings in 1-D, 2-D and 3-D.
    let table = [
        [1.0, std::f64::consts::FRAC_1_SQRT_2, 0.57735],
        [0.86603, 0.61237, 0.5],
        [0.81349, 0.57522, 0.46967],
        [0.78437, 0.55463, 0.45286],
    ];
    for (order, row) in SpaceOrder::ALL.into_iter().zip(table) {
        for (dimension, expected) in row.into_iter().enumerate() {
            let limit = order.courant_limit() / (dimension as f64 + 1.0).sqrt();
            assert!((limit - expected).abs() < 5e-6, "{order:?} {dimension}: {limit}");
        }
    }
}

#[test]
fn stencil_has_the_weights_of_its_axes() {
    let grid = WaveGrid::volume([9; 3], [2.0, 1.0, 4.0]);
    let stencil = Stencil::<f64>::new(&grid, SpaceOrder::Fourth);
    assert_eq!(stencil.centre, -2.5 * (0.25 + 1.0 + 0.0625));
    assert_eq!(stencil.neighbours[0], [1.0 / 3.0, -1.0 / 48.0, 0.0, 0.0]);
    assert_eq!(stencil.neighbours[2][0], 4.0 / 3.0 / 16.0);
    let stencil = Stencil::<f32>::new(&WaveGrid::plane([9; 2], [1.0; 2]), SpaceOrder::Eighth);
    assert_eq!((stencil.centre, stencil.neighbours[2]), ((-205.0 / 36.0) as f32, [0.0; 4]));
    assert_eq!(SpaceOrder::from_number(6), Ok(SpaceOrder::Sixth));
    let message = SpaceOrder::from_number(5).unwrap_err().to_string();
    assert_eq!(message, "the order in space is 5, expected 2, 4, 6 or 8");
}
