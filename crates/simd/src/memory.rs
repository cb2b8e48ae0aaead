//! Memory that suits SIMD registers and large arrays.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the widest register.
const LINE_BYTES: usize = 64;

/// Bytes of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Numbers whose first one is at the start of a cache line.
///
/// Large arrays start at the boundary of a huge page, and the operating system is asked for huge
/// pages. Without them, a loop over the columns of a large matrix spends much of its time in
/// translations of addresses.
#[derive(Debug, Default)]
pub struct AlignedVec<T> {
    /// The numbers with unused space before and after them.
    storage: Vec<T>,
    offset: usize,
    len: usize,
}

impl<T: Copy + Default> AlignedVec<T> {
    /// Returns `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let bytes = len * size_of::<T>();
        let alignment = if bytes >= 16 * HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { LINE_BYTES };
        let storage = vec![T::default(); len + alignment / size_of::<T>()];
        let offset = storage.as_ptr().align_offset(alignment);
        let mut aligned = Self { storage, offset, len };
        if alignment == HUGE_PAGE_BYTES {
            request_huge_pages(&mut aligned);
        }
        aligned
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.storage[self.offset..self.offset + self.len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.storage[self.offset..self.offset + self.len]
    }
}

/// Starts to load the cache line at `address`, which need not exist. Does nothing where the machine
/// has no such instruction.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes no memory and never faults. SSE is in the baseline of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks Linux for huge pages. A refusal only makes the memory slower.
#[cfg(target_os = "linux")]
fn request_huge_pages<T>(memory: &mut [T]) {
    const MADV_HUGEPAGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, bytes: usize, advice: i32) -> i32;
    }
    // SAFETY: the memory belongs to the slice, and this advice does not change its contents.
    unsafe { madvise(memory.as_mut_ptr().cast(), size_of_val(memory), MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn request_huge_pages<T>(_memory: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_aligned() {
        for len in [0, 1, 17, 1000, 9 << 20] {
            let mut memory = AlignedVec::<f32>::zeros(len);
            assert_eq!(memory.len(), len);
            assert_eq!(memory.as_ptr().align_offset(LINE_BYTES), 0);
            assert!(memory.iter().all(|&x| x == 0.0));
            memory.fill(1.0);
        }
        assert_eq!(AlignedVec::<f64>::zeros(5 << 20).as_ptr().align_offset(HUGE_PAGE_BYTES), 0);
    }
}
