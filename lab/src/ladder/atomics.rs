//! Ladder of atomics: every operation on many numbers, and their rate over the number of numbers.

mod sweeps;

use std::sync::atomic::AtomicU32;

use orrery_device::{Device, DeviceError, Element, Resources};
use orrery_measure::MeasureError;
use orrery_measure::format::format_number;

use super::repeats::{time_rung_on_cpu, time_rung_on_device};
use super::{Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roof, RungResult, TimedRuns};
use crate::experiments::atomics::cpu::{add_in_one_thread, add_on_all_cores};
use crate::experiments::atomics::device::{
    AtomicScope, AtomicSupport, RealAddition, RealAtomics, Returns, ScopedAdditions, Word, WordAtomics,
};
use crate::experiments::atomics::shared::{SharedAddition, SharedAdditions, SharedPattern};
use crate::experiments::atomics::{AtomicOperation, Pattern, Workload};

pub static LADDER: LadderEntry = LadderEntry {
    name: "atomics",
    description: "Atomic operations on many numbers and on few, in global and shared memory",
    title: "atomic operations",
    size_unit: "operations",
    host_bytes: |_| 4 << MAX_NUMBERS_LOG,
    sizes: DefaultSizes { gpu: 1 << 26, opencl_cpu: 1 << 18, host: 1 << 22 },
    counted: Counted {
        item: "operation",
        rate_unit: "operations/s",
        heading: "Gop/s",
        to_column: |rate| rate / 1e9,
    },
    measure,
};

/// Logarithm to base 2 of the number of numbers of the rungs, and of the largest one of the sweep.
const MAX_NUMBERS_LOG: u32 = 20;
/// The number of numbers of the rungs. 4 or 8 MiB fit into the L2 cache of current GPUs.
const NUMBERS: usize = 1 << MAX_NUMBERS_LOG;
/// Largest number of operations on the CPU.
const MAX_CPU_OPERATIONS: usize = 1 << 22;

/// Operations on 32 bits of which a rung does not use the result. The others return it in any case.
const WITHOUT_RESULT: [AtomicOperation; 9] = [
    AtomicOperation::Add,
    AtomicOperation::Sub,
    AtomicOperation::Min,
    AtomicOperation::Max,
    AtomicOperation::And,
    AtomicOperation::Or,
    AtomicOperation::Xor,
    AtomicOperation::Inc,
    AtomicOperation::Dec,
];
/// Operations of which a rung uses the result.
const WITH_RESULT: [AtomicOperation; 3] =
    [AtomicOperation::Add, AtomicOperation::Exchange, AtomicOperation::CompareAndSwap];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    add_cpu_rungs(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    ladder.roof = Some(Roof {
        name: "race",
        description: "additions by a load and a store, which lose updates".to_owned(),
    });
    ladder.remarks.push(format!(
        "Rungs: operation i on number i mod 2^{MAX_NUMBERS_LOG}. result: the thread uses the old value."
    ));
    let operations = request.n.min(i32::MAX as usize) as u32;
    let support = AtomicSupport::of_device(device)?;
    let mut measurement = Measurement { device, operations, support, request, ladder, race: None };
    measurement.add_missing_remarks();
    measurement.add_global_rungs()?;
    measurement.add_shared_rungs()?;
    measurement.sweep_numbers()?;
    measurement.sweep_shared()?;
    measurement.add_votes()?;
    Ok(())
}

fn add_cpu_rungs(request: &mut LadderRequest, ladder: &mut Ladder) {
    let n = request.n.min(MAX_CPU_OPERATIONS);
    let work = |numbers| Workload { operations: n as u32, numbers, pattern: Pattern::InOrder };
    let (many, one) = (work(NUMBERS), work(1));
    let mut numbers = vec![0; NUMBERS];
    let atomics: Vec<AtomicU32> = (0..NUMBERS).map(|_| AtomicU32::new(0)).collect();
    let mut add = |name: &str, run: &mut dyn FnMut()| {
        (request.progress)(name);
        let runs = TimedRuns { n, items: n as f64, times: time_rung_on_cpu(run) };
        ladder.add_rung(RungResult::new(name, &runs));
    };
    add("CPU, one thread, not atomic", &mut || add_in_one_thread(&many, &mut numbers));
    add("CPU, all cores, u32 add", &mut || add_on_all_cores(&many, &atomics));
    add("CPU, all cores, one number", &mut || add_on_all_cores(&one, &atomics));
}

struct Measurement<'a, 'b> {
    device: &'a Device,
    operations: u32,
    support: AtomicSupport,
    request: &'a mut LadderRequest<'b>,
    ladder: &'a mut Ladder,
    /// Rate of the additions that race, in the memory of the current rungs.
    race: Option<f64>,
}

impl Measurement<'_, '_> {
    /// Returns the workload of the rungs.
    fn work(&self) -> Workload {
        Workload { operations: self.operations, numbers: NUMBERS, pattern: Pattern::InOrder }
    }

    fn has_f64(&self) -> bool {
        self.support.has_u64 && self.device.properties().has_f64
    }

    fn add_missing_remarks(&mut self) {
        let AtomicSupport { has_u64, has_f32_add, has_f64_add, has_scopes } = self.support;
        let missing = [
            (has_u64, "no atomics on 64 bits"),
            (has_f32_add, "no addition of f32 by hardware"),
            (has_f64_add, "no addition of f64 by hardware"),
            (has_scopes, "no scopes of atomics"),
        ];
        let missing: Vec<&str> = missing.iter().filter(|(has, _)| !has).map(|(_, text)| *text).collect();
        if !missing.is_empty() {
            self.ladder.remarks.push(format!("This device has {}.", missing.join(", ")));
        }
    }

    /// Measures a launch of `items` operations and adds its rung. The first rung after `race` is
    /// None is the roof of the next ones.
    fn add(
        &mut self,
        name: &str,
        items: f64,
        resources: Option<(Resources, Option<f64>)>,
        launch: impl FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        (self.request.progress)(name);
        let times = time_rung_on_device(self.device, launch)?;
        let runs = TimedRuns { n: self.request.n, items, times };
        let (kernel, occupancy) = resources.unzip();
        self.ladder.add_rung(RungResult {
            roof: Some(*self.race.get_or_insert(runs.rate())),
            registers: kernel.and_then(|kernel| kernel.registers),
            shared_bytes: kernel.map(|kernel| kernel.shared_bytes),
            occupancy: occupancy.flatten(),
            ..RungResult::new(name, &runs)
        });
        Ok(())
    }

    fn add_global_rungs(&mut self) -> Result<(), DeviceError> {
        self.race = None;
        self.add_word_rungs::<u32>(Returns::Unused, &[AtomicOperation::RacingAdd])?;
        self.add_word_rungs::<u32>(Returns::Unused, &WITHOUT_RESULT)?;
        self.add_word_rungs::<u32>(Returns::Summed, &WITH_RESULT)?;
        if self.support.has_u64 {
            self.add_word_rungs::<u64>(Returns::Unused, &WITHOUT_RESULT)?;
            self.add_word_rungs::<u64>(Returns::Summed, &WITH_RESULT)?;
        }
        self.add_real_rungs::<f32>("f32", self.support.has_f32_add)?;
        if self.has_f64() {
            self.add_real_rungs::<f64>("f64", self.support.has_f64_add)?;
        }
        let (device, operations) = (self.device, self.operations);
        let scoped = ScopedAdditions::new(device, operations)?;
        let scopes: &[AtomicScope] = if self.support.has_scopes { &AtomicScope::ALL } else { &[] };
        for &scope in scopes {
            let name = format!("u32 add, scope {}", scope.name());
            self.add(&name, operations.into(), None, || scoped.launch(device.queue(), scope, operations))?;
        }
        Ok(())
    }

    fn add_word_rungs<T: Word>(
        &mut self,
        returns: Returns,
        operations: &[AtomicOperation],
    ) -> Result<(), DeviceError> {
        let (device, work) = (self.device, self.work());
        let atomics = WordAtomics::<T>::new(device, returns, NUMBERS, work.operations)?;
        for operation in operations.iter().filter(|operation| operation.has_width(T::WIDTH)) {
            let result = if returns == Returns::Unused { "" } else { ", result" };
            let name = format!("u{} {}{result}", T::WIDTH.bits(), operation.name());
            atomics.reset(device.queue(), *operation)?;
            self.add(&name, work.operations.into(), Some(atomics.resources()), || {
                atomics.launch(device.queue(), *operation, &work)
            })?;
        }
        Ok(())
    }

    fn add_real_rungs<T: Element>(&mut self, type_name: &str, has_hardware: bool) -> Result<(), DeviceError> {
        let (device, work) = (self.device, self.work());
        let atomics = RealAtomics::<T>::new(device, NUMBERS)?;
        let methods = [
            (has_hardware, RealAddition::Hardware, "add"),
            (true, RealAddition::CompareAndSwap, "add by compare-and-swap"),
        ];
        for (_, method, name) in methods.into_iter().filter(|(is_possible, ..)| *is_possible) {
            self.add(&format!("{type_name} {name}"), work.operations.into(), None, || {
                atomics.launch(device.queue(), method, &work)
            })?;
        }
        Ok(())
    }

    /// Adds the rungs of shared memory, each with the cost of an addition of a warp.
    fn add_shared_rungs(&mut self) -> Result<(), DeviceError> {
        self.race = None;
        let (banks, number) = (SharedPattern::Numbers(32), SharedPattern::Numbers(1));
        let rungs = [
            ("shared, u32 racing add", SharedAddition::RacingU32, banks),
            ("shared, u32 add, 32 banks", SharedAddition::U32, banks),
            ("shared, u32 add, one bank", SharedAddition::U32, SharedPattern::OneBank),
            ("shared, u32 add, one number", SharedAddition::U32, number),
            ("shared, f32 add, 32 banks", SharedAddition::F32, banks),
            ("shared, f32 add, one number", SharedAddition::F32, number),
            ("shared, u64 add, 32 numbers", SharedAddition::U64, banks),
            ("shared, u64 add, one number", SharedAddition::U64, number),
        ];
        let (device, has_u64) = (self.device, self.support.has_u64);
        for (name, addition, pattern) in rungs {
            if addition == SharedAddition::U64 && !has_u64 {
                continue;
            }
            let additions = SharedAdditions::new(device, pattern)?;
            let rounds = self.shared_rounds(&additions);
            let items = additions.thread_count() as f64 * f64::from(rounds);
            self.add(name, items, Some(additions.resources()), || {
                additions.launch(device.queue(), addition, rounds)
            })?;
            let cycles = additions.cycles_per_addition(rounds)?;
            if let (Some(cycles), Some(rung)) = (cycles, self.ladder.rungs.last_mut()) {
                rung.note = format!("{} cycles per addition of a warp", format_number(cycles));
            }
        }
        Ok(())
    }

    /// Returns the additions per thread of shared memory, so that all threads do about n.
    fn shared_rounds(&self, additions: &SharedAdditions) -> i32 {
        (self.request.n / additions.thread_count()).clamp(8, 4096) as i32
    }
}
