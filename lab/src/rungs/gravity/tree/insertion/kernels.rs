//! The six kernels and their launches.

use orrery_device::{
    Arg, Backend, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, join_sources, kernel_source,
};
use orrery_gravity::solver::direct::device::{FRAME_SLOTS_SOURCE, FRAME_SOURCE, PAIR_SOURCE};

use super::{InsertionOptions, Waiting, WarpWalk};

/// Threads per block.
const BLOCK_SIZE: u32 = 256;

/// Text of `nodes.cu` after that of `frame_slots.cu`.
const NODES_SOURCE: &str = join_sources!(FRAME_SLOTS_SOURCE, kernel_source!("nodes.cu"));

// SAFETY: for all five files, the kernels access n elements of the columns, 2 n nodes, 8 n children
// and n elements of the other arrays of cells. `Insertion::new` allocates as many, and the launches
// pass columns of length n. A thread that waits for a lock waits for a thread that does not wait. A
// thread that waits for a cell waits a limited time, see `cells.cu`.
const BOX: KernelFile =
    unsafe { KernelFile::new("box.cu", join_sources!(NODES_SOURCE, FRAME_SOURCE, kernel_source!("box.cu"))) };
// SAFETY: as above.
const INSERT: KernelFile =
    unsafe { KernelFile::new("insert.cu", join_sources!(NODES_SOURCE, kernel_source!("insert.cu"))) };
// SAFETY: as above.
const CELLS: KernelFile = unsafe {
    KernelFile::new("cells.cu", join_sources!(Waiting::DEFINES, NODES_SOURCE, kernel_source!("cells.cu")))
};
// SAFETY: as above.
const WALK: KernelFile = unsafe {
    KernelFile::new(
        "walk.cu",
        join_sources!(WarpWalk::DEFINES, NODES_SOURCE, PAIR_SOURCE, kernel_source!("walk.cu")),
    )
};
// SAFETY: as above.
const INTEGRATE: KernelFile = unsafe { KernelFile::new("integrate.cu", include_str!("integrate.cu")) };

/// A kernel and its launch.
pub(super) struct InsertionLaunch {
    pub(super) kernel: Kernel,
    pub(super) blocks: u32,
    pub(super) block_size: u32,
    /// Whether blocks wait for one another.
    is_cooperative: bool,
}

pub(super) struct InsertionKernels {
    pub(super) find_box: InsertionLaunch,
    pub(super) insert_bodies: InsertionLaunch,
    pub(super) sum_cells: InsertionLaunch,
    pub(super) order_bodies: InsertionLaunch,
    pub(super) walk: InsertionLaunch,
    pub(super) integrate: InsertionLaunch,
}

impl InsertionLaunch {
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

impl InsertionKernels {
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
        let mut build = |file: &KernelFile<'_>, definitions: &[(&str, String)]| {
            builder.build(file, definitions, Math::FlushToZero)
        };
        let block_size = |threads: u32| ("BLOCK_SIZE", threads.to_string());
        let flag = |name: &'static str, is_set: bool| (name, u8::from(is_set).to_string());
        let with_block_size = block_size(BLOCK_SIZE);
        let find_box = build(&BOX, std::slice::from_ref(&with_block_size))?;
        let insert = build(&INSERT, &[with_block_size.clone(), flag("THROTTLED", throttled)])?;
        let waiting_name = ("WAITING", waiting.kernel_name().to_owned());
        let cells = build(&CELLS, &[with_block_size.clone(), waiting_name])?;
        let walk_name = ("WALK", walk.kernel_name().to_owned());
        let walk = build(&WALK, &[block_size(walk_block_size), flag("SORTED", sorted), walk_name])?;
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
            InsertionLaunch { kernel, blocks: needed.min(wanted).min(most), block_size, is_cooperative }
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

#[cfg(test)]
mod tests {
    use orrery_device::testing::test_devices;

    use super::*;
    use crate::kernel_enum::check_conditions;

    #[test]
    fn names_in_the_kernel_files_are_defined() {
        check_conditions(CELLS.text(), "WAITING");
        check_conditions(WALK.text(), "WALK");
    }

    #[test]
    fn compile_errors_name_the_file_and_line() {
        let definitions = [
            ("BLOCK_SIZE", "32"),
            ("THROTTLED", "1"),
            ("WAITING", Waiting::PollMissing.kernel_name()),
            ("SORTED", "1"),
            ("WALK", WarpWalk::Vote.kernel_name()),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        for file in [BOX, INSERT, CELLS, WALK] {
            check_reported_line(&file, &definitions, 3);
        }
    }

    /// Inserts an error as line `line` of the last file of a joined source and checks that the
    /// compilers of all devices report this file and line.
    fn check_reported_line(file: &KernelFile, definitions: &[(&'static str, String)], line: usize) {
        let (name, source) = (file.name(), file.text());
        let marker = format!("#line 1 \"{name}\"\n");
        let file_start = source.find(&marker).expect("the file has a #line directive") + marker.len();
        let lines = source[file_start..].split_inclusive('\n');
        let line_start = file_start + lines.take(line - 1).map(str::len).sum::<usize>();
        let (before, after) = source.split_at(line_start);
        let text = format!("{before}no_such_type variable;\n{after}");
        for device in test_devices() {
            // SAFETY: the source does not compile, so it is never launched.
            let file_with_error = unsafe { KernelFile::new("source.cu", &text) };
            let result = device.build(&file_with_error, definitions, Math::Precise);
            let Err(error) = result else { panic!("{name} compiles with an error in it") };
            // clang and the OpenCL compilers write file:line, NVRTC writes file(line).
            let message = error.to_string();
            let is_reported =
                message.contains(&format!("{name}:{line}:")) || message.contains(&format!("{name}({line})"));
            assert!(is_reported, "expected an error in line {line} of {name}: {message}");
        }
    }
}
