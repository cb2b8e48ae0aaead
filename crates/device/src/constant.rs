//! Arrays in constant memory that the host writes.
//!
//! A kernel file declares `CONSTANT_ARRAY(float4, sources, 1024);`. On CUDA the array is a
//! `__constant__` variable of the module. OpenCL has no such variables, so the array is a buffer in
//! constant memory, and an argument of every kernel that uses it.
//!
//! Invariant: each build of a file has its own arrays, and an array of a build belongs to at most
//! one [`Constant`]. So nobody else changes the values. On CUDA, builds do not share a module with
//! arrays.

use std::fmt;
use std::sync::PoisonError;

use crate::buffer::{Buffer, BufferRange};
use crate::device::Device;
use crate::element::{Element, ElementType};
use crate::error::{DeviceError, format_bytes};
use crate::kernel::Module;
use crate::memory::DeviceMemory;

/// Size of constant memory: all of it on CUDA, and the least that every OpenCL device has.
const MAX_BYTES: usize = 64 << 10;

/// An array of `len` elements in the constant memory of a module. Its values are undefined until
/// [`Queue::write_constant`](crate::Queue::write_constant) writes them.
///
/// ```
/// use orrery_device::{Device, DeviceChoice, KernelFile, Math};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let text = "CONSTANT_ARRAY(float, weights, 4);
/// KERNEL(4) scale(GLOBAL float* x, CONSTANT_POINTER const float* weights_argument)
/// {
///     x[THREAD] *= CONSTANT_VALUES(weights)[THREAD];
/// }";
/// // SAFETY: the kernel accesses 4 elements, and x and the array have 4.
/// let file = unsafe { KernelFile::new("scale.cu", text) };
/// let module = device.build(&file, &[], Math::Precise)?;
/// let (scale, weights) = (module.kernel("scale")?, module.constant::<f32>("weights", 4)?);
/// let x = device.upload(&[1.0f32; 4])?;
/// device.queue().write_constant(&weights, &[1.0, 2.0, 3.0, 4.0])?;
/// device.queue().launch(&scale, 1, 4, &[(&x).into(), (&weights).into()])?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct Constant<T: Element> {
    values: ConstantValues<T>,
    len: usize,
    name: String,
    module: Module,
}

enum ConstantValues<T: Element> {
    /// A variable of the module.
    Variable(DeviceMemory),
    /// A buffer, which kernels get as an argument.
    Buffer(Buffer<T>),
}

impl Module {
    /// Returns the constant array with this name, which the file declares with `len` elements of
    /// this type. Every build has its own arrays. There may be one [`Constant`] of a name and a
    /// build at a time.
    pub fn constant<T: Element>(&self, name: &str, len: usize) -> Result<Constant<T>, DeviceError> {
        let (module, device) = (&self.code, &self.code.device);
        let call_error = |message: String| DeviceError::Call {
            device: device.title(),
            call: "constant",
            size: None,
            message: format!("{}: {message}", module.name),
        };
        let declared = module.declarations.constants.get(name);
        let declared = declared.ok_or_else(|| call_error(format!("no CONSTANT_ARRAY '{name}'")))?;
        let element = ElementType::of::<T>();
        if declared.element.as_unsigned() != element.as_unsigned() || declared.len != len {
            return Err(call_error(format!(
                "'{name}' is declared with {} elements of type {}, got {len} of type {element}",
                declared.len, declared.element
            )));
        }
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes > MAX_BYTES {
            let (bytes, limit) = (format_bytes(bytes as u64), format_bytes(MAX_BYTES as u64));
            return Err(call_error(format!("'{name}' has {bytes}, expected at most {limit}")));
        }
        // SAFETY: the module is loaded.
        let variable = unsafe { device.driver().find_constant(module.handle, name) }
            .map_err(|fault| device.error_from(fault, None))?;
        let values = match variable {
            Some(slice) if slice.bytes == bytes => {
                ConstantValues::Variable(DeviceMemory::of_module(device, slice.memory, bytes as u64))
            }
            Some(slice) => {
                return Err(call_error(format!("'{name}' has {} bytes, expected {bytes}", slice.bytes)));
            }
            None => ConstantValues::Buffer(device.zeros(len)?),
        };
        let mut in_use = self.constants_in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if !in_use.insert(name.to_owned()) {
            return Err(call_error(format!("'{name}' is in use")));
        }
        Ok(Constant { values, len, name: name.to_owned(), module: self.clone() })
    }
}

impl<T: Element> Constant<T> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device of the array.
    pub fn device(&self) -> &Device {
        &self.module.code.device
    }

    /// Returns all elements, for copies and as the argument of a kernel.
    pub(crate) fn range(&self) -> BufferRange<'_, T> {
        match &self.values {
            ConstantValues::Variable(memory) => BufferRange::whole(memory, self.len),
            ConstantValues::Buffer(buffer) => buffer.into(),
        }
    }
}

impl<T: Element> Drop for Constant<T> {
    fn drop(&mut self) {
        self.module.constants_in_use.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

impl<T: Element> fmt::Debug for Constant<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (element, label) = (std::any::type_name::<T>(), self.device().label());
        write!(f, "Constant<{element}>({}, {} on {label})", self.name, self.len)
    }
}
