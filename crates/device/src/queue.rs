//! Work for a device, done in the order in which it was queued.

use std::fmt;

use crate::buffer::{AnyBuffer, Buffer};
use crate::device::Device;
use crate::driver::{Fault, Handle, MOST_ARGUMENTS, Packed, is_debug};
use crate::element::Element;
use crate::error::DeviceError;
use crate::event::Event;
use crate::kernel::Kernel;
use crate::pinned::Pinned;

/// An in-order queue of a device. May be used from several threads.
pub struct Queue {
    device: Device,
    handle: Handle,
}

/// An argument of a kernel.
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

macro_rules! from {
    ($($kind:ty => $name:ident),*) => { $(
        impl From<$kind> for Arg<'_> {
            fn from(value: $kind) -> Self {
                Self::$name(value)
            }
        }
    )* };
}
from!(i32 => I32, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

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

    /// The device that it feeds.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues `groups` groups of `group` threads; does not wait. No groups: nothing to do. With
    /// ORRERY_DEBUG=1 it waits, so that a kernel that fails is named.
    pub fn launch(
        &self,
        kernel: &Kernel,
        groups: u32,
        group: u32,
        args: &[Arg<'_>],
    ) -> Result<(), DeviceError> {
        if groups == 0 {
            return Ok(());
        }
        if *kernel.device() != self.device {
            return Err(self.foreign(format!("kernel {}", kernel.name()), kernel.device()));
        }
        let failed = |word: String| DeviceError::Launch {
            device: self.device.title(),
            kernel: kernel.name().to_owned(),
            groups,
            group,
            word,
        };
        let largest = kernel.resources().max_block_size;
        if group == 0 || group > largest {
            return Err(failed(format!("a group of this kernel has 1 to {largest} threads")));
        }
        let mut packed = [Packed::default(); MOST_ARGUMENTS];
        kernel.check_count(args.len()).map_err(failed)?;
        for (i, arg) in args.iter().enumerate() {
            if let Arg::Buffer(buffer) = arg
                && !self.device.takes_buffers_of(buffer.device())
            {
                return Err(
                    self.foreign(format!("argument {} of kernel {}", i + 1, kernel.name()), buffer.device())
                );
            }
            packed[i] = arg.pack();
            kernel.check_bytes(i, packed[i].len).map_err(failed)?;
        }
        let driver = self.device.driver();
        // SAFETY: queue, kernel and buffers live and are this driver's; a buffer that is dropped before the
        // kernel has run is freed after it.
        unsafe { driver.launch(self.handle, kernel.handle(), groups, group, &packed[..args.len()]) }
            .map_err(|fault| failed(fault.said()))?;
        if is_debug() {
            // SAFETY: the queue lives.
            unsafe { driver.finish(self.handle) }.map_err(|fault| failed(fault.said()))?;
        }
        Ok(())
    }

    /// Fills a buffer; returns when `from` may be reused.
    pub fn write<T: Element>(&self, to: &Buffer<T>, from: &[T]) -> Result<(), DeviceError> {
        self.expect_own("a buffer", to.device())?;
        to.expect_len(from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(from);
        // SAFETY: both ends have this many bytes, and the call returns when `from` was read.
        unsafe { self.device.driver().write(self.handle, to.handle(), from.as_ptr().cast(), bytes) }
            .map_err(|fault| self.device.fault(fault, Some(bytes as u64)))
    }

    /// Reads a buffer, after all that was queued before.
    pub fn read<T: Element>(&self, from: &Buffer<T>, to: &mut [T]) -> Result<(), DeviceError> {
        self.expect_own("a buffer", from.device())?;
        from.expect_len(to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(to);
        // SAFETY: both ends have this many bytes, and the call returns when `to` was written.
        unsafe { self.device.driver().read(self.handle, from.handle(), to.as_mut_ptr().cast(), bytes) }
            .map_err(|fault| self.device.fault(fault, Some(bytes as u64)))
    }

    /// Reads a buffer without waiting: `to` has the elements once the event is done (looking at `to` waits
    /// for it).
    pub fn read_async<T: Element>(&self, from: &Buffer<T>, to: &mut Pinned<T>) -> Result<Event, DeviceError> {
        self.expect_own("a buffer", from.device())?;
        from.expect_len(to.len())?;
        let (target, bytes) = (to.target(), size_of::<T>() * from.len());
        if bytes > 0 {
            // SAFETY: both ends have this many bytes; `to` keeps the event below and waits for it before
            // anyone reads, writes or frees it.
            unsafe { self.device.driver().read_async(self.handle, from.handle(), target, bytes) }
                .map_err(|fault| self.device.fault(fault, Some(bytes as u64)))?;
        }
        match self.record() {
            Ok(event) => {
                to.set_pending(event.clone());
                Ok(event)
            }
            Err(error) => {
                // The copy may be under way and nothing marks its end: wait for it here.
                let _ = self.finish();
                Err(error)
            }
        }
    }

    /// Copies on the device, or between two CUDA devices; does not wait.
    pub fn copy<T: Element>(&self, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        to.expect_len(from.len())?;
        let bytes = size_of::<T>() * from.len();
        if bytes == 0 || from.handle() == to.handle() {
            return Ok(());
        }
        let driver = self.device.driver();
        let result = if from.device() == to.device() {
            self.expect_own("a buffer", from.device())?;
            // SAFETY: both buffers live, are this driver's and have this many bytes.
            unsafe { driver.copy(self.handle, from.handle(), to.handle(), bytes) }
        } else {
            let (source, target) = (from.device(), to.device());
            let other = if *source == self.device { target } else { source };
            let contexts = (source.driver().context(), target.driver().context());
            let (Some(source_context), Some(target_context)) = contexts else {
                return Err(self.foreign("a buffer".to_owned(), other));
            };
            if *source != self.device {
                self.expect_own("a buffer", target)?;
            }
            let (from, to) = ((from.handle(), source_context), (to.handle(), target_context));
            // SAFETY: as above; contexts live as long as the process.
            unsafe { driver.copy_across(self.handle, from, to, bytes) }
        };
        result.map_err(|fault| self.device.fault(fault, Some(bytes as u64)))
    }

    /// A mark after all that was queued so far.
    pub fn record(&self) -> Result<Event, DeviceError> {
        // SAFETY: the queue lives.
        let handle = unsafe { self.device.driver().record(self.handle) }.map_err(|fault| self.call(fault))?;
        Ok(Event::new(self.device.clone(), handle))
    }

    /// Makes the queue, not the host, wait for an event of the same device.
    pub fn wait_for(&self, event: &Event) -> Result<(), DeviceError> {
        self.expect_own("an event", event.device())?;
        // SAFETY: queue and event live and are this driver's.
        unsafe { self.device.driver().wait_for(self.handle, event.handle()) }
            .map_err(|fault| self.call(fault))
    }

    /// Waits until all that was queued is done.
    pub fn finish(&self) -> Result<(), DeviceError> {
        // SAFETY: the queue lives.
        unsafe { self.device.driver().finish(self.handle) }.map_err(|fault| self.call(fault))
    }

    fn call(&self, fault: Fault) -> DeviceError {
        self.device.fault(fault, None)
    }

    fn expect_own(&self, what: &str, owner: &Device) -> Result<(), DeviceError> {
        if *owner == self.device { Ok(()) } else { Err(self.foreign(what.to_owned(), owner)) }
    }

    #[cold]
    fn foreign(&self, what: String, owner: &Device) -> DeviceError {
        DeviceError::WrongDevice { what, owner: owner.title(), device: self.device.title() }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle; both drivers finish what was queued.
        unsafe { self.device.driver().free_queue(self.handle) };
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.device.label())
    }
}
