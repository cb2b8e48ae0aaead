//! Queues of work for a device.

use std::fmt;

use crate::buffer::{AnyBuffer, Buffer};
use crate::device::Device;
use crate::driver::{Fault, Handle, MAX_ARGUMENTS, Packed, waits_after_launch};
use crate::element::Element;
use crate::error::DeviceError;
use crate::event::Event;
use crate::kernel::Kernel;
use crate::pinned::Pinned;

/// An in-order queue of a device (a CUDA stream, an OpenCL command queue). May be used from several
/// threads.
pub struct Queue {
    device: Device,
    handle: Handle,
}

/// An argument of a kernel launch.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// A pointer to device memory.
    Buffer(&'a dyn AnyBuffer),
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
        Self::Buffer(buffer)
    }
}

impl Arg<'_> {
    fn pack(&self) -> Packed {
        fn packed<const N: usize>(value: [u8; N]) -> Packed {
            let mut bytes = [0; 8];
            bytes[..N].copy_from_slice(&value);
            Packed { bytes, len: N }
        }
        match self {
            Self::Buffer(buffer) => packed(buffer.handle().0.0.to_ne_bytes()),
            Self::I32(value) => packed(value.to_ne_bytes()),
            Self::U32(value) => packed(value.to_ne_bytes()),
            Self::U64(value) => packed(value.to_ne_bytes()),
            Self::F32(value) => packed(value.to_ne_bytes()),
            Self::F64(value) => packed(value.to_ne_bytes()),
        }
    }
}

impl Queue {
    pub(crate) fn new(device: Device, handle: Handle) -> Self {
        Self { device, handle }
    }

    /// Returns the device of the queue.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues a launch of `block_count` blocks of `block_size` threads. Does not wait, and does
    /// nothing if there are no blocks. With ORRERY_DEBUG=1 it waits, so that a failing kernel is
    /// named.
    ///
    /// `args` must match the kernel's parameters in number, order and type. Their number and sizes
    /// are checked as far as the driver reports them.
    pub fn launch(
        &self,
        kernel: &Kernel,
        block_count: u32,
        block_size: u32,
        args: &[Arg<'_>],
    ) -> Result<(), DeviceError> {
        if block_count == 0 {
            return Ok(());
        }
        if *kernel.device() != self.device {
            return Err(self.wrong_device(format!("kernel {}", kernel.name()), kernel.device()));
        }
        let launch_error = |message: String| DeviceError::Launch {
            device: self.device.title(),
            kernel: kernel.name().to_owned(),
            block_count,
            block_size,
            message,
        };
        let largest = kernel.resources().max_block_size;
        if block_size == 0 || block_size > largest {
            return Err(launch_error(format!("expected 1 to {largest} threads per block")));
        }
        let mut packed = [Packed::default(); MAX_ARGUMENTS];
        kernel.check_argument_count(args.len()).map_err(launch_error)?;
        for (i, arg) in args.iter().enumerate() {
            if let Arg::Buffer(buffer) = arg
                && !self.device.accepts_buffers_of(buffer.device())
            {
                let what = format!("argument {} of kernel {}", i + 1, kernel.name());
                return Err(self.wrong_device(what, buffer.device()));
            }
            packed[i] = arg.pack();
            kernel.check_argument_size(i, packed[i].len).map_err(launch_error)?;
        }
        let driver = self.device.driver();
        // SAFETY: queue, kernel and buffers are valid and belong to this driver. A buffer that is
        // dropped before the kernel has run is freed after it.
        unsafe {
            driver.launch(self.handle, kernel.handle(), block_count, block_size, &packed[..args.len()])
        }
        .map_err(|fault| launch_error(fault.into_message()))?;
        if waits_after_launch() {
            // SAFETY: the queue is valid.
            unsafe { driver.finish(self.handle) }.map_err(|fault| launch_error(fault.into_message()))?;
        }
        Ok(())
    }

    /// Copies `from` to the buffer `to` of the same length. Returns when `from` may be reused.
    pub fn write<T: Element>(&self, to: &Buffer<T>, from: &[T]) -> Result<(), DeviceError> {
        self.expect_same_device("a buffer", to.device())?;
        to.expect_len(from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(from);
        // SAFETY: both ends have this many bytes, and the call returns after `from` was read.
        unsafe { self.device.driver().write(self.handle, to.handle(), from.as_ptr().cast(), bytes) }
            .map_err(|fault| self.device.error_from(fault, Some(bytes as u64)))
    }

    /// Copies the buffer `from` to `to` of the same length, after all work queued before. Waits for
    /// it.
    pub fn read<T: Element>(&self, from: &Buffer<T>, to: &mut [T]) -> Result<(), DeviceError> {
        self.expect_same_device("a buffer", from.device())?;
        from.expect_len(to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(to);
        // SAFETY: both ends have this many bytes, and the call returns after `to` was written.
        unsafe { self.device.driver().read(self.handle, from.handle(), to.as_mut_ptr().cast(), bytes) }
            .map_err(|fault| self.device.error_from(fault, Some(bytes as u64)))
    }

    /// Queues a copy of the buffer `from` to `to` of the same length. Does not wait: `to` has the
    /// elements when the event is done. Access to `to` waits for the event.
    pub fn read_async<T: Element>(&self, from: &Buffer<T>, to: &mut Pinned<T>) -> Result<Event, DeviceError> {
        self.expect_same_device("a buffer", from.device())?;
        from.expect_len(to.len())?;
        let (target, bytes) = (to.copy_target(), size_of::<T>() * from.len());
        let queued = if bytes > 0 {
            // SAFETY: both ends have this many bytes. `to` stores the event below and waits for it
            // before its memory is read, written or freed.
            unsafe { self.device.driver().read_async(self.handle, from.handle(), target, bytes) }
                .map_err(|fault| self.device.error_from(fault, Some(bytes as u64)))
        } else {
            Ok(())
        };
        match queued.and_then(|()| self.record()) {
            Ok(event) => {
                to.set_pending(event.clone());
                Ok(event)
            }
            Err(error) => {
                // The copy may be running and no event marks its end, so wait for it here.
                if self.finish().is_err() {
                    to.set_may_be_in_use();
                }
                Err(error)
            }
        }
    }

    /// Queues a copy between two buffers of the same length, on the same device or on two CUDA
    /// devices. Does not wait.
    pub fn copy<T: Element>(&self, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        to.expect_len(from.len())?;
        let bytes = size_of::<T>() * from.len();
        if bytes == 0 || from.handle() == to.handle() {
            return Ok(());
        }
        let driver = self.device.driver();
        let result = if from.device() == to.device() {
            self.expect_same_device("a buffer", from.device())?;
            // SAFETY: both buffers are valid, belong to this driver and have this many bytes.
            unsafe { driver.copy(self.handle, from.handle(), to.handle(), bytes) }
        } else {
            let (source, target) = (from.device(), to.device());
            let other = if *source == self.device { target } else { source };
            let contexts = (source.driver().context(), target.driver().context());
            let (Some(source_context), Some(target_context)) = contexts else {
                return Err(self.wrong_device("a buffer".to_owned(), other));
            };
            if *source != self.device {
                self.expect_same_device("a buffer", target)?;
            }
            let (from, to) = ((from.handle(), source_context), (to.handle(), target_context));
            // SAFETY: as above. Contexts are valid until the process ends.
            unsafe { driver.copy_across(self.handle, from, to, bytes) }
        };
        result.map_err(|fault| self.device.error_from(fault, Some(bytes as u64)))
    }

    /// Queues an event and returns it. It is done after all work queued so far.
    pub fn record(&self) -> Result<Event, DeviceError> {
        // SAFETY: the queue is valid.
        let handle =
            unsafe { self.device.driver().record(self.handle) }.map_err(|fault| self.call_error(fault))?;
        Ok(Event::new(self.device.clone(), handle))
    }

    /// Makes the queue, not the host, wait for an event of the same device.
    pub fn wait_for(&self, event: &Event) -> Result<(), DeviceError> {
        self.expect_same_device("an event", event.device())?;
        // SAFETY: queue and event are valid and belong to this driver.
        unsafe { self.device.driver().wait_for(self.handle, event.handle()) }
            .map_err(|fault| self.call_error(fault))
    }

    /// Waits until all queued work is done.
    pub fn finish(&self) -> Result<(), DeviceError> {
        // SAFETY: the queue is valid.
        unsafe { self.device.driver().finish(self.handle) }.map_err(|fault| self.call_error(fault))
    }

    fn call_error(&self, fault: Fault) -> DeviceError {
        self.device.error_from(fault, None)
    }

    fn expect_same_device(&self, what: &str, owner: &Device) -> Result<(), DeviceError> {
        if *owner == self.device { Ok(()) } else { Err(self.wrong_device(what.to_owned(), owner)) }
    }

    #[cold]
    fn wrong_device(&self, what: String, owner: &Device) -> DeviceError {
        DeviceError::WrongDevice { what, owner: owner.title(), device: self.device.title() }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: this was the last user of the handle. Both drivers finish queued work.
        unsafe { self.device.driver().free_queue(self.handle) };
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.device.label())
    }
}
