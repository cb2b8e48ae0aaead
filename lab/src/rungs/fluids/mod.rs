//! Steps from the course's forces to the production kernels: all pairs on the CPU and on a device,
//! then cells. The later rungs of the ladder, with neighbour lists, are strategies of
//! [`DeviceFluid`](orrery_fluids::DeviceFluid).
//!
//! Course: K. Ljungkvist, "CUDA exercises" (2016). Its particles are in a plane without a cutoff.
//! Here they are in a periodic box with a cutoff, in three dimensions, so that all rungs of the
//! ladder compute the same forces. [`serial`] lists the errors of the course's code.

pub mod selftest;
pub mod serial;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Module};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::{BoxSides, SimulationBox};
use orrery_primitives::scan::{Scan, ScanKind};

// SAFETY: kernels access the first n particles, n words of each array and 10 n of the structures,
// and the cells up to their number. `RungFluid::new` and `RungCells::new` allocate them, and the
// launches pass these numbers. Fractions are below 1, so cells are below their number. Sources in
// cells are below n, because the counts of all cells add up to n.
const RUNGS: KernelFile = unsafe { KernelFile::new("fluid_rungs.cu", include_str!("fluid_rungs.cu")) };

/// Sources of a tile. Tiles have one source per thread of a block.
pub const TILE: u32 = 256;
/// Threads per block.
const BLOCK_SIZE: u32 = TILE;
/// Words of a particle in an array of structures.
const STRUCT_WORDS: usize = 10;
/// Word of its first component of the force.
const STRUCT_FORCE: usize = 6;
/// A = 24 ε σ⁶ of the force.
const ATTRACTION: f32 = 24.0;
/// B = 48 ε σ¹² of the force.
const REPULSION: f32 = 48.0;

/// δ of the damped rungs, in units of σ. The course does not give its value. Forces at the
/// distances of a liquid change by about 2%, and a particle's term with itself stays far below the
/// largest f32.
pub const RUNG_DAMPING: f64 = 0.05;

/// Algorithm of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FluidVariant {
    /// Structures, one thread per particle, `if (i != j)`, and copies in every call.
    Structs,
    /// Damping replaces the `if`.
    Damped,
    /// Particles stay on the device.
    DataStays,
    /// One array per coordinate.
    Arrays,
    /// Tiles of sources in shared memory.
    Tiles,
    /// One division per pair, without damping.
    OneDivision,
    /// Sources from the cells next to a particle.
    Cells,
}

impl FluidVariant {
    /// Returns δ of its potential.
    pub fn damping(self) -> f64 {
        match self {
            Self::Damped | Self::DataStays | Self::Arrays | Self::Tiles => RUNG_DAMPING,
            Self::Structs | Self::OneDivision | Self::Cells => 0.0,
        }
    }

    /// Returns true if the particles are copied to the device and back in every call.
    pub fn copies_every_call(self) -> bool {
        matches!(self, Self::Structs | Self::Damped)
    }

    /// Returns true if all pairs are computed.
    pub fn has_all_pairs(self) -> bool {
        self != Self::Cells
    }

    /// Returns true if tiles of sources are in shared memory.
    pub fn has_tiles(self) -> bool {
        matches!(self, Self::Tiles | Self::OneDivision)
    }

    fn kernel_name(self) -> &'static str {
        match self {
            Self::Structs => "sum_structs",
            Self::Damped | Self::DataStays => "sum_structs_damped",
            Self::Arrays => "sum_arrays",
            Self::Tiles | Self::OneDivision => "sum_tiles",
            Self::Cells => "sum_cells",
        }
    }

    fn has_structs(self) -> bool {
        matches!(self, Self::Structs | Self::Damped | Self::DataStays)
    }

    fn has_one_division(self) -> bool {
        matches!(self, Self::OneDivision | Self::Cells)
    }

    /// Returns the definitions of `fluid_rungs.cu`.
    fn definitions(self) -> [(&'static str, String); 4] {
        [
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("REPULSION", format!("{REPULSION:.1}f")),
            ("ATTRACTION", format!("{ATTRACTION:.1}f")),
            ("ONE_DIVISION", u8::from(self.has_one_division()).to_string()),
        ]
    }
}

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: FluidVariant,
    /// Speed relative to one CPU core that the course reports.
    pub course_gain: Option<f64>,
    /// Note for the reader of the table.
    pub note: &'static str,
}

/// Returns the rungs on a device, slowest first.
pub fn rungs() -> [FluidRung; 7] {
    let rung = |name, variant, course_gain, note| FluidRung { name, variant, course_gain, note };
    [
        rung(
            "one thread per particle, if",
            FluidVariant::Structs,
            Some(5.5),
            "array of structures, copied in every call; each pair is computed twice, because threads must not \
             add to the same sum",
        ),
        rung(
            "damped, without the if",
            FluidVariant::Damped,
            Some(10.0),
            "r² + δ² keeps a particle's term with itself finite, and its vector is 0; this is another potential; \
             in the course 422 GFLOP/s, 87% of its peak",
        ),
        rung("data stays on the device", FluidVariant::DataStays, None, ""),
        rung("structure of arrays", FluidVariant::Arrays, None, "loads and stores of a warp are contiguous"),
        rung("tiles in shared memory", FluidVariant::Tiles, None, "a block loads each source once"),
        rung(
            "one division per pair",
            FluidVariant::OneDivision,
            None,
            "(48 r⁻⁶ − 24) r⁻⁸ from 1 / r²; not damped: a select removes a particle's term with itself",
        ),
        rung(
            "cells",
            FluidVariant::Cells,
            None,
            "27 cells with sides of at least the cutoff, built in every call: n instead of n²",
        ),
    ]
}

/// Box and cutoff in the units of the rungs.
#[derive(Clone, Copy, Debug)]
struct RungBox {
    /// Lengths of the box divided by the number of fractions.
    scale: [f32; 3],
    cutoff2: f32,
}

impl RungBox {
    /// # Panics
    /// If the box is not periodic in three dimensions.
    fn new(bounds: &SimulationBox, cutoff: f64) -> Self {
        assert!(bounds.sides == BoxSides::Periodic && bounds.dimensions == 3);
        Self {
            scale: bounds.lengths.map(|length| (length * 2f64.powi(-32)) as f32),
            cutoff2: (cutoff * cutoff) as f32,
        }
    }
}

/// Particles on a device with the algorithm of one rung.
pub struct RungFluid {
    device: Device,
    variant: FluidVariant,
    n: usize,
    bounds: RungBox,
    kernel: Kernel,
    /// Structures on the host, for the rungs that have them.
    host: Vec<u32>,
    /// Structures on the device. Empty between the calls of rungs that copy them.
    structs: Buffer<u32>,
    position: [Buffer<u32>; 3],
    force: [Buffer<f32>; 3],
    cells: Option<RungCells>,
}

impl std::fmt::Debug for RungFluid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RungFluid").field("variant", &self.variant).field("n", &self.n).finish()
    }
}

impl RungFluid {
    /// Uploads the particles. They have one species with σ = ε = 1.
    ///
    /// # Panics
    /// If the box is not periodic in three dimensions.
    pub fn new(
        device: &Device,
        variant: FluidVariant,
        particles: &FluidParticles,
        cutoff: f64,
    ) -> Result<Self, DeviceError> {
        let (n, bounds) = (particles.len(), RungBox::new(&particles.bounds, cutoff));
        let module = device.build(&RUNGS, &variant.definitions(), Math::Precise)?;
        let upper = |axis: usize| -> Vec<u32> {
            particles.position[axis].iter().map(|&fraction| (fraction >> 32) as u32).collect()
        };
        let columns = [upper(0), upper(1), upper(2)];
        let array_len = if variant.has_structs() { 0 } else { n };
        let mut fluid = Self {
            device: device.clone(),
            variant,
            n,
            bounds,
            kernel: module.kernel(variant.kernel_name())?,
            host: Vec::new(),
            structs: device.zeros(0)?,
            position: [
                device.upload(&columns[0][..array_len])?,
                device.upload(&columns[1][..array_len])?,
                device.upload(&columns[2][..array_len])?,
            ],
            force: [device.zeros(array_len)?, device.zeros(array_len)?, device.zeros(array_len)?],
            cells: match variant {
                FluidVariant::Cells => Some(RungCells::new(device, &module, &particles.bounds, cutoff, n)?),
                _ => None,
            },
        };
        if variant.has_structs() {
            fluid.host = vec![0; STRUCT_WORDS * n];
            for (k, words) in fluid.host.chunks_exact_mut(STRUCT_WORDS).enumerate() {
                (0..3).for_each(|axis| words[axis] = columns[axis][k]);
            }
        }
        if variant == FluidVariant::DataStays {
            fluid.structs = device.upload(&fluid.host)?;
        }
        Ok(fluid)
    }

    /// Computes all forces. Does not wait for them, unless the rung copies them.
    pub fn compute_forces(&mut self) -> Result<(), DeviceError> {
        if !self.variant.copies_every_call() {
            return self.queue_forces();
        }
        self.structs = self.device.upload(&self.host)?;
        self.queue_forces()?;
        self.device.queue().read(&self.structs, &mut self.host)?;
        self.structs = self.device.zeros(0)?;
        Ok(())
    }

    fn queue_forces(&mut self) -> Result<(), DeviceError> {
        let (queue, blocks) = (self.device.queue(), (self.n as u32).div_ceil(BLOCK_SIZE));
        let RungBox { scale, cutoff2 } = self.bounds;
        let n = Arg::from(self.n as u32);
        let mut domain: Vec<Arg> = scale.map(Arg::from).to_vec();
        domain.push(cutoff2.into());
        let damping2 = (self.variant.damping().powi(2) as f32).into();
        let args: Vec<Arg> = match self.variant {
            FluidVariant::Structs => [vec![(&self.structs).into(), n], domain].concat(),
            FluidVariant::Damped | FluidVariant::DataStays => {
                [vec![(&self.structs).into(), n], domain, vec![damping2]].concat()
            }
            FluidVariant::Arrays | FluidVariant::Tiles | FluidVariant::OneDivision => {
                let position = self.position.each_ref().map(Arg::from).to_vec();
                let force = self.force.each_ref().map(Arg::from).to_vec();
                [position, vec![n], domain, vec![damping2], force].concat()
            }
            FluidVariant::Cells => {
                let Some(cells) = &mut self.cells else { return Ok(()) };
                cells.queue_build(&self.device, self.n, &self.position)?;
                let force = self.force.each_ref().map(Arg::from).to_vec();
                let found = [&cells.starts, &cells.counts_of].map(Arg::from).to_vec();
                let numbers = cells.numbers.map(Arg::from).to_vec();
                [vec![n], numbers, found, vec![(&cells.sorted).into()], domain, force].concat()
            }
        };
        queue.launch(&self.kernel, blocks, BLOCK_SIZE, &args)
    }

    /// Waits for the forces of the latest call and returns them.
    pub fn forces(&self) -> Result<Vec3s, DeviceError> {
        let words = match self.variant {
            FluidVariant::DataStays => self.structs.to_vec()?,
            _ => self.host.clone(),
        };
        let column = |axis: usize| -> Result<Vec<f64>, DeviceError> {
            if !self.variant.has_structs() {
                return Ok(self.force[axis].to_vec()?.into_iter().map(f64::from).collect());
            }
            let particles = words.chunks_exact(STRUCT_WORDS);
            Ok(particles.map(|words| f64::from(f32::from_bits(words[STRUCT_FORCE + axis]))).collect())
        };
        Ok(Vec3s { x: column(0)?, y: column(1)?, z: column(2)? })
    }

    /// Returns the kernel that sums the forces, and its threads per block.
    pub fn kernel(&self) -> (&Kernel, u32) {
        (&self.kernel, BLOCK_SIZE)
    }
}

/// Cells of the box and the particles in their order.
struct RungCells {
    clear: Kernel,
    assign: Kernel,
    sort: Kernel,
    scan: Scan<u32>,
    /// Number of cells along each axis.
    numbers: [u32; 3],
    /// Number of particles in each cell.
    counts_of: Buffer<u32>,
    /// First particle of each cell.
    starts: Buffer<u32>,
    cell_of: Buffer<u32>,
    rank_of: Buffer<u32>,
    sorted: Buffer<[f32; 4]>,
}

impl RungCells {
    fn new(
        device: &Device,
        module: &Module,
        bounds: &SimulationBox,
        cutoff: f64,
        n: usize,
    ) -> Result<Self, DeviceError> {
        // Cells have sides of at least the cutoff. In a liquid each has several particles.
        let numbers = bounds.lengths.map(|length| (length / cutoff).max(1.0) as u32);
        let cell_count = numbers.iter().map(|&number| number as usize).product();
        Ok(Self {
            clear: module.kernel("clear_cells")?,
            assign: module.kernel("assign_cells")?,
            sort: module.kernel("sort_by_cell")?,
            scan: Scan::new(device, ScanKind::Exclusive)?,
            numbers,
            counts_of: device.zeros(cell_count)?,
            starts: device.zeros(cell_count)?,
            cell_of: device.zeros(n)?,
            rank_of: device.zeros(n)?,
            sorted: device.zeros(n)?,
        })
    }

    /// Queues the kernels that sort the particles by cell.
    fn queue_build(
        &mut self,
        device: &Device,
        n: usize,
        position: &[Buffer<u32>; 3],
    ) -> Result<(), DeviceError> {
        let (queue, blocks) = (device.queue(), (n as u32).div_ceil(BLOCK_SIZE));
        let cell_count = self.counts_of.len() as u32;
        let args = [cell_count.into(), (&self.counts_of).into()];
        queue.launch(&self.clear, cell_count.div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)?;

        let columns = position.each_ref().map(Arg::from).to_vec();
        let found = [&self.counts_of, &self.cell_of, &self.rank_of].map(Arg::from).to_vec();
        let numbers = self.numbers.map(Arg::from).to_vec();
        let args = [vec![Arg::from(n as u32)], numbers, columns.clone(), found].concat();
        queue.launch(&self.assign, blocks, BLOCK_SIZE, &args)?;

        self.scan.launch(queue, &self.counts_of, &self.starts)?;

        let found = [&self.starts, &self.cell_of, &self.rank_of].map(Arg::from).to_vec();
        let args = [vec![Arg::from(n as u32)], found, columns, vec![(&self.sorted).into()]].concat();
        queue.launch(&self.sort, blocks, BLOCK_SIZE, &args)
    }
}

#[cfg(test)]
mod tests {
    use orrery_fluids::brute_force::{check_forces, forces_with_bounds};
    use orrery_fluids::sample::{MELT_CUTOFF, displaced_melt, melt_settings};

    use super::serial::SerialFluid;

    /// With the course's assignment in place of the addition, the reactions of pairs with lower
    /// indices would be missing.
    #[test]
    fn one_core_has_the_forces_of_brute_force() {
        let particles = displaced_melt(500);
        let sample: Vec<usize> = (0..particles.len()).collect();
        let expected = forces_with_bounds(&particles, &melt_settings().potential, &sample);
        let mut fluid = SerialFluid::new(&particles, MELT_CUTOFF);
        fluid.update_forces();
        fluid.update_forces();
        check_forces(&fluid.forces(), &sample, &expected).unwrap();
    }
}
