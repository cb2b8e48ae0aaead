//! Page-locked host memory that processes of one computer share.
//!
//! The device of one process copies into it, and the device of another one copies out of it. Each
//! process registers its mapping with its driver, so both copies have the rate of page-locked
//! memory and need no core.
//!
//! Invariant: another process may write to the memory at any time, so this process never has a
//! reference to the contents and never accesses them: only devices do. While a copy of this process
//! is running, `pending` is the event after it. The memory is unregistered and unmapped only after
//! that event. Memory whose copy cannot be waited for is never freed.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::device::Device;
use crate::element::Element;
use crate::error::DeviceError;
use crate::pending_copy::{HostRange, PendingCopy};
use crate::shared_memory::{SharedMemory, SharedName};

/// `len` elements of page-locked host memory that another process can open. Queues copy from and to
/// it ([`Queue::read_async`](crate::Queue::read_async),
/// [`Queue::write_async`](crate::Queue::write_async)). The processes must agree when each of them
/// may: nothing here orders copies of different processes.
pub struct SharedPinned<T: Element> {
    registration: Arc<Registration>,
    name: SharedName,
    len: usize,
    pending: PendingCopy,
    element: PhantomData<T>,
}

/// Shared memory that the driver of a device has page-locked. Dropping it unregisters the memory
/// first and then unmaps it.
struct Registration {
    device: Device,
    memory: SharedMemory,
}

impl Registration {
    fn new(device: &Device, memory: SharedMemory) -> Result<Self, String> {
        // SAFETY: the mapping has this many bytes, and `drop` unregisters it before it ends.
        unsafe { device.driver().register_host(memory.pointer(), memory.mapped_bytes()) }
            .map_err(|fault| fault.message)?;
        Ok(Self { device: device.clone(), memory })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: `new` registered the memory, which is unmapped after this call. Its owner has
        // waited for its copies.
        unsafe { self.device.driver().unregister_host(self.memory.pointer()) };
    }
}

impl<T: Element> SharedPinned<T> {
    fn create(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let created = SharedMemory::create(bytes).map_err(|error| error.to_string());
        let registered = created.and_then(|(memory, name)| Ok((Registration::new(device, memory)?, name)));
        let (registration, name) = registered.map_err(|message| new_error(device, bytes, message))?;
        Ok(Self::new(registration, name, len))
    }

    fn open(device: &Device, name: &SharedName) -> Result<Self, DeviceError> {
        let bytes = name.bytes();
        if !bytes.is_multiple_of(size_of::<T>() as u64) {
            let message = format!("expected a multiple of {} bytes", size_of::<T>());
            return Err(new_error(device, bytes, message));
        }
        let opened = SharedMemory::open(name).map_err(|error| error.to_string());
        let registration = opened
            .and_then(|memory| Registration::new(device, memory))
            .map_err(|message| new_error(device, bytes, message))?;
        // The memory is mapped, so its size fits in usize.
        Ok(Self::new(registration, name.clone(), bytes as usize / size_of::<T>()))
    }

    fn new(registration: Registration, name: SharedName, len: usize) -> Self {
        let registration = Arc::new(registration);
        Self { registration, name, len, pending: PendingCopy::default(), element: PhantomData }
    }

    /// Returns the name with which another process opens the memory.
    pub fn name(&self) -> &SharedName {
        &self.name
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the first `len` elements as one end of an asynchronous copy.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn first(&mut self, len: usize) -> HostRange<'_, T> {
        let address = self.registration.memory.pointer();
        // SAFETY: the memory has `self.len` elements, the host never accesses them, and drop waits
        // for `pending`.
        unsafe { HostRange::new(address, len, self.len, &mut self.pending) }
    }
}

impl<'a, T: Element> From<&'a mut SharedPinned<T>> for HostRange<'a, T> {
    fn from(memory: &'a mut SharedPinned<T>) -> Self {
        memory.first(memory.len)
    }
}

impl<T: Element> Drop for SharedPinned<T> {
    fn drop(&mut self) {
        self.pending.wait();
        if self.pending.may_be_in_use() {
            // Leak the memory: a failed wait does not prove that the copy has ended.
            std::mem::forget(Arc::clone(&self.registration));
        }
    }
}

impl<T: Element> fmt::Debug for SharedPinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.registration.device.label();
        write!(f, "SharedPinned<{}>({} for {label})", std::any::type_name::<T>(), self.len)
    }
}

fn new_error(device: &Device, bytes: u64, message: String) -> DeviceError {
    let call = "shared page-locked memory";
    DeviceError::Call { device: device.title(), call, size: Some(bytes), message }
}

impl Device {
    /// Allocates page-locked host memory that other processes of this computer can open,
    /// initialised to zero. Only Linux has it, and containers may forbid it, so callers need
    /// another path.
    pub fn new_shared_pinned<T: Element>(&self, len: usize) -> Result<SharedPinned<T>, DeviceError> {
        SharedPinned::create(self, len)
    }

    /// Opens memory of [`Device::new_shared_pinned`] with the same element type, usually of another
    /// process. Its creator must have it until this call returns, and may drop it then.
    ///
    /// Returns an error if the name belongs to another computer or container, or does not refer to
    /// such memory.
    pub fn open_shared_pinned<T: Element>(&self, name: &SharedName) -> Result<SharedPinned<T>, DeviceError> {
        SharedPinned::open(self, name)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::choice::DeviceChoice;
    use crate::testing::test_devices;

    /// Not a multiple of a page.
    const LEN: usize = 100_003;

    fn numbers(first: usize) -> Vec<f32> {
        (first..first + LEN).map(|number| number as f32).collect()
    }

    #[test]
    fn elements_pass_from_one_mapping_to_another() {
        for device in test_devices() {
            for len in [0, 1, LEN] {
                let values = &numbers(5)[..len];
                let mut created = device.new_shared_pinned::<f32>(len).unwrap();
                let mut opened = device.open_shared_pinned::<f32>(created.name()).unwrap();
                assert_eq!((created.len(), opened.len()), (len, len));
                let (from, to) = (device.upload(values).unwrap(), device.upload(values).unwrap());
                device.queue().write_async(&to, &mut opened).unwrap();
                assert_eq!(to.to_vec().unwrap(), vec![0.0; len], "new memory is zero");
                device.queue().read_async(&from, &mut created).unwrap().wait().unwrap();
                // The other mapping keeps the memory.
                drop(created);
                device.queue().write_async(&to, &mut opened).unwrap();
                assert_eq!(to.to_vec().unwrap(), values);
            }
        }
    }

    /// Memory may be dropped while its copy is queued.
    #[test]
    fn a_drop_waits_for_the_copy() {
        for device in test_devices() {
            let (from, to) = (device.upload(&numbers(1)).unwrap(), device.zeros::<f32>(LEN).unwrap());
            let mut created = device.new_shared_pinned::<f32>(LEN).unwrap();
            let mut opened = device.open_shared_pinned::<f32>(created.name()).unwrap();
            device.queue().read_async(&from, &mut created).unwrap();
            drop(created);
            device.queue().write_async(&to, &mut opened).unwrap();
            drop(opened);
            assert_eq!(to.to_vec().unwrap(), numbers(1));
        }
    }

    #[test]
    fn wrong_lengths_and_types_are_refused() {
        for device in test_devices() {
            let mut memory = device.new_shared_pinned::<f32>(3).unwrap();
            assert!(device.open_shared_pinned::<f64>(memory.name()).is_err());
            let buffer = device.zeros::<f32>(4).unwrap();
            for result in [
                device.queue().read_async(&buffer, &mut memory),
                device.queue().write_async(&buffer, &mut memory),
            ] {
                assert!(matches!(result, Err(DeviceError::Length { expected: 4, got: 3, .. })), "{result:?}");
            }
            let too_long = device.new_shared_pinned::<f32>(usize::MAX);
            let message = too_long.unwrap_err().to_string();
            assert!(message.contains("shared page-locked memory of 16.0 EiB: exceeds"), "{message}");
        }
    }

    /// Device and name of the memory that the process of the next test opens.
    const CHILD: &str = "ORRERY_TEST_SHARED_PINNED";

    /// Reads the memory of the parent process, checks it and writes other numbers.
    fn run_child(device: &str, name: &str) {
        let choice: DeviceChoice = device.parse().unwrap();
        let device = Device::open(choice).unwrap().unwrap();
        let name = SharedName::from_text(name).unwrap();
        let mut memory = device.open_shared_pinned::<f32>(&name).unwrap();
        let buffer = device.zeros::<f32>(memory.len()).unwrap();
        device.queue().write_async(&buffer, &mut memory).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), numbers(10));
        let answer = device.upload(&numbers(20)).unwrap();
        device.queue().read_async(&answer, &mut memory).unwrap().wait().unwrap();
    }

    /// Starts this test again as another process.
    #[test]
    fn elements_pass_to_another_process_and_back() {
        if let Ok(text) = std::env::var(CHILD) {
            let (device, name) = text.split_once(' ').unwrap();
            return run_child(device, name);
        }
        for device in test_devices() {
            let mut memory = device.new_shared_pinned::<f32>(LEN).unwrap();
            let buffer = device.upload(&numbers(10)).unwrap();
            device.queue().read_async(&buffer, &mut memory).unwrap().wait().unwrap();
            let test = "shared_pinned::tests::elements_pass_to_another_process_and_back";
            let child = Command::new(std::env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture"])
                .envs(crate::child_environment())
                .env(CHILD, format!("{} {}", device.label(), memory.name().to_text()))
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && output.contains("1 passed"), "{child:?}");
            device.queue().write_async(&buffer, &mut memory).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), numbers(20));
        }
    }
}
