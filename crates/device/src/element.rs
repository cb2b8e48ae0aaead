//! What a buffer may hold.

/// A number, or four of them, with the same bytes on host and device. Sealed: every bit pattern is a value
/// and there is no padding, which is what lets bytes from a device become elements.
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

    macro_rules! plain {
        ($($kind:ty),*) => { $(impl Plain for $kind {})* };
    }
    plain!(f32, f64, u8, u32, i32, u64, i64, [f32; 4], [f64; 4]);
}
