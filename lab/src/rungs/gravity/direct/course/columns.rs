//! Columns of bodies in f32 or f64, and the parameters of the kernels of the course that use them.
//!
//! The parameters are the columns, eps², dt and n. They are arguments of the kernels, or they are
//! in constant memory. On CUDA that includes the addresses of the columns, and the kernels have no
//! arguments. OpenCL has no pointers in constant memory, so there the columns stay arguments.

use orrery_device::{Arg, Backend, Buffer, Constant, Device, DeviceError, Element, Module, Queue};

/// Number type of the kernels: f32 or f64.
pub(in crate::rungs::gravity) trait CourseReal:
    Element + Into<Arg<'static>> + Into<f64>
{
    /// Value of `DOUBLE` in `course.cu`.
    const IS_DOUBLE: bool;

    /// Rounds a number.
    fn from_f64(value: f64) -> Self;
}

impl CourseReal for f32 {
    const IS_DOUBLE: bool = false;

    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

impl CourseReal for f64 {
    const IS_DOUBLE: bool = true;

    fn from_f64(value: f64) -> Self {
        value
    }
}

/// Number of columns, in the order of the constants below and of `columns` in `course.cu`.
const COLUMNS: usize = 10;
pub(super) const MASS: usize = 0;
pub(super) const X: usize = 1;
pub(super) const Y: usize = 2;
pub(super) const Z: usize = 3;
pub(super) const U: usize = 4;
pub(super) const V: usize = 5;
pub(super) const W: usize = 6;
pub(super) const AX: usize = 7;
pub(super) const AY: usize = 8;
pub(super) const AZ: usize = 9;

/// Columns of n bodies, and how kernels get their parameters.
pub(super) struct CourseColumns<R: CourseReal> {
    n: usize,
    columns: [Buffer<R>; COLUMNS],
    /// None if the parameters are arguments.
    constants: Option<ConstantParameters<R>>,
}

/// Arrays in constant memory, as `course.cu` declares them.
struct ConstantParameters<R: CourseReal> {
    /// n.
    counts: Constant<i32>,
    /// eps² and dt.
    numbers: Constant<R>,
    /// Addresses of all columns. None on OpenCL.
    columns: Option<Constant<u64>>,
}

impl<R: CourseReal> CourseColumns<R> {
    /// Allocates columns for kernels whose parameters are arguments.
    pub(super) fn with_arguments(device: &Device, n: usize) -> Result<Self, DeviceError> {
        Self::allocate(device, n, |_| n)
    }

    /// Allocates only the columns of accelerations. The others are empty.
    pub(super) fn accelerations(device: &Device, n: usize) -> Result<Self, DeviceError> {
        Self::allocate(device, n, |column| if column >= AX { n } else { 0 })
    }

    /// Allocates columns for kernels of `module`, whose parameters are in constant memory.
    pub(super) fn with_constants(device: &Device, n: usize, module: &Module) -> Result<Self, DeviceError> {
        let has_addresses = device.properties().backend == Backend::Cuda;
        let columns = has_addresses.then(|| module.constant("columns", COLUMNS)).transpose()?;
        let (counts, numbers) = (module.constant("counts", 1)?, module.constant("numbers", 2)?);
        let constants = Some(ConstantParameters { counts, numbers, columns });
        Ok(Self { constants, ..Self::with_arguments(device, n)? })
    }

    fn allocate(device: &Device, n: usize, len: impl Fn(usize) -> usize) -> Result<Self, DeviceError> {
        let columns = (0..COLUMNS).map(|column| device.zeros(len(column)));
        let columns: Vec<Buffer<R>> = columns.collect::<Result<_, _>>()?;
        let columns = columns.try_into().expect("one buffer per column");
        Ok(Self { n, columns, constants: None })
    }

    pub(super) fn get(&self, column: usize) -> &Buffer<R> {
        &self.columns[column]
    }

    /// Writes all parameters to constant memory, if they are there.
    pub(super) fn write_constants(&self, queue: &Queue, eps2: R, dt: R) -> Result<(), DeviceError> {
        let Some(constants) = &self.constants else { return Ok(()) };
        queue.write_constant(&constants.counts, &[self.n as i32])?;
        queue.write_constant(&constants.numbers, &[eps2, dt])?;
        if let Some(addresses) = &constants.columns {
            let values: Vec<u64> = self.columns.iter().filter_map(Buffer::address).collect();
            queue.write_constant(addresses, &values)?;
        }
        Ok(())
    }

    /// Returns the arguments of `sum_pairs`.
    pub(super) fn sum_args(&self, eps2: R) -> Vec<Arg<'_>> {
        self.args(&[X, Y, Z, MASS, AX, AY, AZ], eps2)
    }

    /// Returns the arguments of `advance_bodies`.
    pub(super) fn advance_args(&self, dt: R) -> Vec<Arg<'_>> {
        self.args(&[X, Y, Z, U, V, W, AX, AY, AZ], dt)
    }

    fn args(&self, columns: &[usize], number: R) -> Vec<Arg<'_>> {
        let columns = || columns.iter().map(|&column| Arg::from(&self.columns[column])).collect::<Vec<_>>();
        match &self.constants {
            None => [columns(), vec![number.into(), (self.n as i32).into()]].concat(),
            Some(ConstantParameters { columns: Some(_), .. }) => Vec::new(),
            Some(ConstantParameters { counts, numbers, .. }) => {
                [columns(), vec![counts.into(), numbers.into()]].concat()
            }
        }
    }
}
