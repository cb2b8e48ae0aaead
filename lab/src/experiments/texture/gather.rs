//! Samples on a device: launches the kernels of this experiment.

use orrery_device::{
    AddressMode, Arg, Buffer, Constant, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources,
    Texture, TextureFilter, TextureSettings, kernel_source,
};

use super::{HAND_ERROR_BOUND, Raster, TABLE_SIDE, TextureImage, UNIT_ERROR_BOUND};

// SAFETY: the kernels clamp their indices to the width and height of the image, or take them modulo
// the side of the table. `Gather` passes the size of the image that it uploaded, and the launch
// checks that the output has as many elements.
const GATHER: KernelFile = unsafe { KernelFile::new("gather.cu", kernel_source!("raster.cu", "gather.cu")) };
// SAFETY: as above. The table in constant memory has TABLE_LEN elements.
const TABLE: KernelFile = unsafe { KernelFile::new("table.cu", kernel_source!("raster.cu", "table.cu")) };
// SAFETY: as above. Textures clamp their coordinates.
const TEXTURE: KernelFile =
    unsafe { KernelFile::new("texture.cu", kernel_source!("raster.cu", "texture.cu")) };

/// Threads per block along x and y. A warp is a row of 32 pixels.
const BLOCK: [u32; 2] = [32, 8];

/// Memory and interpolation of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatherMethod {
    /// Nearest texel from global memory.
    GlobalNearest,
    /// Nearest texel from a texture.
    TextureNearest,
    /// Linear interpolation between four loads from global memory.
    GlobalLinear,
    /// Linear interpolation by the texture unit.
    TextureLinear,
    /// Nearest value of a small table in global memory.
    GlobalTable,
    /// Nearest value of a small table in constant memory.
    ConstantTable,
}

impl GatherMethod {
    /// Returns whether the method reads a texture.
    pub fn uses_texture(self) -> bool {
        matches!(self, Self::TextureNearest | Self::TextureLinear)
    }

    /// Returns the exact value of a pixel. `image` is the image or the table that was uploaded.
    pub fn reference_at(self, raster: &Raster, image: &TextureImage, column: usize, row: usize) -> f64 {
        match self {
            Self::GlobalLinear | Self::TextureLinear => raster.linear_at(image, column, row),
            Self::GlobalNearest | Self::TextureNearest => f64::from(raster.nearest_at(image, column, row)),
            Self::GlobalTable | Self::ConstantTable => f64::from(raster.table_value_at(image, column, row)),
        }
    }

    /// Returns the largest error of a sample, for values from 0 to 1.
    pub fn error_bound(self) -> f64 {
        match self {
            Self::GlobalLinear => HAND_ERROR_BOUND,
            Self::TextureLinear => UNIT_ERROR_BOUND,
            _ => 0.0,
        }
    }

    /// Returns whether the method reads a table of [`TABLE_SIDE`] x [`TABLE_SIDE`] values in place
    /// of the image.
    pub fn reads_table(self) -> bool {
        matches!(self, Self::GlobalTable | Self::ConstantTable)
    }
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct TextureRung {
    /// Name: the memory and the interpolation.
    pub name: &'static str,
    /// Name of at most 14 characters in the sweep over angles. `None` for a table, which is in the
    /// cache for any angle.
    pub series_name: Option<&'static str>,
    /// Method.
    pub method: GatherMethod,
    /// Note for the reader of the table.
    pub note: &'static str,
}

/// Returns the rungs in the order of the table.
pub fn rungs() -> Vec<TextureRung> {
    let rung = |name, series_name, method, note| TextureRung { name, series_name, method, note };
    vec![
        rung(
            "global memory, nearest",
            Some("global"),
            GatherMethod::GlobalNearest,
            "row-major, one load per pixel",
        ),
        rung(
            "texture, nearest",
            Some("texture"),
            GatherMethod::TextureNearest,
            "texels in tiles, one fetch per pixel",
        ),
        rung(
            "global memory, linear",
            Some("global linear"),
            GatherMethod::GlobalLinear,
            "by hand, four loads per pixel",
        ),
        rung(
            "texture, linear",
            Some("texture linear"),
            GatherMethod::TextureLinear,
            "by the texture unit, one fetch per pixel",
        ),
        rung(
            "table in global memory",
            None,
            GatherMethod::GlobalTable,
            "nearest value of 64 x 64, which fit into the L1 cache",
        ),
        rung(
            "table in constant memory",
            None,
            GatherMethod::ConstantTable,
            "the same table; lanes that read different words are served one after another",
        ),
    ]
}

/// Source of the samples on a device.
#[derive(Debug)]
enum Texels {
    Global(Buffer<f32>),
    Texture(Texture),
    Constant(Constant<f32>),
}

/// Samples of one image on a device.
#[derive(Debug)]
pub struct Gather {
    method: GatherMethod,
    kernel: Kernel,
    texels: Texels,
    /// Width and height that a raster must have. None for a table.
    size: Option<[usize; 2]>,
}

impl Gather {
    /// Compiles the kernel of a method and uploads the image, or the table of
    /// [`TABLE_SIDE`] x [`TABLE_SIDE`] values for a method that reads one.
    pub fn new(device: &Device, method: GatherMethod, image: &TextureImage) -> Result<Self, DeviceError> {
        let table_len = TABLE_SIDE * TABLE_SIDE;
        let definitions = [
            ("BLOCK_WIDTH", BLOCK[0].to_string()),
            ("BLOCK_HEIGHT", BLOCK[1].to_string()),
            ("TABLE_SIDE", TABLE_SIDE.to_string()),
            ("TABLE_LEN", table_len.to_string()),
        ];
        if method.reads_table() && (image.width, image.height) != (TABLE_SIDE, TABLE_SIDE) {
            let got = image.texels.len();
            return Err(DeviceError::Length { device: device.title(), expected: table_len, got });
        }
        let build = |file: &KernelFile| device.build(file, &definitions, Math::Precise);
        let texture = |filter| {
            let settings = TextureSettings { address: AddressMode::Clamp, filter, normalised: false };
            let size = [image.width, image.height];
            device.texture_2d(size, &image.texels, settings).map(Texels::Texture)
        };
        let global = || device.upload(&image.texels).map(Texels::Global);
        let (kernel, texels) = match method {
            GatherMethod::GlobalNearest => (build(&GATHER)?.kernel("gather_nearest")?, global()?),
            GatherMethod::GlobalLinear => (build(&GATHER)?.kernel("gather_linear")?, global()?),
            GatherMethod::GlobalTable => (build(&GATHER)?.kernel("gather_table")?, global()?),
            GatherMethod::TextureNearest => {
                (build(&TEXTURE)?.kernel("fetch_nearest")?, texture(TextureFilter::Nearest)?)
            }
            GatherMethod::TextureLinear => {
                (build(&TEXTURE)?.kernel("fetch_linear")?, texture(TextureFilter::Linear)?)
            }
            GatherMethod::ConstantTable => {
                let module = build(&TABLE)?;
                let constant = module.constant::<f32>("table", table_len)?;
                device.queue().write_constant(&constant, &image.texels)?;
                (module.kernel("gather_constant")?, Texels::Constant(constant))
            }
        };
        let size = (!method.reads_table()).then_some([image.width, image.height]);
        Ok(Self { method, kernel, texels, size })
    }

    /// Returns the method.
    pub fn method(&self) -> GatherMethod {
        self.method
    }

    /// Queues the samples of all pixels of the raster into `out`, which has one element per pixel.
    /// Does not wait. The raster has the size of the uploaded image, or any size for a table.
    pub fn launch(&self, queue: &Queue, raster: &Raster, out: &Buffer<f32>) -> Result<(), DeviceError> {
        let pixels = raster.width * raster.height;
        let is_right_size = self.size.is_none_or(|size| size == [raster.width, raster.height]);
        if out.len() != pixels || !is_right_size {
            let expected = self.size.map_or(pixels, |[width, height]| width * height);
            return Err(DeviceError::Length { device: queue.device().title(), expected, got: out.len() });
        }
        let texels: Arg = match &self.texels {
            Texels::Global(buffer) => buffer.into(),
            Texels::Texture(texture) => texture.into(),
            Texels::Constant(constant) => constant.into(),
        };
        let (width, height) = (raster.width as u32, raster.height as u32);
        let grid = [width.div_ceil(BLOCK[0]), height.div_ceil(BLOCK[1])];
        let args = [
            texels,
            (width as i32).into(),
            (height as i32).into(),
            raster.cosine.into(),
            raster.sine.into(),
            out.into(),
        ];
        queue.launch(&self.kernel, grid, BLOCK, &args)
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(BLOCK[0] * BLOCK[1]))
    }
}
