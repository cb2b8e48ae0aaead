//! Two-dimensional arrays whose rows start at aligned addresses.
//!
//! Element (x, y) is element y * pitch + x of the memory, with a pitch of at least the width.
//! Copies skip the padding at the end of each row.

use std::fmt;

use crate::buffer::{Buffer, BufferRange};
use crate::device::Device;
use crate::driver::PitchedRows;
use crate::element::Element;
use crate::error::DeviceError;
use crate::queue::Queue;

/// Alignment of rows in bytes: that of cuMemAllocPitch on all current GPUs. OpenCL prescribes none.
const ROW_ALIGNMENT: usize = 512;

/// An array of `height` rows of `width` elements in device memory, freed when dropped.
///
/// ```
/// use orrery_device::{Device, DeviceChoice};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let rows = device.pitched::<f32>(3, 2)?;
/// device.queue().write_2d(&rows, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut host = [0.0; 6];
/// device.queue().read_2d(&rows, &mut host)?;
/// assert_eq!(host, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert!(rows.pitch() >= 128);
/// # Ok(())
/// # }
/// ```
pub struct Pitched<T: Element> {
    /// All rows with their padding.
    buffer: Buffer<T>,
    width: usize,
    height: usize,
    /// Elements from the start of a row to that of the next.
    pitch: usize,
}

impl<T: Element> Pitched<T> {
    pub(crate) fn zeros(device: &Device, width: usize, height: usize) -> Result<Self, DeviceError> {
        // Both are powers of two, and so are the sizes of all element types.
        let alignment = ROW_ALIGNMENT.max(device.properties().range_alignment) / size_of::<T>();
        // A size that overflows is more than any device has.
        let pitch = width.checked_next_multiple_of(alignment).unwrap_or(usize::MAX);
        Ok(Self { buffer: device.zeros(pitch.saturating_mul(height))?, width, height, pitch })
    }

    /// Returns the number of elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of elements from the start of a row to that of the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Returns the device of the array.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// Returns all rows with their padding, as the argument of a kernel.
    pub(crate) fn range(&self) -> BufferRange<'_, T> {
        (&self.buffer).into()
    }

    fn rows(&self) -> PitchedRows {
        let size = size_of::<T>();
        PitchedRows {
            memory: self.buffer.handle(),
            pitch: self.pitch * size,
            row_bytes: self.width * size,
            rows: self.height,
        }
    }

    fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    fn expect_len(&self, got: usize) -> Result<(), DeviceError> {
        let expected = self.width * self.height;
        if got == expected {
            return Ok(());
        }
        Err(DeviceError::Length { device: self.device().title(), expected, got })
    }
}

impl Queue {
    /// Copies `from`, which has width * height elements row by row, to the array. Returns when
    /// `from` may be reused.
    pub fn write_2d<T: Element>(&self, to: &Pitched<T>, from: &[T]) -> Result<(), DeviceError> {
        self.expect_same_device("an array", to.device())?;
        to.expect_len(from.len())?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: both ends have the same rows, and the call returns after `from` was read.
        unsafe { self.device().driver().write_rows(self.handle(), to.rows(), from.as_ptr().cast()) }
            .map_err(|fault| self.device().error_from(fault, Some(size_of_val(from) as u64)))
    }

    /// Copies the array to `to`, which has width * height elements, row by row, after all work
    /// queued before. Waits for it.
    pub fn read_2d<T: Element>(&self, from: &Pitched<T>, to: &mut [T]) -> Result<(), DeviceError> {
        self.expect_same_device("an array", from.device())?;
        from.expect_len(to.len())?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both ends have the same rows, and the call returns after `to` was written.
        unsafe { self.device().driver().read_rows(self.handle(), from.rows(), to.as_mut_ptr().cast()) }
            .map_err(|fault| self.device().error_from(fault, Some(size_of_val(to) as u64)))
    }

    /// Queues a copy between two arrays of the same width and height. Does not wait.
    pub fn copy_2d<T: Element>(&self, from: &Pitched<T>, to: &Pitched<T>) -> Result<(), DeviceError> {
        self.expect_same_device("an array", from.device())?;
        self.expect_same_device("an array", to.device())?;
        if (from.width, from.height) != (to.width, to.height) {
            let message = format!(
                "{} x {} elements to {} x {}, expected the same size",
                from.width, from.height, to.width, to.height
            );
            let device = self.device().title();
            return Err(DeviceError::Call { device, call: "copy_2d", size: None, message });
        }
        if from.is_empty() || std::ptr::eq(from, to) {
            return Ok(());
        }
        // SAFETY: both arrays are valid and belong to this driver, have the same rows, and are
        // different memory.
        unsafe { self.device().driver().copy_rows(self.handle(), from.rows(), to.rows()) }
            .map_err(|fault| self.device().error_from(fault, None))
    }
}

impl<T: Element> fmt::Debug for Pitched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, pitch, .. } = self;
        let (name, label) = (std::any::type_name::<T>(), self.device().label());
        write!(f, "Pitched<{name}>({width} x {height}, pitch {pitch}, on {label})")
    }
}
