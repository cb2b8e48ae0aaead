//! Bins of bodies on a device, for pictures. Only the bins are copied to the host, not the bodies.
//! `bins.cu` describes the kernels.

use std::sync::{Arc, Mutex};

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Pinned};
use orrery_model::analysis::bins::{HIDDEN, NEIGHBOURS, POSITION_BITS, STEPS_PER_LEVEL, step_thresholds};
use orrery_model::analysis::{BinnedBodies, Bins, Projection};

use super::device::{BodyVectors, lock_mutex};

/// Threads per block.
const BLOCK_SIZE: u32 = 128;

// SAFETY: kernels with one thread per body access the first `body_count` elements of columns of
// this length. The others access the `pixels_per_layer` pixels of each layer, for which
// `DeviceBinner::new` allocates memory. The layer of a body is HIDDEN or below the number of
// layers, which it checks. All loops end.
const BINS: KernelFile = unsafe { KernelFile::new("bins.cu", include_str!("bins.cu")) };

/// Bytes per body that a [`DeviceBinner`] needs on the device: layer, mass and position in pixels.
pub(super) const BYTES_PER_BODY: u64 = 1 + 8 + 8;

/// Bins that a device copies to the host at this moment. Reading them waits for the copy.
#[derive(Debug)]
pub struct PendingBins {
    /// `None` only while the value is dropped.
    sums: Option<Pinned<u64>>,
    projection: Projection,
    pool: Arc<Pool>,
}

/// Page-locked memory for copies of bins. Allocating it is slow, so it is used again.
type Pool = Mutex<Vec<Pinned<u64>>>;

impl PendingBins {
    /// Waits for the copy and returns the bins of a layer.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn of_layer(&self, layer: usize) -> Bins {
        let pixels = self.projection.pyramid_pixels();
        let sums: &[u64] = self.sums.as_deref().unwrap_or_default();
        Bins::from_sums(&sums[layer * pixels..][..pixels], &self.projection)
    }
}

impl Drop for PendingBins {
    fn drop(&mut self) {
        lock_mutex(&self.pool).extend(self.sums.take());
    }
}

pub(super) struct BinKernels {
    clear_bins: Kernel,
    project_bodies: Kernel,
    coarsen_counts: Kernel,
    deposit_mass: Kernel,
}

impl BinKernels {
    pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
        let definitions = [
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("POSITION_BITS", POSITION_BITS.to_string()),
            ("STEPS_PER_LEVEL", STEPS_PER_LEVEL.to_string()),
            ("NEIGHBOURS", NEIGHBOURS.to_string()),
            ("HIDDEN", HIDDEN.to_string()),
        ];
        let module = device.build(&BINS, &definitions, Math::Precise)?;
        Ok(Self {
            clear_bins: module.kernel("clear_bins")?,
            project_bodies: module.kernel("project_bodies")?,
            coarsen_counts: module.kernel("coarsen_counts")?,
            deposit_mass: module.kernel("deposit_mass")?,
        })
    }
}

/// Bins the bodies of one picture after another. All pictures have the same size.
pub(super) struct DeviceBinner {
    device: Device,
    kernels: BinKernels,
    bodies: Arc<BinnedBodies>,
    layers: usize,
    size: [u32; 2],
    layer: Buffer<u8>,
    mass: Buffer<u64>,
    /// Positions in pixels, as fixed-point numbers.
    pixel: [Buffer<u32>; 2],
    /// Number of bodies in each pixel, with the pyramids of all layers.
    counts: Buffer<u32>,
    /// Mass in each pixel, in the same order.
    sums: Buffer<u64>,
    thresholds: Buffer<u32>,
    pool: Arc<Pool>,
}

impl DeviceBinner {
    /// Copies the constants of the bodies to the device, for pictures with the size of
    /// `projection`. The layers of the bodies must be below `layers`.
    pub(super) fn new(
        device: &Device,
        bodies: &Arc<BinnedBodies>,
        layers: usize,
        projection: &Projection,
    ) -> Result<Self, DeviceError> {
        assert!(bodies.layer.iter().all(|&layer| layer == HIDDEN || usize::from(layer) < layers));
        let (n, pixels) = (bodies.layer.len(), projection.pyramid_pixels() * layers);
        Ok(Self {
            device: device.clone(),
            kernels: BinKernels::new(device)?,
            bodies: bodies.clone(),
            layers,
            size: [projection.width, projection.height],
            layer: device.upload(&bodies.layer)?,
            mass: device.upload(&bodies.mass)?,
            pixel: [device.zeros(n)?, device.zeros(n)?],
            counts: device.zeros(pixels)?,
            sums: device.zeros(pixels)?,
            thresholds: device.upload(&step_thresholds(projection.level_count()))?,
            pool: Arc::default(),
        })
    }

    /// Returns true if this was created for `bodies` and pictures of this size.
    pub(super) fn is_for(&self, bodies: &Arc<BinnedBodies>, layers: usize, projection: &Projection) -> bool {
        Arc::ptr_eq(&self.bodies, bodies)
            && self.layers == layers
            && self.size == [projection.width, projection.height]
    }

    /// Queues the bins of bodies at `position` and their copy to the host.
    pub(super) fn queue_bins(
        &self,
        position: &BodyVectors,
        projection: &Projection,
    ) -> Result<PendingBins, DeviceError> {
        self.clear_bins()?;
        self.project_bodies(position, projection)?;
        self.coarsen_counts(projection)?;
        self.deposit_mass(projection)?;
        let pooled = lock_mutex(&self.pool).pop();
        let mut sums = match pooled {
            Some(free) => free,
            None => self.device.pinned(self.sums.len())?,
        };
        self.device.queue().read_async(&self.sums, &mut sums)?;
        Ok(PendingBins { sums: Some(sums), projection: *projection, pool: self.pool.clone() })
    }

    fn pixels_per_layer(&self) -> u32 {
        (self.counts.len() / self.layers) as u32
    }

    fn clear_bins(&self) -> Result<(), DeviceError> {
        let pixels = self.counts.len() as u32;
        let args = [pixels.into(), (&self.counts).into(), (&self.sums).into()];
        let blocks = pixels.div_ceil(BLOCK_SIZE);
        self.device.queue().launch(&self.kernels.clear_bins, blocks, BLOCK_SIZE, &args)
    }

    fn project_bodies(&self, [x, y, z]: &BodyVectors, projection: &Projection) -> Result<(), DeviceError> {
        let &Projection { centre, right, up, pixel_size, width, height } = projection;
        let bodies = self.layer.len() as u32;
        let mut args: Vec<Arg> = vec![bodies.into(), x.into(), y.into(), z.into(), (&self.layer).into()];
        args.extend([centre, right, up].into_iter().flatten().map(Arg::from));
        args.extend([Arg::from(pixel_size), width.into(), height.into(), self.pixels_per_layer().into()]);
        args.extend(self.pixel.iter().map(Arg::from));
        args.push((&self.counts).into());
        let blocks = bodies.div_ceil(BLOCK_SIZE);
        self.device.queue().launch(&self.kernels.project_bodies, blocks, BLOCK_SIZE, &args)
    }

    fn coarsen_counts(&self, projection: &Projection) -> Result<(), DeviceError> {
        let size_of = |level: usize| projection.level_size(level).map(|side| side as u32);
        let mut finer_start = 0u32;
        for level in 1..projection.level_count() {
            let ([finer_width, finer_height], [width, height]) = (size_of(level - 1), size_of(level));
            let args = [
                finer_width.into(),
                finer_height.into(),
                finer_start.into(),
                self.pixels_per_layer().into(),
                (&self.counts).into(),
            ];
            let grid = [(width * height).div_ceil(BLOCK_SIZE), self.layers as u32];
            self.device.queue().launch(&self.kernels.coarsen_counts, grid, BLOCK_SIZE, &args)?;
            finer_start += finer_width * finer_height;
        }
        Ok(())
    }

    fn deposit_mass(&self, projection: &Projection) -> Result<(), DeviceError> {
        let bodies = self.layer.len() as u32;
        let [pixel_x, pixel_y] = &self.pixel;
        let args = [
            bodies.into(),
            pixel_x.into(),
            pixel_y.into(),
            (&self.layer).into(),
            (&self.mass).into(),
            (&self.thresholds).into(),
            projection.width.into(),
            projection.height.into(),
            (projection.level_count() as u32).into(),
            self.pixels_per_layer().into(),
            (&self.counts).into(),
            (&self.sums).into(),
        ];
        let blocks = bodies.div_ceil(BLOCK_SIZE);
        self.device.queue().launch(&self.kernels.deposit_mass, blocks, BLOCK_SIZE, &args)
    }
}

#[cfg(test)]
mod tests {
    use orrery_device::testing::test_devices_with_f64;

    use super::super::device::upload;
    use super::super::selftest::{cloud, projections};
    use super::*;

    /// Memory that a picture has returned is used again, and a picture that is still pending keeps
    /// its memory.
    #[test]
    fn pending_bins_are_independent() {
        for device in test_devices_with_f64() {
            let (position, bodies) = cloud(300);
            let mut moved = position.clone();
            moved.x.iter_mut().for_each(|x| *x += 0.125);
            let projection = projections()[1];
            let binner = DeviceBinner::new(&device, &bodies, 2, &projection).unwrap();
            let before = binner.queue_bins(&upload(&device, &position).unwrap(), &projection).unwrap();
            let after = binner.queue_bins(&upload(&device, &moved).unwrap(), &projection).unwrap();
            let expected = |position| Bins::of_layer(position, &bodies, 0, &projection);
            assert_eq!(before.of_layer(0), expected(&position));
            assert_eq!(after.of_layer(0), expected(&moved));
            assert_ne!(before.of_layer(0), after.of_layer(0));
            drop((before, after));
            assert_eq!(lock_mutex(&binner.pool).len(), 2);
            drop(binner.queue_bins(&upload(&device, &position).unwrap(), &projection).unwrap());
            assert_eq!(lock_mutex(&binner.pool).len(), 2);
        }
    }
}
