//! Occupancy of kernels, for `orrery occupancy`: of resources given by hand, and of kernels that
//! were built on a device, with the resources that the driver reports.
//! [`orrery_device::occupancy`] has the calculation.

mod kernels;

use orrery_device::occupancy::{BlockNeeds, Occupancy, OccupancyError, SmLimits, SmResource, WARP_SIZE};
use orrery_draw::plot::{Axis, Plot, Series, Style};
use serde_json::{Value, json};

use crate::format::{format_percent, format_thousands};
use crate::text_table::TextTable;

pub use kernels::{BuiltKernels, KernelOccupancy, kernels_of_device};

/// Occupancy of one kernel, and of the same kernel with other block sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct OccupancyReport {
    /// Hardware, for example `compute capability 9.0`.
    pub target: String,
    /// Limits of an SM.
    pub limits: &'static SmLimits,
    /// Resources that a block needs.
    pub needs: BlockNeeds,
    /// Occupancy.
    pub occupancy: Occupancy,
    /// Block sizes in ascending order. `None` if such a block cannot run.
    pub by_block_size: Vec<(u32, Option<Occupancy>)>,
}

impl OccupancyReport {
    /// Calculates the occupancy for `needs`, and for all block sizes that are whole warps.
    pub fn new(target: String, limits: &'static SmLimits, needs: BlockNeeds) -> Result<Self, OccupancyError> {
        let occupancy = limits.occupancy(needs)?;
        let by_block_size = occupancy_by_block_size(limits, needs);
        Ok(Self { target, limits, needs, occupancy, by_block_size })
    }

    /// Formats the report in lines of at most 80 characters.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.summary_lines();
        lines.push(String::new());
        lines.extend(self.limit_lines());
        lines.push(String::new());
        lines.extend(self.block_size_lines());
        lines
    }

    fn summary_lines(&self) -> Vec<String> {
        let Self { limits, needs, occupancy, .. } = self;
        let count = |value: u32| format_thousands(value as usize);
        let warps = needs.threads.div_ceil(WARP_SIZE);
        let entries = [
            ("block", format!("{} threads, {warps} warps", count(needs.threads))),
            (
                "registers",
                format!(
                    "{} per thread, {} allocated per block, {} per SM",
                    needs.registers,
                    count(occupancy.registers_per_block),
                    count(limits.registers_per_sm)
                ),
            ),
            (
                "shared memory",
                format!(
                    "{} bytes, {} allocated per block, {} per SM",
                    count(needs.shared_bytes),
                    count(occupancy.shared_per_block),
                    count(limits.shared_per_sm)
                ),
            ),
            ("blocks per SM", count(occupancy.blocks_per_sm)),
            ("warps per SM", format!("{} of {}", occupancy.warps_per_sm, limits.warps_per_sm())),
            ("occupancy", format_percent(Some(occupancy.fraction))),
            ("limited by", limit_names(occupancy)),
        ];
        let mut lines = vec![self.target.clone()];
        lines.extend(entries.map(|(name, value)| format!("  {name:<14} {value}")));
        lines
    }

    fn limit_lines(&self) -> Vec<String> {
        let limits = &self.occupancy.limits;
        let names = limits.iter().map(|(resource, _)| resource.name().to_owned()).collect();
        let mut table = TextTable::new("resource", names);
        let blocks = limits.iter().map(|(_, blocks)| blocks.map_or("-".to_owned(), |n| n.to_string()));
        table.add_column("blocks", blocks.collect());
        table.lines_with_caption("blocks per SM that each resource allows by itself")
    }

    fn block_size_lines(&self) -> Vec<String> {
        let mark = |threads: u32| if threads == self.needs.threads { "*" } else { "" };
        let names = self.by_block_size.iter().map(|(threads, _)| format!("{threads}{}", mark(*threads)));
        let mut table = TextTable::new("threads", names.collect());
        let mut add_column = |heading: &str, cell: fn(&Occupancy) -> String| {
            let cells = self.by_block_size.iter().map(|(_, occupancy)| match occupancy {
                Some(occupancy) => cell(occupancy),
                None => "-".to_owned(),
            });
            table.add_column(heading, cells.collect());
        };
        add_column("blocks", |occupancy| occupancy.blocks_per_sm.to_string());
        add_column("warps", |occupancy| occupancy.warps_per_sm.to_string());
        add_column("occupancy", |occupancy| format_percent(Some(occupancy.fraction)));
        add_column("limited by", limit_names);
        table.lines_with_caption("other block sizes with the same registers and shared memory")
    }

    /// Draws the occupancy over the block size, and marks the given block size.
    pub fn plot(&self) -> Plot {
        let BlockNeeds { threads, registers, shared_bytes } = self.needs;
        let mark = (f64::from(threads), 100.0 * self.occupancy.fraction);
        let name = format!("{threads} threads: {}", format_percent(Some(self.occupancy.fraction)));
        Plot {
            title: format!("occupancy with {registers} registers per thread, {shared_bytes} bytes shared"),
            subtitle: self.target.clone(),
            x: Axis::linear("threads per block"),
            y: Axis::linear("occupancy, %"),
            series: vec![
                Series::line("occupancy", occupancy_points(&self.by_block_size)),
                Series { name, points: vec![mark], style: Style::Named },
            ],
        }
    }

    /// Returns the report as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "target": self.target,
            "capability": capability_name(self.limits.capability),
            "limits": limits_json(self.limits),
            "needs": needs_json(self.needs),
            "occupancy": occupancy_json(&self.occupancy),
            "block_sizes": block_sizes_json(&self.by_block_size),
        })
    }
}

/// Returns a compute capability as text, for example `9.0`.
pub fn capability_name((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// Returns the limits of a compute capability, or a message that lists the known ones.
pub fn find_limits(capability: (u32, u32)) -> Result<&'static SmLimits, String> {
    SmLimits::of(capability).ok_or_else(|| {
        let known: Vec<String> =
            SmLimits::all().iter().map(|limits| capability_name(limits.capability)).collect();
        format!(
            "compute capability {} is not in the table, expected one of {}",
            capability_name(capability),
            known.join(", ")
        )
    })
}

/// Calculates the occupancy of blocks of 32, 64, ... threads, up to the largest block size.
fn occupancy_by_block_size(limits: &SmLimits, needs: BlockNeeds) -> Vec<(u32, Option<Occupancy>)> {
    let sizes = (1..=limits.threads_per_block / WARP_SIZE).map(|warps| warps * WARP_SIZE);
    sizes.map(|threads| (threads, limits.occupancy(BlockNeeds { threads, ..needs }).ok())).collect()
}

/// Returns the points of a plot. A block size that cannot run has an occupancy of 0.
fn occupancy_points(by_block_size: &[(u32, Option<Occupancy>)]) -> Vec<(f64, f64)> {
    let percent = |occupancy: &Option<Occupancy>| {
        occupancy.as_ref().map_or(0.0, |occupancy| 100.0 * occupancy.fraction)
    };
    by_block_size.iter().map(|(threads, occupancy)| (f64::from(*threads), percent(occupancy))).collect()
}

/// Returns the names of the limiting resources, for example `threads, registers`.
fn limit_names(occupancy: &Occupancy) -> String {
    occupancy.limited_by.iter().map(|resource| resource.name()).collect::<Vec<_>>().join(", ")
}

fn limits_json(limits: &SmLimits) -> Value {
    json!({
        "threads_per_block": limits.threads_per_block,
        "threads_per_sm": limits.threads_per_sm,
        "blocks_per_sm": limits.blocks_per_sm,
        "registers_per_sm": limits.registers_per_sm,
        "registers_per_block": limits.registers_per_block,
        "registers_per_thread": limits.registers_per_thread,
        "register_unit": limits.register_unit,
        "partitions": limits.partitions,
        "shared_per_sm": limits.shared_per_sm,
        "shared_per_block": limits.shared_per_block,
        "shared_unit": limits.shared_unit,
        "reserved_shared": limits.reserved_shared,
    })
}

fn needs_json(needs: BlockNeeds) -> Value {
    json!({ "threads": needs.threads, "registers": needs.registers, "shared_bytes": needs.shared_bytes })
}

fn occupancy_json(occupancy: &Occupancy) -> Value {
    let by_resource: serde_json::Map<String, Value> =
        occupancy.limits.iter().map(|(resource, blocks)| (key_of(*resource), json!(blocks))).collect();
    json!({
        "blocks_per_sm": occupancy.blocks_per_sm,
        "warps_per_sm": occupancy.warps_per_sm,
        "fraction": occupancy.fraction,
        "limited_by": occupancy.limited_by.iter().map(|resource| key_of(*resource)).collect::<Vec<_>>(),
        "blocks_by_resource": by_resource,
        "registers_per_block": occupancy.registers_per_block,
        "shared_per_block": occupancy.shared_per_block,
    })
}

fn key_of(resource: SmResource) -> String {
    resource.name().replace(' ', "_")
}

fn block_sizes_json(by_block_size: &[(u32, Option<Occupancy>)]) -> Vec<Value> {
    let entry = |(threads, occupancy): &(u32, Option<Occupancy>)| json!({ "threads": threads, "occupancy": occupancy.as_ref().map(occupancy_json) });
    by_block_size.iter().map(entry).collect()
}

#[cfg(test)]
mod tests;
