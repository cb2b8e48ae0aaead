//! Operations on integers of 32 bits: the instructions of the course, and divisions and remainders
//! by a variable, by a constant and by a power of two.

use orrery_device::Math;

use super::{ArithmeticOperation, CodeSize, ExecutionUnit};

/// Numbers with bits in no obvious pattern: 2^32 divided by the golden ratio, and two others.
const BITS: [u32; 3] = [0x9e37_79b9, 0x5bd1_e995, 0x1234_5677];
/// Term that keeps quotients large.
const LARGE: u32 = 0xc000_0000;

fn operation(
    name: &'static str,
    formula: &'static str,
    code: &'static str,
    operands: [u32; 2],
    apply: fn(u32, u32, u32) -> u32,
) -> ArithmeticOperation<u32> {
    ArithmeticOperation {
        name,
        formula,
        code,
        has_other_operations: true,
        math: Math::Precise,
        count: 1.0,
        flops: None,
        size: CodeSize::Small,
        unit: None,
        uses_f16: false,
        operands,
        start: |u| (u * 4_294_967_296.0) as u32,
        apply,
        limits: [0.0; 2],
        arguments: |u| u.map(|u| (u * 4_294_967_296.0) as u32 | 1),
        error: None,
    }
}

/// Returns sums, shifts, minima and products.
fn instructions() -> [ArithmeticOperation<u32>; 6] {
    let in_integer_unit = |operation: ArithmeticOperation<u32>| ArithmeticOperation {
        count: 2.0,
        unit: Some(ExecutionUnit::Integer),
        // Shifts by less than 32.
        arguments: |u| {
            [(u[0] * 4_294_967_296.0) as u32, (u[1] * 32.0) as u32, (u[2] * 4_294_967_296.0) as u32]
        },
        ..operation
    };
    let in_multiplier = |operation: ArithmeticOperation<u32>| ArithmeticOperation {
        unit: Some(ExecutionUnit::IntegerMultiply),
        ..operation
    };
    [
        // The compiler distributes these two between two units.
        ArithmeticOperation {
            unit: None,
            ..in_integer_unit(operation(
                "u32 add, xor",
                "(x + b) ^ c",
                "ADD_XOR",
                [BITS[0], BITS[2]],
                |x, b, c| x.wrapping_add(b) ^ c,
            ))
        },
        in_integer_unit(operation("u32 shift, xor", "(x << b) ^ c", "SHIFT_XOR", [1, BITS[0]], |x, b, c| {
            x << b ^ c
        })),
        in_integer_unit(operation(
            "u32 min, xor",
            "min(x, b) ^ c",
            "MIN_XOR",
            [0x7fff_ffff, BITS[1]],
            |x, b, c| x.min(b) ^ c,
        )),
        in_multiplier(operation(
            "u32 multiply, add",
            "x b + c",
            "MULTIPLY_ADD_U32",
            [1_664_525, 1_013_904_223],
            |x, b, c| x.wrapping_mul(b).wrapping_add(c),
        )),
        in_multiplier(operation(
            "u32 multiply, shift",
            "(x b >> 8) + c",
            "MULTIPLY_SHIFT",
            [0x5b_d1e9, BITS[1]],
            |x, b, c| (x.wrapping_mul(b) >> 8).wrapping_add(c),
        )),
        in_multiplier(ArithmeticOperation {
            arguments: |u| u.map(|u| (u * 16_777_216.0) as u32),
            ..operation(
                "u24 multiply, shift",
                "(mul24(x, b) >> 8) + c",
                "MULTIPLY_24_SHIFT",
                [0x5b_d1e9, BITS[1]],
                |x, b, c| ((x & 0xff_ffff).wrapping_mul(b) >> 8).wrapping_add(c),
            )
        }),
    ]
}

/// Returns divisions and remainders.
fn divisions() -> [ArithmeticOperation<u32>; 8] {
    let medium =
        |operation: ArithmeticOperation<u32>| ArithmeticOperation { size: CodeSize::Medium, ..operation };
    [
        medium(operation(
            "u32 divide, variable",
            "c / (x | 1) + b",
            "DIVIDE_BY_VARIABLE",
            [12_345, 0xf000_0000],
            |x, b, c| (c / (x | 1)).wrapping_add(b),
        )),
        medium(operation("u32 divide by 7", "x / 7 + c", "DIVIDE_BY_7", [0, LARGE], |x, _, c| {
            (x / 7).wrapping_add(c)
        })),
        operation("u32 divide by 16", "x / 16 + c", "DIVIDE_BY_16", [0, LARGE], |x, _, c| {
            (x / 16).wrapping_add(c)
        }),
        operation("u32 shift by 4", "(x >> 4) + c", "SHIFT_BY_4", [0, LARGE], |x, _, c| {
            (x >> 4).wrapping_add(c)
        }),
        medium(operation(
            "u32 modulo, variable",
            "c % (x | 1) + b",
            "REMAINDER_OF_VARIABLE",
            [12_345, 0xf000_0000],
            |x, b, c| (c % (x | 1)).wrapping_add(b),
        )),
        medium(operation("u32 modulo 7", "c >> (x % 7)", "REMAINDER_OF_7", [0, BITS[0]], |x, _, c| {
            c >> (x % 7)
        })),
        operation("u32 modulo 16", "c >> (x % 16)", "REMAINDER_OF_16", [0, BITS[0]], |x, _, c| c >> (x % 16)),
        ArithmeticOperation {
            // b is a power of two.
            arguments: |u| [(u[0] * 4_294_967_296.0) as u32, 1 << (u[1] * 6.0) as u32, BITS[0]],
            ..operation("u32 mask", "c >> (x & (b - 1))", "MASK", [16, BITS[0]], |x, b, c| c >> (x & (b - 1)))
        },
    ]
}

/// Returns all operations on unsigned integers.
pub fn operations() -> Vec<ArithmeticOperation<u32>> {
    instructions().into_iter().chain(divisions()).collect()
}

/// Returns the division of a signed integer by 16. It rounds towards zero, so it is not a shift.
pub fn signed_division() -> ArithmeticOperation<i32> {
    let random = |u: f64| ((u - 0.5) * 4_294_967_296.0) as i32;
    ArithmeticOperation {
        name: "i32 divide by 16",
        formula: "x / 16 + c",
        code: "SIGNED_DIVIDE_BY_16",
        has_other_operations: true,
        math: Math::Precise,
        count: 1.0,
        flops: None,
        size: CodeSize::Small,
        unit: None,
        uses_f16: false,
        operands: [0, -0x4000_0000],
        start: random,
        apply: |x, _, c| x / 16 + c,
        limits: [0.0; 2],
        arguments: |u| [((u[0] - 0.5) * 4_294_967_296.0) as i32, 0, (u[2] * 1e6) as i32],
        error: None,
    }
}
