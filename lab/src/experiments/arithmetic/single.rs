//! Operations on f32: basic ones, functions of the library, and their fast forms.
//!
//! Limits of errors: CUDA C++ Programming Guide, "Mathematical Functions", and OpenCL C
//! specification, "Relative Error as ULPs". Those of OpenCL's native functions are left to the
//! implementation, so a loose limit is used for them.

use orrery_device::{Math, MathFlags};

use super::ulp::error_of_f32;
use super::{ArithmeticOperation, CodeSize, ExecutionUnit};

/// Factor and term with which x b + c approaches 2 slowly. A chain with b = 0.5 would be at 2 after
/// 24 steps, and a missing step would not show.
const SLOW_FMA: [f32; 2] = [1.0 - 1.0 / 1024.0, 2.0 / 1024.0];

/// Limit of OpenCL's native functions: 10 of 23 bits are correct.
const NATIVE_LIMIT: f64 = 8192.0;

/// Returns an operation that is rounded correctly and counts as one flop. Errors are measured for
/// arguments from 1 to 2.
fn operation(
    name: &'static str,
    formula: &'static str,
    code: &'static str,
    apply: fn(f32, f32, f32) -> f32,
) -> ArithmeticOperation<f32> {
    ArithmeticOperation {
        name,
        formula,
        code,
        has_other_operations: false,
        math: Math::Precise,
        count: 1.0,
        flops: Some(1.0),
        size: CodeSize::Small,
        unit: Some(ExecutionUnit::Single),
        uses_f16: false,
        operands: [0.5, 1.0],
        start: |u| (1.0 + u) as f32,
        apply,
        limits: [0.0; 2],
        arguments: |u| u.map(|u| (1.0 + u) as f32),
        error: None,
    }
}

/// Returns a random number between two powers of two, with an equal share of each octave.
fn power_of_two(low: f64, high: f64, u: f64) -> f32 {
    (low + (high - low) * u).exp2() as f32
}

/// Returns sum, product, FMA, FMA of one register and minimum.
pub fn basic() -> [ArithmeticOperation<f32>; 5] {
    [
        ArithmeticOperation {
            operands: [1e-3, 0.0],
            error: Some(|[x, b, _], found| error_of_f32(found, f64::from(x) + f64::from(b))),
            ..operation("f32 add", "x + b", "ADD", |x, b, _| x + b)
        },
        ArithmeticOperation {
            operands: [0.999_999_94, 0.0],
            error: Some(|[x, b, _], found| error_of_f32(found, f64::from(x) * f64::from(b))),
            ..operation("f32 multiply", "x b", "MULTIPLY", |x, b, _| x * b)
        },
        ArithmeticOperation {
            flops: Some(2.0),
            operands: SLOW_FMA,
            // With arguments from 1 to 2, the product and the sum are exact in f64.
            error: Some(|[x, b, c], found| error_of_f32(found, f64::from(x) * f64::from(b) + f64::from(c))),
            ..operation("f32 FMA", "x b + c", "MULTIPLY_ADD_F32", |x, b, c| x.mul_add(b, c))
        },
        ArithmeticOperation {
            flops: Some(2.0),
            error: Some(|[x, ..], found| {
                error_of_f32(found, f64::from(x) * f64::from(1e-7f32) + f64::from(x))
            }),
            ..operation("f32 FMA of one register", "1e-7 x + x", "MULTIPLY_ADD_ITSELF", |x, _, _| {
                x.mul_add(1e-7, x)
            })
        },
        ArithmeticOperation {
            flops: None,
            unit: Some(ExecutionUnit::Integer),
            operands: [1.25, 0.0],
            ..operation("f32 min (max)", "-min(x, b)", "NEGATED_MIN", |x, b, _| -x.min(b))
        },
    ]
}

/// Returns a function of the library, without a conventional number of flops.
fn function(
    name: &'static str,
    formula: &'static str,
    code: &'static str,
    limits: [f64; 2],
    apply: fn(f32, f32, f32) -> f32,
) -> ArithmeticOperation<f32> {
    ArithmeticOperation {
        flops: None,
        size: CodeSize::Large,
        unit: None,
        limits,
        ..operation(name, formula, code, apply)
    }
}

/// Returns division, roots and transcendental functions, as the library computes them.
pub fn functions() -> [ArithmeticOperation<f32>; 8] {
    [
        ArithmeticOperation {
            size: CodeSize::Medium,
            arguments: |u| [power_of_two(-20.0, 20.0, u[0]), 0.0, 0.0],
            error: Some(|[x, ..], found| error_of_f32(found, 1.0 / f64::from(x))),
            ..function("f32 reciprocal", "1 / x", "RECIPROCAL", [0.0, 3.0], |x, _, _| 1.0 / x)
        },
        ArithmeticOperation {
            size: CodeSize::Medium,
            operands: [1.7, 0.0],
            arguments: |u| [power_of_two(-20.0, 20.0, u[0]), power_of_two(-20.0, 20.0, u[1]), 0.0],
            error: Some(|[x, b, _], found| error_of_f32(found, f64::from(b) / f64::from(x))),
            ..function("f32 divide", "b / x", "DIVIDE", [0.0, 3.0], |x, b, _| b / x)
        },
        ArithmeticOperation {
            size: CodeSize::Medium,
            start: |u| (100.0 + 900.0 * u) as f32,
            arguments: |u| [power_of_two(-20.0, 20.0, u[0]), 0.0, 0.0],
            error: Some(|[x, ..], found| error_of_f32(found, f64::from(x).sqrt())),
            ..function("f32 sqrt", "sqrt(x)", "SQUARE_ROOT", [0.0, 3.0], |x, _, _| x.sqrt())
        },
        ArithmeticOperation {
            size: CodeSize::Medium,
            unit: Some(ExecutionUnit::Special),
            start: |u| (100.0 + 900.0 * u) as f32,
            arguments: |u| [power_of_two(-20.0, 20.0, u[0]), 0.0, 0.0],
            error: Some(|[x, ..], found| error_of_f32(found, 1.0 / f64::from(x).sqrt())),
            ..function("f32 rsqrt", "1 / sqrt(x)", "RECIPROCAL_SQUARE_ROOT", [2.0, 2.0], |x, _, _| {
                (1.0 / f64::from(x).sqrt()) as f32
            })
        },
        ArithmeticOperation {
            start: |u| (0.2 + 0.8 * u) as f32,
            arguments: |u| [(std::f64::consts::PI * (2.0 * u[0] - 1.0)) as f32, 0.0, 0.0],
            error: Some(|[x, ..], found| error_of_f32(found, f64::from(x).sin())),
            ..function("f32 sin", "sin(x)", "SINE", [2.0, 4.0], |x, _, _| f64::from(x).sin() as f32)
        },
        ArithmeticOperation {
            size: CodeSize::Medium,
            start: |u| u as f32,
            arguments: |u| [(20.0 * u[0] - 10.0) as f32, 0.0, 0.0],
            error: Some(|[x, ..], found| error_of_f32(found, (-f64::from(x)).exp())),
            ..function("f32 exp", "exp(-x)", "EXPONENTIAL", [2.0, 3.0], |x, _, _| {
                (-f64::from(x)).exp() as f32
            })
        },
        ArithmeticOperation {
            has_other_operations: true,
            operands: [2.0, 0.0],
            arguments: |u| [power_of_two(-20.0, 20.0, u[0]), 0.0, 0.0],
            error: Some(|[x, ..], found| error_of_f32(found, f64::from(x).ln())),
            ..function("f32 log", "log(x + b)", "LOGARITHM", [1.0, 3.0], |x, b, _| {
                f64::from(x + b).ln() as f32
            })
        },
        ArithmeticOperation {
            has_other_operations: true,
            operands: [0.7, 1.0],
            arguments: |u| [power_of_two(-3.0, 3.0, u[0]), (10.0 * u[1] - 5.0) as f32, 0.0],
            error: Some(|[x, b, _], found| error_of_f32(found, f64::from(x).powf(f64::from(b)))),
            ..function("f32 pow", "pow(x + c, b)", "POWER", [4.0, 16.0], |x, b, c| {
                f64::from(x + c).powf(f64::from(b)) as f32
            })
        },
    ]
}

/// Returns the fast form of a function with the same formula. `limit` is the largest error in ulp
/// in chains, whose arguments are in the range for which CUDA specifies it.
fn fast(
    name: &'static str,
    code: &'static str,
    size: CodeSize,
    limit: f64,
    precise: ArithmeticOperation<f32>,
) -> ArithmeticOperation<f32> {
    let unit = Some(ExecutionUnit::Special);
    ArithmeticOperation { name, code, size, unit, limits: [limit, NATIVE_LIMIT], ..precise }
}

/// Returns the fast forms of the functions: CUDA's `__sinf` and so on, OpenCL's `native_sin`.
pub fn fast_functions() -> [ArithmeticOperation<f32>; 8] {
    let [reciprocal, divide, sqrt, rsqrt, sin, exp, log, pow] = functions();
    let (small, medium) = (CodeSize::Small, CodeSize::Medium);
    [
        ArithmeticOperation {
            formula: "1 / x + b",
            has_other_operations: true,
            apply: |x, b, _| (1.0 / f64::from(x)) as f32 + b,
            ..fast("fast reciprocal", "FAST_RECIPROCAL_ADD", small, 2.0, reciprocal)
        },
        fast("fast divide", "FAST_DIVISION", medium, 2.0, divide),
        fast("fast sqrt", "FAST_SQUARE_ROOT", small, 3.0, sqrt),
        fast("fast rsqrt", "FAST_RECIPROCAL_SQUARE_ROOT", small, 3.0, rsqrt),
        fast("fast sin", "FAST_SINE", medium, 32.0, sin),
        fast("fast exp", "FAST_EXPONENTIAL", medium, 16.0, exp),
        fast("fast log", "FAST_LOGARITHM", medium, 8.0, log),
        // A logarithm and an exponential: two results of the special function unit. The exponent of
        // two is up to 15, so a relative error of 2^-22 of the logarithm is up to 42 ulp of the
        // result, and its rounding another 10.
        ArithmeticOperation { unit: None, ..fast("fast pow", "FAST_POWER", medium, 64.0, pow) },
    ]
}

/// Returns √(x² + b) / (x + c) without flags, with each flag, and with all of them.
pub fn expressions() -> Vec<ArithmeticOperation<f32>> {
    let none = MathFlags::default();
    let flags = |flags| Math::Flags(flags);
    let variants = [
        ("expression, precise", Math::Precise),
        ("expression, flush to zero", flags(MathFlags { flush_to_zero: true, ..none })),
        ("expression, fast divide", flags(MathFlags { approximate_division: true, ..none })),
        ("expression, fast sqrt", flags(MathFlags { approximate_sqrt: true, ..none })),
        ("expression, no contraction", flags(MathFlags { no_contraction: true, ..none })),
        ("expression, fast math", Math::Fast),
    ];
    variants.map(|(name, math)| expression(name, math)).to_vec()
}

fn expression(name: &'static str, math: Math) -> ArithmeticOperation<f32> {
    // Sum, product, root and division have errors of 0.5 ulp each, and the approximate ones of up
    // to 3 ulp. The root halves the errors below it.
    let limit = 8.0;
    ArithmeticOperation {
        math,
        flops: Some(5.0),
        size: CodeSize::Medium,
        operands: [1.0, 0.5],
        start: |u| (0.5 + u) as f32,
        arguments: |u| u.map(|u| power_of_two(-3.0, 3.0, u)),
        error: Some(|arguments, found| error_of_f32(found, exact_expression(arguments))),
        ..function(name, "sqrt(x x + b) / (x + c)", "EXPRESSION", [limit, limit], |x, b, c| {
            exact_expression([x, b, c]) as f32
        })
    }
}

/// Returns √(x² + b) / (x + c) in f64.
pub fn exact_expression(arguments: [f32; 3]) -> f64 {
    let [x, b, c] = arguments.map(f64::from);
    (x * x + b).sqrt() / (x + c)
}
