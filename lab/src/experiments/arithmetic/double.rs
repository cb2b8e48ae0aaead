//! Operations on f64.
//!
//! Results of division and roots are compared with the exact ones through their residual, which an
//! FMA computes exactly: of q = b / x it is b - q x. There is no such formula for the
//! transcendental functions. Their errors are differences to the functions of the CPU's library,
//! which have errors below 1 ulp themselves.

use orrery_device::Math;

use super::ulp::ulp_of_f64;
use super::{ArithmeticOperation, CodeSize, ExecutionUnit};

/// Returns an operation that is rounded correctly and counts as one flop.
fn operation(
    name: &'static str,
    formula: &'static str,
    code: &'static str,
    apply: fn(f64, f64, f64) -> f64,
) -> ArithmeticOperation<f64> {
    ArithmeticOperation {
        name,
        formula,
        code,
        has_other_operations: false,
        math: Math::Precise,
        count: 1.0,
        flops: Some(1.0),
        size: CodeSize::Small,
        unit: Some(ExecutionUnit::Double),
        uses_f16: false,
        operands: [0.5, 1.0],
        start: |u| 1.0 + u,
        apply,
        limits: [0.0; 2],
        arguments: |u| [(40.0 * u[0] - 20.0).exp2(), (40.0 * u[1] - 20.0).exp2(), 0.0],
        error: None,
    }
}

/// Returns a function without a conventional number of flops.
fn function(
    name: &'static str,
    formula: &'static str,
    code: &'static str,
    limit: f64,
    apply: fn(f64, f64, f64) -> f64,
) -> ArithmeticOperation<f64> {
    ArithmeticOperation {
        flops: None,
        size: CodeSize::Large,
        unit: None,
        limits: [limit; 2],
        ..operation(name, formula, code, apply)
    }
}

/// Returns all operations on f64. The limits of the transcendental functions are those of OpenCL,
/// which are wider than CUDA's, and 1 ulp for the reference.
pub fn operations() -> [ArithmeticOperation<f64>; 10] {
    [
        ArithmeticOperation {
            operands: [1e-3, 0.0],
            ..operation("f64 add", "x + b", "ADD", |x, b, _| x + b)
        },
        ArithmeticOperation {
            operands: [1.0 - f64::EPSILON, 0.0],
            ..operation("f64 multiply", "x b", "MULTIPLY", |x, b, _| x * b)
        },
        ArithmeticOperation {
            flops: Some(2.0),
            // As in f32, x approaches 2 slowly.
            operands: [1.0 - 1.0 / 1024.0, 2.0 / 1024.0],
            ..operation("f64 FMA", "x b + c", "MULTIPLY_ADD_F64", |x, b, c| x.mul_add(b, c))
        },
        ArithmeticOperation {
            operands: [1.7, 0.0],
            error: Some(|[x, b, _], found| (found.mul_add(-x, b) / x).abs() / ulp_of_f64(found)),
            ..function("f64 divide", "b / x", "DIVIDE", 0.0, |x, b, _| b / x)
        },
        ArithmeticOperation {
            start: |u| 100.0 + 900.0 * u,
            error: Some(|[x, ..], found| {
                (found.mul_add(-found, x) / (2.0 * found)).abs() / ulp_of_f64(found)
            }),
            ..function("f64 sqrt", "sqrt(x)", "SQUARE_ROOT_F64", 0.0, |x, _, _| x.sqrt())
        },
        ArithmeticOperation {
            start: |u| 100.0 + 900.0 * u,
            error: Some(|[x, ..], found| rsqrt_error(x, found)),
            ..function("f64 rsqrt", "1 / sqrt(x)", "RECIPROCAL_SQUARE_ROOT_F64", 3.0, |x, _, _| {
                1.0 / x.sqrt()
            })
        },
        ArithmeticOperation {
            start: |u| 0.2 + 0.8 * u,
            arguments: |u| [std::f64::consts::PI * (2.0 * u[0] - 1.0), 0.0, 0.0],
            error: Some(|[x, ..], found| difference(found, x.sin())),
            ..function("f64 sin", "sin(x)", "SINE_F64", 5.0, |x, _, _| x.sin())
        },
        ArithmeticOperation {
            start: |u| u,
            arguments: |u| [20.0 * u[0] - 10.0, 0.0, 0.0],
            error: Some(|[x, ..], found| difference(found, (-x).exp())),
            ..function("f64 exp", "exp(-x)", "EXPONENTIAL_F64", 4.0, |x, _, _| (-x).exp())
        },
        ArithmeticOperation {
            has_other_operations: true,
            operands: [2.0, 0.0],
            arguments: |u| [(40.0 * u[0] - 20.0).exp2(), 0.0, 0.0],
            error: Some(|[x, b, _], found| difference(found, (x + b).ln())),
            ..function("f64 log", "log(x + b)", "LOGARITHM_F64", 4.0, |x, b, _| (x + b).ln())
        },
        ArithmeticOperation {
            has_other_operations: true,
            operands: [0.7, 1.0],
            arguments: |u| [(6.0 * u[0] - 3.0).exp2(), 10.0 * u[1] - 5.0, 0.0],
            error: Some(|[x, b, c], found| difference(found, (x + c).powf(b))),
            ..function("f64 pow", "pow(x + c, b)", "POWER_F64", 17.0, |x, b, c| (x + c).powf(b))
        },
    ]
}

/// Returns the difference to another result in ulp.
fn difference(found: f64, expected: f64) -> f64 {
    (found - expected).abs() / ulp_of_f64(expected)
}

/// Returns the error in ulp of y = 1 / √x: half of y (1 - x y²), with x y as the sum of two
/// numbers.
fn rsqrt_error(x: f64, y: f64) -> f64 {
    let product = x * y;
    let rest = x.mul_add(y, -product);
    let residual = product.mul_add(-y, 1.0) - rest * y;
    (0.5 * y * residual).abs() / ulp_of_f64(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A correctly rounded result has at most 0.5 ulp, and its neighbour at least 0.5.
    #[test]
    fn residuals_are_errors_in_ulp() {
        let operations = operations();
        let [divide, sqrt, rsqrt] = [operations[3], operations[4], operations[5]];
        for k in 0..200 {
            let u = f64::from(k) / 200.0;
            let [x, b, c] = (divide.arguments)([u, 1.0 - u, u]);
            for operation in [divide, sqrt] {
                let error = operation.error.unwrap();
                let exact = (operation.apply)(x, b, c);
                let next = exact + ulp_of_f64(exact);
                assert!(error([x, b, c], exact) <= 0.5, "{}: {x}", operation.name);
                let of_both = error([x, b, c], exact) + error([x, b, c], next);
                assert!((1.0 - 1e-6..2.0).contains(&of_both), "{}: {x}, {of_both}", operation.name);
            }
            let estimate = (rsqrt.apply)(x, b, c);
            let error = rsqrt.error.unwrap()([x, b, c], estimate);
            assert!(error <= 1.5, "{x}: {error}");
            let far = rsqrt.error.unwrap()([x, b, c], estimate + 8.0 * ulp_of_f64(estimate));
            assert!((6.0..10.0).contains(&far), "{x}: {far}");
        }
    }
}
