//! Throughput, latency and error of arithmetic operations.
//!
//! Each thread applies x ← operation(x, b, c) to several independent numbers. With many threads the
//! time is that of the execution units: an SM with U lanes for an operation completes U of them per
//! cycle. With one number of one warp the time is the latency, because each operation waits for the
//! result of the one before.
//!
//! The error of an operation is |result - exact result| in units of the last place (ulp) of the
//! exact result, the largest one over many random arguments. An operation that is rounded correctly
//! has at most 0.5 ulp.
//!
//! - [`ArithmeticOperation`]: one operation, with its reference. [`all_operations`] lists them.
//! - [`Chains`]: the kernel of an operation on a device.
//! - [`sums`]: sums of the same terms in different orders.

mod chains;
mod double;
mod half;
pub mod host;
mod integer;
pub mod selftest;
mod single;
pub mod sums;
pub mod ulp;

use orrery_device::{Backend, Element, Math, Properties};

pub use chains::{ChainShape, Chains};

/// Element type of an operation.
pub trait ChainNumber: Element {
    /// Name of the type in kernels.
    const NAME: &'static str;
    /// Returns whether two results differ by more than `limit` ulp. A limit of 0 means the same
    /// value.
    fn differs(self, expected: Self, limit: f64) -> bool;
}

impl ChainNumber for f32 {
    const NAME: &'static str = "float";
    fn differs(self, expected: Self, limit: f64) -> bool {
        let error = ulp::error_of_f32(self, f64::from(expected));
        error.is_nan() || error > limit
    }
}

impl ChainNumber for f64 {
    const NAME: &'static str = "double";
    fn differs(self, expected: Self, limit: f64) -> bool {
        let error = (self - expected).abs();
        error.is_nan() || error > limit * ulp::ulp_of_f64(expected)
    }
}

impl ChainNumber for u32 {
    const NAME: &'static str = "uint";
    fn differs(self, expected: Self, _limit: f64) -> bool {
        self != expected
    }
}

impl ChainNumber for i32 {
    const NAME: &'static str = "int";
    fn differs(self, expected: Self, _limit: f64) -> bool {
        self != expected
    }
}

impl ChainNumber for u16 {
    const NAME: &'static str = "ushort";
    fn differs(self, expected: Self, _limit: f64) -> bool {
        self != expected
    }
}

/// Number of instructions of an operation, which determines how often it is unrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSize {
    /// One or two instructions.
    Small,
    /// About ten.
    Medium,
    /// Up to a hundred.
    Large,
}

/// Unit of an SM that executes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionUnit {
    /// Additions, products and FMAs of f32.
    Single,
    /// Additions, products and FMAs of f64.
    Double,
    /// Additions, products and FMAs of f16, two per instruction.
    Half,
    /// Reciprocals, square roots, sines, exponentials and logarithms of f32.
    Special,
    /// Shifts, logical operations, minima and maxima.
    Integer,
    /// Products of integers.
    IntegerMultiply,
}

impl ExecutionUnit {
    /// Returns the results per cycle and SM that the table "Throughput of Native Arithmetic
    /// Instructions" in NVIDIA's CUDA C++ Programming Guide lists. None if the compute capability
    /// is not listed here.
    pub fn listed_per_cycle(self, capability: (u32, u32)) -> Option<f64> {
        let (single, double, half) = match capability {
            (7, 0) => (64.0, 32.0, 128.0),
            (7, 5) => (64.0, 2.0, 128.0),
            (8, 0) => (64.0, 32.0, 256.0),
            (8, 6 | 9) => (128.0, 2.0, 128.0),
            (9, 0) => (128.0, 64.0, 256.0),
            _ => return None,
        };
        Some(match self {
            Self::Single => single,
            Self::Double => double,
            Self::Half => half,
            Self::Special => 16.0,
            Self::Integer | Self::IntegerMultiply => 64.0,
        })
    }
}

/// One operation x ← f(x, b, c).
#[derive(Clone, Copy, Debug)]
pub struct ArithmeticOperation<T> {
    /// Name of the rung, for example `f32 FMA`.
    pub name: &'static str,
    /// Formula, for example `x b + c`.
    pub formula: &'static str,
    /// Whether the formula has further operations that are not counted.
    pub has_other_operations: bool,
    /// Macro of the kernel file.
    code: &'static str,
    /// Flags of the compiler.
    pub math: Math,
    /// Counted operations per application, for example 2 for a sum and an exclusive or.
    pub count: f64,
    /// Flops per counted operation. None if the operation has no conventional count.
    pub flops: Option<f64>,
    /// Number of instructions.
    pub size: CodeSize,
    /// Unit that limits the throughput. None if several do.
    pub unit: Option<ExecutionUnit>,
    /// Whether x, b and c are f16.
    pub uses_f16: bool,
    /// b and c of chains.
    operands: [T; 2],
    /// Returns the first x of a chain for a random number from 0 to 1. Chains stay in a range in
    /// which a relative error of x is not amplified.
    start: fn(f64) -> T,
    /// Reference implementation.
    pub apply: fn(T, T, T) -> T,
    /// Largest error in ulp of one application with CUDA and with OpenCL. 0 for the same bits.
    limits: [f64; 2],
    /// Returns x, b and c for three random numbers from 0 to 1, for the measurement of errors.
    arguments: fn([f64; 3]) -> [T; 3],
    /// Returns the error in ulp of a result for x, b and c. None if there is no more precise
    /// reference, or if the result must have the same bits.
    pub error: Option<fn([T; 3], T) -> f64>,
}

impl<T: ChainNumber> ArithmeticOperation<T> {
    /// Returns the largest error in ulp of one application on a device.
    pub fn limit(&self, backend: Backend) -> f64 {
        match backend {
            Backend::Cuda => self.limits[0],
            Backend::OpenCl => self.limits[1],
        }
    }

    /// Returns the result of applying the operation `steps` times.
    pub fn apply_repeatedly(&self, start: T, steps: usize) -> T {
        let [b, c] = self.operands;
        (0..steps).fold(start, |x, _| (self.apply)(x, b, c))
    }

    /// Returns whether a device has the number type.
    pub fn is_supported(&self, properties: &Properties) -> bool {
        (T::NAME != f64::NAME || properties.has_f64) && (!self.uses_f16 || properties.has_f16)
    }
}

/// An operation of any number type.
#[derive(Clone, Copy, Debug)]
pub enum AnyOperation {
    /// f32.
    Single(ArithmeticOperation<f32>),
    /// f64.
    Double(ArithmeticOperation<f64>),
    /// u32, or two f16.
    Unsigned(ArithmeticOperation<u32>),
    /// i32.
    Signed(ArithmeticOperation<i32>),
    /// f16.
    Half(ArithmeticOperation<u16>),
}

/// Evaluates an expression for an operation of any number type, for example
/// `for_number!(any, operation => operation.name)`.
macro_rules! for_number {
    ($any:expr, $operation:ident => $value:expr) => {
        match $any {
            $crate::experiments::arithmetic::AnyOperation::Single($operation) => $value,
            $crate::experiments::arithmetic::AnyOperation::Double($operation) => $value,
            $crate::experiments::arithmetic::AnyOperation::Unsigned($operation) => $value,
            $crate::experiments::arithmetic::AnyOperation::Signed($operation) => $value,
            $crate::experiments::arithmetic::AnyOperation::Half($operation) => $value,
        }
    };
}
pub(crate) use for_number;

/// Returns all operations, in the order of the table.
pub fn all_operations() -> Vec<AnyOperation> {
    let mut all: Vec<AnyOperation> = single::basic().into_iter().map(AnyOperation::Single).collect();
    all.extend(single::functions().into_iter().map(AnyOperation::Single));
    all.extend(single::fast_functions().into_iter().map(AnyOperation::Single));
    all.extend(flag_operations().into_iter().map(AnyOperation::Single));
    all.extend(double::operations().into_iter().map(AnyOperation::Double));
    all.push(AnyOperation::Half(half::scalar()));
    all.extend(half::pairs().into_iter().map(AnyOperation::Unsigned));
    all.extend(integer::operations().into_iter().map(AnyOperation::Unsigned));
    all.push(AnyOperation::Signed(integer::signed_division()));
    all
}

/// Returns the FMA of f32.
pub fn fma_operation() -> ArithmeticOperation<f32> {
    single::basic()[2]
}

/// Returns the FMA of f32 that reads one register.
pub fn one_register_fma() -> ArithmeticOperation<f32> {
    single::basic()[3]
}

/// Returns √(x² + b) / (x + c) with each flag of fast math. The first one has none, the last one
/// all of them.
pub fn flag_operations() -> Vec<ArithmeticOperation<f32>> {
    single::expressions()
}
