//! Element types of buffers.

use std::fmt;

/// An element of a buffer: a number or four numbers, for example `f32` or `[f64; 4]`, with the same
/// bytes on host and device. Sealed: bytes from a device may become elements because every bit
/// pattern is a valid value and there is no padding.
pub trait Element: sealed::Plain + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {}

impl<T> Element for T where T: sealed::Plain + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static {}

/// Type of an element, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// `float`
    F32,
    /// `double`
    F64,
    /// `uchar`
    U8,
    /// `ushort`
    U16,
    /// `int`
    I32,
    /// `uint`
    U32,
    /// `long`
    I64,
    /// `ulong`
    U64,
    /// `float4`
    F32x4,
    /// `double4`
    F64x4,
}

impl ElementType {
    /// Returns the type of the elements of a `Buffer<T>`.
    pub fn of<T: Element>() -> Self {
        <T as sealed::Plain>::TYPE
    }

    /// Returns the unsigned type of the same size for an integer, and any other type unchanged.
    pub(crate) fn as_unsigned(self) -> Self {
        match self {
            Self::I32 => Self::U32,
            Self::I64 => Self::U64,
            other => other,
        }
    }

    /// Returns the size in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32x4 => 16,
            Self::F64x4 => 32,
        }
    }
}

impl fmt::Display for ElementType {
    /// Writes the name in the dialect, for example "float4".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "float",
            Self::F64 => "double",
            Self::U8 => "uchar",
            Self::U16 => "ushort",
            Self::I32 => "int",
            Self::U32 => "uint",
            Self::I64 => "long",
            Self::U64 => "ulong",
            Self::F32x4 => "float4",
            Self::F64x4 => "double4",
        })
    }
}

pub(crate) mod sealed {
    use super::ElementType;

    pub trait Plain {
        const TYPE: ElementType;
    }

    macro_rules! impl_plain {
        ($($element:ty => $name:ident),*) => { $(
            impl Plain for $element {
                const TYPE: ElementType = ElementType::$name;
            }
        )* };
    }
    impl_plain!(
        f32 => F32, f64 => F64, u8 => U8, u16 => U16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
        [f32; 4] => F32x4, [f64; 4] => F64x4
    );
}
