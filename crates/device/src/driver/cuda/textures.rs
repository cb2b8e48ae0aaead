//! Textures of CUDA: texture objects over linear memory (1-D) or over CUDA arrays (2-D), whose
//! texels are stored in blocks, so that neighbours in both directions share cache lines.

use std::ffi::c_uint;
use std::ptr;

use cudarc::driver::result::device::get_attribute;
use cudarc::driver::sys::{
    self, CUaddress_mode, CUarray_format, CUdevice_attribute as Attribute, CUfilter_mode, CUmemorytype,
    CUresourcetype, CUresult,
};

use super::memory::new_copy_2d;
use super::{Cuda, check_result, optional_functions, to_handle};
use crate::driver::{Driver, DriverFault, Handle, TextureDriver, TextureLimits, TextureObject};
use crate::texture::{AddressMode, TextureFilter, TextureSettings};

const FLOAT: CUarray_format = CUarray_format::CU_AD_FORMAT_FLOAT;

fn array_of(array: Handle) -> sys::CUarray {
    array.0 as usize as sys::CUarray
}

// SAFETY of the blocks below: `make_current` was called, handles are valid CUDA handles (the
// contract in driver/mod.rs), and every pointer points to a local.
impl TextureDriver for Cuda {
    fn texture_limits(&self) -> Option<TextureLimits> {
        self.make_current().ok()?;
        let attribute = |attribute| {
            // SAFETY: the driver returned the device.
            let value = unsafe { get_attribute(self.device, attribute) }.ok()?;
            usize::try_from(value).ok()
        };
        let reported = optional_functions().texture_1d_limit.and_then(|texture_1d_limit| {
            let mut len = 0;
            // SAFETY: see above. One channel per texel.
            let code = unsafe { texture_1d_limit(&raw mut len, FLOAT, 1, self.device) };
            (code == CUresult::CUDA_SUCCESS).then_some(len)
        });
        // Drivers before CUDA 11.1 have only the attribute.
        let older = || attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
        let width = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH)?;
        let height = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT)?;
        Some(TextureLimits { len: reported.or_else(older)?, size: [width, height] })
    }

    unsafe fn create_texture_1d(&self, memory: Handle, len: usize) -> Result<TextureObject, DriverFault> {
        self.make_current()?;
        let linear = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
            devPtr: memory.0,
            format: FLOAT,
            numChannels: 1,
            sizeInBytes: len * size_of::<f32>(),
        };
        let mut resource = empty_resource(CUresourcetype::CU_RESOURCE_TYPE_LINEAR);
        resource.res.linear = linear;
        // Linear memory is read by integer index: address mode and filter do not apply.
        let object = create_object(&resource, &empty_description())?;
        Ok(TextureObject { object, array: None, sampler: None })
    }

    unsafe fn create_texture_2d(
        &self,
        queue: Handle,
        size: [usize; 2],
        texels: *const f32,
        settings: TextureSettings,
    ) -> Result<TextureObject, DriverFault> {
        self.make_current()?;
        let [width, height] = size;
        let descriptor =
            sys::CUDA_ARRAY_DESCRIPTOR { Width: width, Height: height, Format: FLOAT, NumChannels: 1 };
        let mut array = ptr::null_mut();
        // SAFETY: see above.
        check_result("cuArrayCreate", unsafe {
            sys::cuArrayCreate_v2(&raw mut array, &raw const descriptor)
        })?;
        let row_bytes = width * size_of::<f32>();
        let mut copy = new_copy_2d(row_bytes, height);
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = texels.cast();
        copy.srcPitch = row_bytes;
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        copy.dstArray = array;
        // SAFETY: the array has this size, and the caller guarantees that `texels` has too.
        let filled = unsafe { self.copy_2d_and_wait(queue, &copy) };
        let mut resource = empty_resource(CUresourcetype::CU_RESOURCE_TYPE_ARRAY);
        resource.res.array = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_1 { hArray: array };
        match filled.and_then(|()| create_object(&resource, &describe(settings))) {
            Ok(object) => Ok(TextureObject { object, array: Some(to_handle(array)), sampler: None }),
            Err(fault) => {
                // SAFETY: no texture refers to the array.
                unsafe { sys::cuArrayDestroy(array) };
                Err(fault)
            }
        }
    }

    unsafe fn free_texture(&self, texture: TextureObject) {
        // Neither function below is documented to wait for kernels. If the wait fails, a kernel may
        // still run, so the texture is leaked.
        if self.finish_all().is_err() {
            return;
        }
        // SAFETY: see above. No kernel runs.
        unsafe {
            sys::cuTexObjectDestroy(texture.object.0);
            if let Some(array) = texture.array {
                sys::cuArrayDestroy(array_of(array));
            }
        }
    }
}

fn create_object(
    resource: &sys::CUDA_RESOURCE_DESC,
    description: &sys::CUDA_TEXTURE_DESC,
) -> Result<Handle, DriverFault> {
    let mut object = 0;
    // SAFETY: the callers made the context current, and the resource is valid.
    let code = unsafe { sys::cuTexObjectCreate(&raw mut object, resource, description, ptr::null()) };
    check_result("cuTexObjectCreate", code)?;
    Ok(Handle(object))
}

fn empty_resource(kind: CUresourcetype) -> sys::CUDA_RESOURCE_DESC {
    let reserved = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_5 { reserved: [0; 32] };
    let res = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1 { reserved };
    sys::CUDA_RESOURCE_DESC { resType: kind, res, flags: 0 }
}

/// Returns a description without filter, mipmaps and flags.
fn empty_description() -> sys::CUDA_TEXTURE_DESC {
    sys::CUDA_TEXTURE_DESC {
        addressMode: [CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3],
        filterMode: CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        flags: 0,
        maxAnisotropy: 0,
        mipmapFilterMode: CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        mipmapLevelBias: 0.0,
        minMipmapLevelClamp: 0.0,
        maxMipmapLevelClamp: 0.0,
        borderColor: [0.0; 4],
        reserved: [0; 12],
    }
}

fn describe(settings: TextureSettings) -> sys::CUDA_TEXTURE_DESC {
    let address = match settings.address {
        AddressMode::Clamp => CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP,
        AddressMode::Wrap => CUaddress_mode::CU_TR_ADDRESS_MODE_WRAP,
    };
    let filter = match settings.filter {
        TextureFilter::Nearest => CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        TextureFilter::Linear => CUfilter_mode::CU_TR_FILTER_MODE_LINEAR,
    };
    let flags = if settings.normalised { sys::CU_TRSF_NORMALIZED_COORDINATES as c_uint } else { 0 };
    sys::CUDA_TEXTURE_DESC { addressMode: [address; 3], filterMode: filter, flags, ..empty_description() }
}
