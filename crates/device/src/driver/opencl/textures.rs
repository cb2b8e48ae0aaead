//! Textures of OpenCL: images with one channel of f32. A 1-D texture is an image over a buffer. A
//! 2-D texture comes with a sampler, which is a second argument of the kernel.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::PoisonError;

use opencl3::context::Context;
use opencl3::device::Device;
use opencl3::memory::{
    CL_ADDRESS_CLAMP_TO_EDGE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR, CL_FILTER_NEAREST, CL_FLOAT,
    CL_MEM_COPY_HOST_PTR, CL_MEM_OBJECT_IMAGE1D_BUFFER, CL_MEM_OBJECT_IMAGE2D, CL_MEM_READ_ONLY, CL_R,
    Sampler, cl_image_desc, cl_image_format, create_image, get_supported_image_formats, release_mem_object,
};
use opencl3::types::{cl_context, cl_mem, cl_mem_object_type, cl_sampler, cl_uint};

use super::{OpenCl, memory_of, new_fault, to_handle};
use crate::driver::{Driver, DriverFault, Handle, TextureDriver, TextureLimits, TextureObject};
use crate::texture::{AddressMode, TextureFilter, TextureSettings};

static FORMAT: cl_image_format =
    cl_image_format { image_channel_order: CL_R, image_channel_data_type: CL_FLOAT };

/// Returns the largest sizes of images of f32, or None if the device lacks them.
pub(super) fn read_limits(device: Device, context: cl_context) -> Option<TextureLimits> {
    if !device.image_support().ok()? {
        return None;
    }
    let has_format = |kind: cl_mem_object_type| {
        let formats = get_supported_image_formats(context, CL_MEM_READ_ONLY, kind).unwrap_or_default();
        formats
            .iter()
            .any(|format| (format.image_channel_order, format.image_channel_data_type) == (CL_R, CL_FLOAT))
    };
    if !has_format(CL_MEM_OBJECT_IMAGE1D_BUFFER) || !has_format(CL_MEM_OBJECT_IMAGE2D) {
        return None;
    }
    let size = [device.image2d_max_width().ok()?, device.image2d_max_height().ok()?];
    Some(TextureLimits { len: device.image_max_buffer_size().ok()?, size })
}

fn image_description(kind: cl_mem_object_type, [width, height]: [usize; 2], buffer: cl_mem) -> cl_image_desc {
    cl_image_desc {
        image_type: kind,
        image_width: width,
        image_height: height,
        image_depth: 0,
        image_array_size: 0,
        image_row_pitch: 0,
        image_slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        buffer,
    }
}

// SAFETY of the blocks below: handles are valid OpenCL objects, and sizes and host pointers are
// correct (the contract in driver/mod.rs).
impl TextureDriver for OpenCl {
    fn texture_limits(&self) -> Option<TextureLimits> {
        self.texture_limits
    }

    unsafe fn create_texture_1d(&self, memory: Handle, len: usize) -> Result<TextureObject, DriverFault> {
        let description = image_description(CL_MEM_OBJECT_IMAGE1D_BUFFER, [len, 0], memory_of(memory));
        // SAFETY: see above. The image has the size of the buffer.
        let image = unsafe {
            create_image(
                self.context,
                CL_MEM_READ_ONLY,
                &raw const FORMAT,
                &raw const description,
                ptr::null_mut(),
            )
        }
        .map_err(|code| new_fault("clCreateImage", code))?;
        Ok(TextureObject { object: to_handle(image), array: None, sampler: None })
    }

    unsafe fn create_texture_2d(
        &self,
        _queue: Handle,
        size: [usize; 2],
        texels: *const f32,
        settings: TextureSettings,
    ) -> Result<TextureObject, DriverFault> {
        let sampler = self.find_sampler(settings)?;
        let description = image_description(CL_MEM_OBJECT_IMAGE2D, size, ptr::null_mut());
        let flags = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
        // SAFETY: see above. OpenCL copies the texels before it returns and does not change them.
        let image = unsafe {
            let texels = texels.cast_mut().cast::<c_void>();
            create_image(self.context, flags, &raw const FORMAT, &raw const description, texels)
        }
        .map_err(|code| new_fault("clCreateImage", code))?;
        Ok(TextureObject { object: to_handle(image), array: None, sampler: Some(to_handle(sampler)) })
    }

    unsafe fn free_texture(&self, texture: TextureObject) {
        // Commands should have their own references. But with PoCL 3.1, a queued kernel read freed
        // memory if a 1-D texture and its buffer were dropped after the launch. If the wait fails,
        // a kernel may still run, so the image is leaked.
        if self.finish_all().is_err() {
            return;
        }
        // SAFETY: see above. No kernel runs. The sampler is never released.
        let _ = unsafe { release_mem_object(memory_of(texture.object)) };
    }
}

impl OpenCl {
    /// Returns the sampler with these settings. Creates it at the first call.
    fn find_sampler(&self, settings: TextureSettings) -> Result<cl_sampler, DriverFault> {
        let mut samplers = self.samplers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sampler)) = samplers.iter().find(|(known, _)| *known == settings) {
            return Ok(sampler.get());
        }
        let address = match settings.address {
            AddressMode::Clamp => CL_ADDRESS_CLAMP_TO_EDGE,
            AddressMode::Wrap => CL_ADDRESS_REPEAT,
        };
        let filter = match settings.filter {
            TextureFilter::Nearest => CL_FILTER_NEAREST,
            TextureFilter::Linear => CL_FILTER_LINEAR,
        };
        // Not dropped, because that would release the context.
        let context = ManuallyDrop::new(Context::new(self.context, &[self.device.id()]));
        let sampler = Sampler::create(&context, cl_uint::from(settings.normalised), address, filter)
            .map_err(|error| new_fault("clCreateSampler", error.0))?;
        let handle = sampler.get();
        samplers.push((settings, sampler));
        Ok(handle)
    }
}
