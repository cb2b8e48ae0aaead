//! c ← α a + b with arrays that host and device both access, without copies in the program.
//!
//! Mapped memory stays on the host. The kernel reads a and b and writes c over the link, each
//! element once: "zero copy". Managed memory moves by pages to the side that accesses it. A kernel
//! that accesses a page of the host waits for a page fault, unless the pages were moved before by a
//! prefetch. Managed memory starts on the host.

use orrery_device::{Device, DeviceError, Managed, Mapped, Queue};

use super::segments::{SaxpySegment, check_output, fill_inputs};

/// Elements per page of 4 KiB, the smallest unit that moves.
const ELEMENTS_PER_PAGE: usize = 1024;

/// Writes to one element of each page, without a change of its value. The pages move to the host.
fn touch_pages(elements: &mut [f32]) {
    for element in elements.iter_mut().step_by(ELEMENTS_PER_PAGE) {
        *element = std::hint::black_box(*element);
    }
}

/// SAXPY with mapped arrays.
#[derive(Debug)]
pub struct MappedSaxpy {
    kernel: SaxpySegment,
    a: Mapped<f32>,
    b: Mapped<f32>,
    c: Mapped<f32>,
}

impl MappedSaxpy {
    /// Allocates arrays of `n` elements, 1 to 2^32 - 1, and writes the inputs.
    pub fn new(device: &Device, n: usize) -> Result<Self, DeviceError> {
        let kernel = SaxpySegment::new(device)?;
        let (mut a, mut b, mut c) = (device.mapped(n)?, device.mapped(n)?, device.mapped(n)?);
        a.with_host(|a| b.with_host(|b| fill_inputs(0, a, b)))??;
        c.with_host(|c| c.fill(f32::NAN))?;
        Ok(Self { kernel, a, b, c })
    }

    /// Computes c and waits.
    pub fn run(&self, queue: &Queue) -> Result<(), DeviceError> {
        let arrays = [(&self.a).into(), (&self.b).into(), (&self.c).into()];
        self.kernel.launch(queue, self.a.len(), arrays)?;
        queue.finish()
    }

    /// Checks c. The inner error names the first wrong element.
    pub fn check_output(&mut self) -> Result<Result<(), String>, DeviceError> {
        self.c.with_host(|c| check_output(0, c))
    }
}

/// SAXPY with managed arrays.
#[derive(Debug)]
pub struct ManagedSaxpy {
    kernel: SaxpySegment,
    a: Managed<f32>,
    b: Managed<f32>,
    c: Managed<f32>,
}

impl ManagedSaxpy {
    /// Allocates arrays of `n` elements, 1 to 2^32 - 1, and writes the inputs. Returns an error if
    /// the device has no managed memory.
    pub fn new(device: &Device, n: usize) -> Result<Self, DeviceError> {
        let kernel = SaxpySegment::new(device)?;
        let (mut a, mut b, mut c) = (device.managed(n)?, device.managed(n)?, device.managed(n)?);
        a.with_host(|a| b.with_host(|b| fill_inputs(0, a, b)))??;
        c.with_host(|c| c.fill(f32::NAN))?;
        Ok(Self { kernel, a, b, c })
    }

    /// Moves all pages to the host.
    pub fn move_to_host(&mut self) -> Result<(), DeviceError> {
        self.a.with_host(touch_pages)?;
        self.b.with_host(touch_pages)?;
        self.c.with_host(touch_pages)
    }

    /// Computes c and waits. Pages that are on the host move to the device one by one.
    pub fn run_kernel(&self, queue: &Queue) -> Result<(), DeviceError> {
        self.launch(queue)?;
        queue.finish()
    }

    /// Computes c, and moves it back to the host by page faults of the CPU.
    pub fn run_with_faults(&mut self, queue: &Queue) -> Result<(), DeviceError> {
        self.run_kernel(queue)?;
        self.c.with_host(touch_pages)
    }

    /// Moves all arrays to the device, computes c and moves it back to the host.
    pub fn run_with_prefetches(&mut self, queue: &Queue) -> Result<(), DeviceError> {
        for array in [&self.a, &self.b, &self.c] {
            queue.prefetch_to_device(array)?;
        }
        self.launch(queue)?;
        queue.prefetch_to_host(&self.c)?;
        self.c.with_host(touch_pages)
    }

    fn launch(&self, queue: &Queue) -> Result<(), DeviceError> {
        let arrays = [(&self.a).into(), (&self.b).into(), (&self.c).into()];
        self.kernel.launch(queue, self.a.len(), arrays)
    }

    /// Overwrites c with NaN.
    pub fn clear_output(&mut self) -> Result<(), DeviceError> {
        self.c.with_host(|c| c.fill(f32::NAN))
    }

    /// Checks c. The inner error names the first wrong element.
    pub fn check_output(&mut self) -> Result<Result<(), String>, DeviceError> {
        self.c.with_host(|c| check_output(0, c))
    }
}
