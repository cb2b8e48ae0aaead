//! Occupancy of kernels that were built on a device, with the resources that the driver reports.

use orrery_device::occupancy::{BlockNeeds, Occupancy, SmLimits};
use orrery_device::{Device, DeviceError, Kernel};
use orrery_draw::plot::{Axis, Plot, Series};
use serde_json::{Value, json};

use super::{
    capability_name, limit_names, needs_json, occupancy_by_block_size, occupancy_json, occupancy_points,
};
use crate::format::{format_percent, format_thousands};
use crate::text_table::TextTable;

/// Occupancy of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelOccupancy {
    /// Kernel file.
    pub file: String,
    /// Compile-time definitions of the file.
    pub definitions: String,
    /// Name of the kernel.
    pub name: String,
    /// Resources of a block of the kernel's size.
    pub needs: BlockNeeds,
    /// Bytes of local memory per thread.
    pub spill_bytes: Option<u32>,
    /// Occupancy.
    pub occupancy: Occupancy,
    /// Blocks per SM that the driver reports.
    pub driver_blocks: Option<u32>,
}

impl KernelOccupancy {
    /// Calculates the occupancy for the largest block size of the kernel. `None` if the driver does
    /// not report its registers, or if its blocks cannot run on an SM with these limits.
    pub fn of(kernel: &Kernel, limits: &SmLimits) -> Option<Self> {
        let resources = kernel.resources();
        let needs = kernel.block_needs(resources.max_block_size)?;
        Some(Self {
            file: kernel.file().to_owned(),
            definitions: kernel.definitions().to_owned(),
            name: kernel.name().to_owned(),
            needs,
            spill_bytes: resources.spill_bytes,
            occupancy: limits.occupancy(needs).ok()?,
            driver_blocks: kernel.blocks_per_sm(needs.threads),
        })
    }

    /// Returns name and definitions, for example `copy BLOCK_SIZE=256`.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.definitions).trim_end().to_owned()
    }
}

/// Occupancy of kernels that were built on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltKernels {
    /// Device and compute capability.
    pub target: String,
    /// Limits of an SM.
    pub limits: &'static SmLimits,
    /// Kernels, sorted by file, definitions and name.
    pub kernels: Vec<KernelOccupancy>,
}

/// Returns the kernels that were built on a device and for which `is_selected`, with their
/// occupancy. Kernels whose registers the driver does not report are left out.
pub fn kernels_of_device(
    device: &Device,
    limits: &'static SmLimits,
    is_selected: impl Fn(&KernelOccupancy) -> bool,
) -> Result<BuiltKernels, DeviceError> {
    let kernels = device.kernels()?;
    let known = kernels.iter().filter_map(|kernel| KernelOccupancy::of(kernel, limits));
    let target = format!("{}, compute capability {}", device.title(), capability_name(limits.capability));
    Ok(BuiltKernels { target, limits, kernels: known.filter(is_selected).collect() })
}

impl BuiltKernels {
    /// Formats a table in lines of at most 80 characters.
    pub fn lines(&self) -> Vec<String> {
        let names = self.kernels.iter().map(KernelOccupancy::title).collect();
        let mut table = TextTable::new("kernel", names);
        let count = |value: u32| format_thousands(value as usize);
        let mut add_column = |heading: &str, cell: &dyn Fn(&KernelOccupancy) -> String| {
            table.add_column(heading, self.kernels.iter().map(cell).collect());
        };
        add_column("block", &|kernel| kernel.needs.threads.to_string());
        add_column("regs", &|kernel| kernel.needs.registers.to_string());
        add_column("shared", &|kernel| count(kernel.needs.shared_bytes));
        add_column("blocks", &|kernel| kernel.occupancy.blocks_per_sm.to_string());
        add_column("warps", &|kernel| kernel.occupancy.warps_per_sm.to_string());
        add_column("occup.", &|kernel| format_percent(Some(kernel.occupancy.fraction)));
        add_column("limit", &|kernel| limit_names(&kernel.occupancy));
        let mut lines = vec![self.target.clone()];
        lines.extend(table.lines());
        lines.push("  regs: registers per thread; shared: bytes of shared memory per block;".to_owned());
        lines.push("  blocks, warps: resident on one SM".to_owned());
        let differs = |kernel: &&KernelOccupancy| {
            kernel.driver_blocks.is_some_and(|blocks| blocks != kernel.occupancy.blocks_per_sm)
        };
        for kernel in self.kernels.iter().filter(differs) {
            let blocks = kernel.driver_blocks.unwrap_or(0);
            lines.push(format!("  {}: the driver reports {blocks} blocks", kernel.name));
        }
        lines
    }

    /// Draws one line per kernel over the block size. `title` names what the kernels belong to.
    pub fn plot(&self, title: &str) -> Plot {
        let line = |kernel: &KernelOccupancy| {
            let points = occupancy_points(&occupancy_by_block_size(self.limits, kernel.needs));
            Series::line(kernel.title(), points)
        };
        Plot {
            title: format!("occupancy of the kernels of {title}"),
            subtitle: self.target.clone(),
            x: Axis::linear("threads per block"),
            y: Axis::linear("occupancy, %"),
            series: self.kernels.iter().map(line).collect(),
        }
    }

    /// Returns the kernels as a JSON object.
    pub fn to_json(&self) -> Value {
        let kernel_json = |kernel: &KernelOccupancy| {
            json!({
                "file": kernel.file,
                "definitions": kernel.definitions,
                "name": kernel.name,
                "needs": needs_json(kernel.needs),
                "spill_bytes": kernel.spill_bytes,
                "occupancy": occupancy_json(&kernel.occupancy),
                "driver_blocks_per_sm": kernel.driver_blocks,
            })
        };
        json!({
            "target": self.target,
            "capability": capability_name(self.limits.capability),
            "kernels": self.kernels.iter().map(kernel_json).collect::<Vec<_>>(),
        })
    }
}
