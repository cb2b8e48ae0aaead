//! Queues of work for a device.

use std::fmt;

use crate::buffer::BufferRange;
use crate::choice::Backend;
use crate::constant::Constant;
use crate::device::Device;
use crate::driver::{
    Argument, DriverFault, Handle, MAX_ARGUMENTS, MemorySlice, PrefetchTarget, waits_after_launch,
};
use crate::element::Element;
use crate::error::DeviceError;
use crate::event::Event;
use crate::host_access::Managed;
use crate::kernel::Kernel;
use crate::launch::{Arg, Dim3};
use crate::pending_copy::HostRange;

/// An in-order queue of a device (a CUDA stream, an OpenCL command queue). May be used from several
/// threads.
pub struct Queue {
    device: Device,
    handle: Handle,
}

impl Queue {
    pub(crate) fn new(device: Device, handle: Handle) -> Self {
        Self { device, handle }
    }

    /// Returns the device of the queue.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues a launch of `grid` blocks of `block` threads, for example `1024` blocks of `[32, 8]`
    /// threads. Does not wait, and does nothing if there are no blocks. With ORRERY_DEBUG=1 it
    /// waits, so that a failing kernel is named.
    ///
    /// Returns an error if `args` differ from the kernel's declaration in number, order or type.
    pub fn launch(
        &self,
        kernel: &Kernel,
        grid: impl Into<Dim3>,
        block: impl Into<Dim3>,
        args: &[Arg<'_>],
    ) -> Result<(), DeviceError> {
        self.launch_packed(kernel, grid.into(), block.into(), args, false)
    }

    /// As [`Queue::launch`], for a kernel whose blocks wait for one another. All of them run at the
    /// same time. Returns an error if the device cannot run so many
    /// ([`Kernel::blocks_per_sm`]). With OpenCL there may be only one block.
    pub fn launch_cooperative(
        &self,
        kernel: &Kernel,
        grid: impl Into<Dim3>,
        block: impl Into<Dim3>,
        args: &[Arg<'_>],
    ) -> Result<(), DeviceError> {
        self.launch_packed(kernel, grid.into(), block.into(), args, true)
    }

    fn launch_packed(
        &self,
        kernel: &Kernel,
        grid: Dim3,
        block: Dim3,
        args: &[Arg<'_>],
        is_cooperative: bool,
    ) -> Result<(), DeviceError> {
        if grid.count() == 0 {
            return Ok(());
        }
        if *kernel.device() != self.device {
            return Err(self.wrong_device(format!("kernel {}", kernel.name()), kernel.device()));
        }
        let launch_error = |message: String| DeviceError::Launch {
            device: self.device.title(),
            kernel: kernel.name().to_owned(),
            grid,
            block,
            message,
        };
        let largest = kernel.resources().max_block_size;
        if block.count() == 0 || block.count() > u64::from(largest) {
            return Err(launch_error(format!("expected 1 to {largest} threads per block")));
        }
        kernel.check_arguments(args).map_err(launch_error)?;
        let mut arguments = [Argument::default(); MAX_ARGUMENTS];
        for (i, arg) in args.iter().enumerate() {
            self.expect_usable(kernel, i, arg)?;
            if let Arg::Buffer(buffer) = arg {
                let alignment = self.device.properties().range_alignment;
                if !buffer.slice.offset.is_multiple_of(alignment) {
                    let start = buffer.slice.offset;
                    let message = format!(
                        "argument {}: the range starts at byte {start}, expected a multiple of {alignment}",
                        i + 1
                    );
                    return Err(launch_error(message));
                }
                buffer.memory.record_use_by(&self.device);
            }
            arguments[i] = arg.pack();
        }
        let (driver, shared) = (self.device.driver(), kernel.dynamic_shared());
        // SAFETY: queue, kernel, buffers and textures are valid and belong to this driver or a
        // peer. Number, order and types of the arguments are those of the kernel's declaration. A
        // buffer or texture that is dropped before the kernel has run is freed after it.
        let launched = unsafe {
            let (handle, arguments) = (kernel.handle(), &arguments[..args.len()]);
            if is_cooperative {
                driver.launch_cooperative(self.handle, handle, grid, block, shared, arguments)
            } else {
                driver.launch(self.handle, handle, grid, block, shared, arguments)
            }
        };
        launched.map_err(|fault| launch_error(fault.into_message()))?;
        if waits_after_launch() {
            // SAFETY: the queue is valid.
            unsafe { driver.finish(self.handle) }.map_err(|fault| launch_error(fault.into_message()))?;
        }
        Ok(())
    }

    /// Checks that this device can use the memory of the argument with this index.
    fn expect_usable(&self, kernel: &Kernel, index: usize, arg: &Arg<'_>) -> Result<(), DeviceError> {
        let owner = match arg {
            Arg::Buffer(buffer) if !self.device.accepts_buffers_of(buffer.memory.device()) => {
                buffer.memory.device()
            }
            Arg::Texture(texture) if *texture.device() != self.device => texture.device(),
            _ => return Ok(()),
        };
        Err(self.wrong_device(format!("argument {} of kernel {}", index + 1, kernel.name()), owner))
    }

    /// Copies `from` to a buffer or range of the same length. Returns when `from` may be reused.
    pub fn write<'a, T: Element>(
        &self,
        to: impl Into<BufferRange<'a, T>>,
        from: &[T],
    ) -> Result<(), DeviceError> {
        let to = to.into();
        self.expect_same_device("a buffer", to.device())?;
        to.expect_len(from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both ends have the same number of bytes, and the call returns after `from` was
        // read.
        unsafe { self.device.driver().write(self.handle, to.slice(), from.as_ptr().cast()) }
            .map_err(|fault| self.copy_error(fault, to.slice()))
    }

    /// Copies `values` to a constant array of the same length, after all work queued before.
    /// Kernels of other queues must not be running. Returns when `values` may be reused.
    pub fn write_constant<T: Element>(&self, to: &Constant<T>, values: &[T]) -> Result<(), DeviceError> {
        self.write(to.range(), values)
    }

    /// Copies a buffer or range to `to` of the same length, after all work queued before. Waits for
    /// it.
    pub fn read<'a, T: Element>(
        &self,
        from: impl Into<BufferRange<'a, T>>,
        to: &mut [T],
    ) -> Result<(), DeviceError> {
        let from = from.into();
        self.expect_same_device("a buffer", from.device())?;
        from.expect_len(to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: both ends have the same number of bytes, and the call returns after `to` was
        // written.
        unsafe { self.device.driver().read(self.handle, from.slice(), to.as_mut_ptr().cast()) }
            .map_err(|fault| self.copy_error(fault, from.slice()))
    }

    /// Queues a copy of page-locked memory to a buffer or range of the same length, after the last
    /// copy of this memory. Does not wait. Mutable access to a [`Pinned`](crate::Pinned) waits
    /// until the copy is done. No other process may write to a
    /// [`SharedPinned`](crate::SharedPinned) until then.
    ///
    /// `queue.write_async(&buffer, pinned.first(buffer.len()))` reads the first elements only.
    pub fn write_async<'a, 'h, T: Element>(
        &self,
        to: impl Into<BufferRange<'a, T>>,
        from: impl Into<HostRange<'h, T>>,
    ) -> Result<Event, DeviceError> {
        self.copy_async(to.into(), from.into(), |slice, address| {
            // SAFETY: both ends have the same number of bytes. The owner of the host memory waits
            // for the copy before it writes to the memory or frees it.
            unsafe { self.device.driver().write_async(self.handle, slice, address) }
        })
    }

    /// Queues a copy of a buffer or range to page-locked memory of the same length, after the last
    /// copy of this memory. Does not wait: the memory has the elements when the event is done.
    /// Access to a [`Pinned`](crate::Pinned) waits for the event. No other process may use a
    /// [`SharedPinned`](crate::SharedPinned) until then.
    pub fn read_async<'a, 'h, T: Element>(
        &self,
        from: impl Into<BufferRange<'a, T>>,
        to: impl Into<HostRange<'h, T>>,
    ) -> Result<Event, DeviceError> {
        self.copy_async(from.into(), to.into(), |slice, address| {
            // SAFETY: both ends have the same number of bytes. The owner of the host memory waits
            // for the copy before it accesses the memory or frees it.
            unsafe { self.device.driver().read_async(self.handle, slice, address) }
        })
    }

    /// Calls `queue_copy`, which queues a copy between a range and host memory of the same length,
    /// after the last copy of this memory. Records the event after it, and stores it with the host
    /// memory.
    fn copy_async<T: Element>(
        &self,
        range: BufferRange<'_, T>,
        mut host: HostRange<'_, T>,
        queue_copy: impl FnOnce(MemorySlice, *mut u8) -> Result<(), DriverFault>,
    ) -> Result<Event, DeviceError> {
        self.expect_same_device("a buffer", range.device())?;
        range.expect_len(host.len())?;
        host.wait();
        let slice = range.slice();
        let queued = if slice.bytes > 0 { queue_copy(slice, host.address()) } else { Ok(()) };
        let queued = queued.map_err(|fault| self.copy_error(fault, slice));
        match queued.and_then(|()| self.record()) {
            Ok(event) => {
                host.pending().set_event(event.clone());
                Ok(event)
            }
            Err(error) => {
                // The copy may be running and no event marks its end, so wait for it here.
                if self.finish().is_err() {
                    host.pending().set_may_be_in_use();
                }
                Err(error)
            }
        }
    }

    /// Queues a copy between two buffers or ranges of the same length, on the same device or on two
    /// CUDA devices. Does not wait. Two ranges of one buffer must not overlap.
    pub fn copy<'a, T: Element>(
        &self,
        from: impl Into<BufferRange<'a, T>>,
        to: impl Into<BufferRange<'a, T>>,
    ) -> Result<(), DeviceError> {
        let (from, to) = (from.into(), to.into());
        to.expect_len(from.len())?;
        let (source, target) = (from.slice(), to.slice());
        if source.bytes == 0 || source == target {
            return Ok(());
        }
        if source.overlaps(&target) {
            let message = "the two ranges of a copy overlap".to_owned();
            let (device, size) = (self.device.title(), Some(source.bytes as u64));
            return Err(DeviceError::Call { device, call: "copy", size, message });
        }
        let driver = self.device.driver();
        let result = if from.device() == to.device() {
            self.expect_same_device("a buffer", from.device())?;
            // SAFETY: both ranges are valid, belong to this driver, have the same number of bytes
            // and do not overlap.
            unsafe { driver.copy(self.handle, source, target) }
        } else {
            let contexts = (from.device().driver().context(), to.device().driver().context());
            let (Some(source_context), Some(target_context)) = contexts else {
                let other = if *from.device() == self.device { to.device() } else { from.device() };
                return Err(self.wrong_device("a buffer".to_owned(), other));
            };
            if *from.device() != self.device {
                self.expect_same_device("a buffer", to.device())?;
            }
            from.memory().record_use_by(&self.device);
            to.memory().record_use_by(&self.device);
            // SAFETY: as above. Contexts are valid until the process ends.
            unsafe { driver.copy_across(self.handle, (source, source_context), (target, target_context)) }
        };
        result.map_err(|fault| self.copy_error(fault, source))
    }

    /// Queues moving all pages of managed memory to the device. Does not wait.
    pub fn prefetch_to_device<T: Element>(&self, managed: &Managed<T>) -> Result<(), DeviceError> {
        self.prefetch(managed, PrefetchTarget::Device)
    }

    /// Queues moving all pages of managed memory to the host. Does not wait.
    pub fn prefetch_to_host<T: Element>(&self, managed: &Managed<T>) -> Result<(), DeviceError> {
        self.prefetch(managed, PrefetchTarget::Host)
    }

    fn prefetch<T: Element>(&self, managed: &Managed<T>, target: PrefetchTarget) -> Result<(), DeviceError> {
        self.expect_same_device("managed memory", managed.device())?;
        if managed.is_empty() {
            return Ok(());
        }
        let slice = managed.range().slice();
        // SAFETY: the memory is managed and valid. Dropping it waits for all queued work.
        unsafe { self.device.driver().prefetch(self.handle, slice, target) }
            .map_err(|fault| self.copy_error(fault, slice))
    }

    /// Queues an event and returns it. It is done after all work queued so far.
    pub fn record(&self) -> Result<Event, DeviceError> {
        // SAFETY: the queue is valid.
        let handle =
            unsafe { self.device.driver().record(self.handle) }.map_err(|fault| self.call_error(fault))?;
        Ok(Event::new(self.device.clone(), handle))
    }

    /// Makes the queue, not the host, wait for an event of the same device. A queue of a CUDA
    /// device also waits for events of other CUDA devices.
    pub fn wait_for(&self, event: &Event) -> Result<(), DeviceError> {
        let is_cuda = |device: &Device| device.properties().backend == Backend::Cuda;
        if !is_cuda(&self.device) || !is_cuda(event.device()) {
            self.expect_same_device("an event", event.device())?;
        }
        // SAFETY: queue and event are valid. They belong to this driver, or both to CUDA, whose
        // events are valid in all contexts of the process.
        unsafe { self.device.driver().wait_for(self.handle, event.handle()) }
            .map_err(|fault| self.call_error(fault))
    }

    /// Waits until all queued work is done.
    pub fn finish(&self) -> Result<(), DeviceError> {
        // SAFETY: the queue is valid.
        unsafe { self.device.driver().finish(self.handle) }.map_err(|fault| self.call_error(fault))
    }

    fn call_error(&self, fault: DriverFault) -> DeviceError {
        self.device.error_from(fault, None)
    }

    fn copy_error(&self, fault: DriverFault, slice: MemorySlice) -> DeviceError {
        self.device.error_from(fault, Some(slice.bytes as u64))
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn expect_same_device(&self, what: &str, owner: &Device) -> Result<(), DeviceError> {
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
