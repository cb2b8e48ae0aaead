//! Sizes and arguments of a kernel launch.

use std::fmt;

use crate::buffer::{Buffer, BufferRange};
use crate::constant::Constant;
use crate::driver::{Argument, MemorySlice, TextureObject};
use crate::element::{Element, ElementType};
use crate::host_access::{Managed, Mapped};
use crate::memory::DeviceMemory;
use crate::pitched::Pitched;
use crate::signature::ParameterType;
use crate::texture::Texture;

/// Number of blocks of a grid, or of threads of a block, in up to three dimensions.
///
/// ```
/// use orrery_device::Dim3;
///
/// assert_eq!(Dim3::from(256), Dim3 { x: 256, y: 1, z: 1 });
/// assert_eq!(Dim3::from([32, 8]).count(), 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Extent along x. Neighbours along x are in the same warp.
    pub x: u32,
    /// Extent along y.
    pub y: u32,
    /// Extent along z.
    pub z: u32,
}

impl Dim3 {
    /// Returns the product of the extents.
    pub fn count(self) -> u64 {
        // No device has grids of 2^64 blocks, so a product that does not fit is an error anyway.
        u64::from(self.x).saturating_mul(u64::from(self.y)).saturating_mul(u64::from(self.z))
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<[u32; 2]> for Dim3 {
    fn from([x, y]: [u32; 2]) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

impl fmt::Display for Dim3 {
    /// Writes "256", "32 x 8" or "32 x 8 x 2".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { x, y: 1, z: 1 } => write!(f, "{x}"),
            Self { x, y, z: 1 } => write!(f, "{x} x {y}"),
            Self { x, y, z } => write!(f, "{x} x {y} x {z}"),
        }
    }
}

/// An argument of a kernel launch: a number, a buffer or a range of a buffer, a pitched or constant
/// array, mapped or managed memory, or a texture.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// A pointer to memory.
    Buffer(BufferArg<'a>),
    /// `TEXTURE_1D` or `TEXTURE_2D`
    Texture(&'a Texture),
    /// `int`
    I32(i32),
    /// `uint`
    U32(u32),
    /// `ulong`
    U64(u64),
    /// `float`
    F32(f32),
    /// `double`
    F64(f64),
}

/// Memory of any element type.
#[derive(Clone, Copy)]
pub struct BufferArg<'a> {
    pub(crate) memory: &'a DeviceMemory,
    pub(crate) slice: MemorySlice,
    element: ElementType,
}

macro_rules! impl_from_scalar {
    ($($scalar:ty => $name:ident),*) => { $(
        impl From<$scalar> for Arg<'_> {
            fn from(value: $scalar) -> Self {
                Self::$name(value)
            }
        }
    )* };
}
impl_from_scalar!(i32 => I32, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl<'a, T: Element> From<&'a Buffer<T>> for Arg<'a> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        BufferRange::from(buffer).into()
    }
}

impl<'a, T: Element> From<BufferRange<'a, T>> for Arg<'a> {
    fn from(range: BufferRange<'a, T>) -> Self {
        Self::Buffer(BufferArg {
            memory: range.memory(),
            slice: range.slice(),
            element: ElementType::of::<T>(),
        })
    }
}

impl<'a, T: Element> From<&'a Pitched<T>> for Arg<'a> {
    fn from(pitched: &'a Pitched<T>) -> Self {
        pitched.range().into()
    }
}

impl<'a, T: Element> From<&'a Mapped<T>> for Arg<'a> {
    fn from(mapped: &'a Mapped<T>) -> Self {
        mapped.range().into()
    }
}

impl<'a, T: Element> From<&'a Managed<T>> for Arg<'a> {
    fn from(managed: &'a Managed<T>) -> Self {
        managed.range().into()
    }
}

impl<'a, T: Element> From<&'a Constant<T>> for Arg<'a> {
    fn from(constant: &'a Constant<T>) -> Self {
        constant.range().into()
    }
}

impl<'a> From<&'a Texture> for Arg<'a> {
    fn from(texture: &'a Texture) -> Self {
        Self::Texture(texture)
    }
}

impl Arg<'_> {
    /// Returns the type that the parameter must have.
    pub(crate) fn parameter_type(&self) -> ParameterType {
        match self {
            Self::Buffer(buffer) => ParameterType::Buffer(buffer.element),
            Self::Texture(texture) => ParameterType::Texture(texture.dimensions()),
            Self::I32(_) => ParameterType::Scalar(ElementType::I32),
            Self::U32(_) => ParameterType::Scalar(ElementType::U32),
            Self::U64(_) => ParameterType::Scalar(ElementType::U64),
            Self::F32(_) => ParameterType::Scalar(ElementType::F32),
            Self::F64(_) => ParameterType::Scalar(ElementType::F64),
        }
    }

    /// Returns the argument for the driver.
    pub(crate) fn pack(&self) -> Argument {
        fn scalar<const N: usize>(value: [u8; N]) -> Argument {
            let mut bytes = [0; 8];
            bytes[..N].copy_from_slice(&value);
            Argument::Scalar { bytes, len: N }
        }
        match self {
            Self::Buffer(buffer) => Argument::Memory(buffer.slice),
            Self::Texture(texture) => {
                let TextureObject { object, sampler, .. } = texture.object();
                Argument::Texture { object, sampler }
            }
            Self::I32(value) => scalar(value.to_ne_bytes()),
            Self::U32(value) => scalar(value.to_ne_bytes()),
            Self::U64(value) => scalar(value.to_ne_bytes()),
            Self::F32(value) => scalar(value.to_ne_bytes()),
            Self::F64(value) => scalar(value.to_ne_bytes()),
        }
    }
}
