//! Parallel building blocks: reduction, prefix sums (scan) and sort. Each module has a definition,
//! a sequential reference implementation, a version for all CPU cores and one for devices (for
//! example [`reduce::reduce_reference`], [`reduce::reduce_on_cpu`] and [`reduce::Reduce`]). All are
//! deterministic: the order in which floats are added depends only on the number of elements and,
//! on a device, on the device and the strategy. The same input therefore gives the same bits in
//! every run.

mod number;
pub mod reduce;
pub mod scan;
pub mod sort;

pub use number::PrimitiveNumber;
