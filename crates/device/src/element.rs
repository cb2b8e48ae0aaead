//! Element types of buffers.

/// An element of a buffer: a number or four numbers, for example `f32` or `[f64; 4]`, with the same
/// bytes on host and device. Sealed: bytes from a device may become elements because every bit
/// pattern is a valid value and there is no padding.
pub trait Element:
    sealed::Plain + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
}

impl<T> Element for T where
    T: sealed::Plain + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
}

mod sealed {
    pub trait Plain {}

    macro_rules! impl_plain {
        ($($element:ty),*) => { $(impl Plain for $element {})* };
    }
    impl_plain!(f32, f64, u8, u32, i32, u64, i64, [f32; 4], [f64; 4]);
}
