//! The six kernels and their launches.

use orrery_device::{
    Arg, Backend, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, kernel_source,
};

use super::super::{InsertionOptions, Waiting, WarpWalk};

/// Threads per block.
const BLOCK_SIZE: u32 = 256;

// SAFETY: for all five files, the kernels access n elements of the columns, 2 n nodes, 8 n children
// and n elements of the other arrays of cells. `Insertion::new` allocates as many, and the launches
// pass columns of length n. A thread that waits for a lock waits for a thread that does not wait. A
// thread that waits for a cell waits a limited time, see `cells.cu`.
const BOX: KernelFile = unsafe {
    KernelFile::new(
        "box.cu",
        kernel_source!(
            "nodes.cu",
            "../../../direct/device/frame_slots.cu",
            "../../../direct/device/frame.cu",
            "box.cu"
        ),
    )
};
// SAFETY: as above.
const INSERT: KernelFile = unsafe {
    KernelFile::new(
        "insert.cu",
        kernel_source!("nodes.cu", "../../../direct/device/frame_slots.cu", "insert.cu"),
    )
};
// SAFETY: as above.
const CELLS: KernelFile = unsafe {
    KernelFile::new(
        "cells.cu",
        kernel_source!("nodes.cu", "../../../direct/device/frame_slots.cu", "cells.cu"),
    )
};
// SAFETY: as above.
const WALK: KernelFile = unsafe {
    KernelFile::new(
        "walk.cu",
        kernel_source!(
            "nodes.cu",
            "../../../direct/device/frame_slots.cu",
            "../../../direct/device/pair.cu",
            "walk.cu"
        ),
    )
};
// SAFETY: as above.
const INTEGRATE: KernelFile = unsafe { KernelFile::new("integrate.cu", include_str!("integrate.cu")) };

/// A kernel and its launch.
pub(super) struct Launch {
    pub(super) kernel: Kernel,
    pub(super) blocks: u32,
    pub(super) block_size: u32,
    /// Whether blocks wait for one another.
    is_cooperative: bool,
}

pub(super) struct Kernels {
    pub(super) find_box: Launch,
    pub(super) insert_bodies: Launch,
    pub(super) sum_cells: Launch,
    pub(super) order_bodies: Launch,
    pub(super) walk: Launch,
    pub(super) integrate: Launch,
}

impl Launch {
    /// Queues the kernel on the default queue.
    pub(super) fn queue(&self, device: &Device, args: &[Arg]) -> Result<(), DeviceError> {
        let Self { kernel, blocks, block_size, .. } = self;
        if self.is_cooperative {
            device.queue().launch_cooperative(kernel, *blocks, *block_size, args)
        } else {
            device.queue().launch(kernel, *blocks, *block_size, args)
        }
    }
}

impl Kernels {
    /// Builds the kernels for `n` bodies, at least one.
    pub(super) fn build(
        builder: &mut KernelBuilder,
        n: usize,
        options: InsertionOptions,
        blocks_per_sm: [u32; 6],
    ) -> Result<Self, DeviceError> {
        let device = builder.device().clone();
        let InsertionOptions { throttled, waiting, sorted, walk } = options;
        let walks_together = walk != WarpWalk::Alone;
        // Without warps, the lanes of a warp synchronise at block barriers, so a block must be one
        // warp.
        let has_warps = device.properties().has_warp_shuffle;
        let walk_block_size = if walks_together && !has_warps { 32 } else { BLOCK_SIZE };
        let mut build = |file: &KernelFile<'_>, values: &[(&str, u32)]| {
            let definitions: Vec<_> = values.iter().map(|(name, value)| (*name, value.to_string())).collect();
            builder.build(file, &definitions, Math::FlushToZero)
        };
        let with_block_size = ("BLOCK_SIZE", BLOCK_SIZE);
        let find_box = build(&BOX, &[with_block_size])?;
        let insert = build(&INSERT, &[with_block_size, ("THROTTLED", throttled.into())])?;
        let cells = build(&CELLS, &[with_block_size, ("WAITING", waiting_number(waiting))])?;
        let values = [("BLOCK_SIZE", walk_block_size), ("SORTED", sorted.into()), ("WALK", walk as u32)];
        let walk = build(&WALK, &values)?;
        let integrate = build(&INTEGRATE, &[with_block_size])?;
        let (sm_count, backend) = (device.properties().sm_count.max(1), device.properties().backend);
        let waits = waiting != Waiting::None;
        let launch = |index: usize, kernel: Kernel, block_size: u32, is_cooperative: bool| {
            let needed = (n as u32).div_ceil(block_size);
            let wanted = sm_count * blocks_per_sm[index].max(1);
            let most = match (is_cooperative, backend) {
                (false, _) => u32::MAX,
                (true, Backend::Cuda) => kernel.resident_blocks(block_size),
                (true, Backend::OpenCl) => 1,
            };
            Launch { kernel, blocks: needed.min(wanted).min(most), block_size, is_cooperative }
        };
        Ok(Self {
            find_box: launch(0, find_box.kernel("find_box")?, BLOCK_SIZE, false),
            insert_bodies: launch(1, insert.kernel("insert_bodies")?, BLOCK_SIZE, false),
            sum_cells: launch(2, cells.kernel("sum_cells")?, BLOCK_SIZE, waits),
            order_bodies: launch(3, cells.kernel("order_bodies")?, BLOCK_SIZE, waits),
            walk: launch(4, walk.kernel("walk")?, walk_block_size, false),
            integrate: launch(5, integrate.kernel("integrate")?, BLOCK_SIZE, false),
        })
    }
}

/// Returns the value of `WAITING` in `cells.cu`.
fn waiting_number(waiting: Waiting) -> u32 {
    match waiting {
        Waiting::None => 0,
        Waiting::PollAll => 1,
        Waiting::PollMissing => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::device::tests::check_reported_line;

    #[test]
    fn compile_errors_name_the_file_and_line() {
        let definitions =
            [("BLOCK_SIZE", "32"), ("THROTTLED", "1"), ("WAITING", "2"), ("SORTED", "1"), ("WALK", "4")]
                .map(|(name, value)| (name, value.to_owned()));
        check_reported_line(BOX.text(), &definitions, "box.cu", 3);
        check_reported_line(INSERT.text(), &definitions, "insert.cu", 3);
        check_reported_line(CELLS.text(), &definitions, "cells.cu", 3);
        check_reported_line(WALK.text(), &definitions, "walk.cu", 3);
    }
}
