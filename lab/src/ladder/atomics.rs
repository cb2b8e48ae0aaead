//! Ladder of atomics: every operation on many numbers, and their rate over the number of numbers.

mod sweeps;

use std::cell::{OnceCell, RefCell};
use std::sync::atomic::AtomicU32;

use orrery_device::{Device, DeviceError, Element};
use orrery_measure::MeasureError;
use orrery_measure::format::format_number;

use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult, PreparedRung, Roof,
    RungClock, RungDetails, RungLabel, RungLimit, RungSet, TimedRuns,
};
use crate::experiments::atomics::cpu::{add_in_one_thread, add_on_all_cores};
use crate::experiments::atomics::device::{
    AtomicScope, AtomicSupport, AtomicWord, RealAddition, RealAtomics, Returns, ScopedAdditions, WordAtomics,
};
use crate::experiments::atomics::shared::{SharedAddition, SharedAdditions, SharedPattern};
use crate::experiments::atomics::{AtomicOperation, AtomicPattern, AtomicWidth, AtomicWorkload};

use sweeps::{Contended, sweep_shared, vote_table};

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
    rungs: &[RungSet::of::<AtomicRung>()],
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
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    ladder.roof = Some(Roof {
        name: "race",
        description: "additions by a load and a store, which lose updates".to_owned(),
    });
    ladder.remarks.push(format!(
        "Rungs: operation i on number i mod 2^{MAX_NUMBERS_LOG}. result: the thread uses the old value."
    ));
    let support = AtomicSupport::of_device(device)?;
    ladder.remarks.extend(missing_remark(&support));
    let input = AtomicRung::new_input(device, request.n)?;
    let has_f64 = support.has_u64 && device.properties().has_f64;
    let rungs = AtomicRung::all(device).into_iter().filter(|rung| rung.is_supported(&support, has_f64));
    ladder.measure_rungs(request, &rungs.collect::<Vec<_>>(), &input)?;
    let contended = Contended::new(device, input.operations, support)?;
    ladder.sweeps.extend(contended.sweep_numbers(request)?);
    ladder.sweeps.push(sweep_shared(request, device, support.has_u64)?);
    ladder.tables.push(vote_table(request, device)?);
    Ok(())
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n.min(MAX_CPU_OPERATIONS);
    let work = |numbers| AtomicWorkload { operations: n as u32, numbers, pattern: AtomicPattern::InOrder };
    let (many, one) = (work(NUMBERS), work(1));
    let numbers = RefCell::new(vec![0; NUMBERS]);
    let atomics: Vec<AtomicU32> = (0..NUMBERS).map(|_| AtomicU32::new(0)).collect();
    let versions: [(&str, &dyn Fn()); 3] = [
        ("CPU, one thread, not atomic", &|| add_in_one_thread(&many, &mut numbers.borrow_mut())),
        ("CPU, all cores, u32 add", &|| add_on_all_cores(&many, &atomics)),
        ("CPU, all cores, one number", &|| add_on_all_cores(&one, &atomics)),
    ];
    for (name, run) in versions {
        ladder.measure_prepared(request, name, "", PreparedRung::on_host(n, n as f64, run))?;
    }
    Ok(())
}

/// Returns a remark on the atomics that a device does not have.
fn missing_remark(support: &AtomicSupport) -> Option<String> {
    let AtomicSupport { has_u64, has_f32_add, has_f64_add, has_scopes } = support;
    let missing = [
        (has_u64, "no atomics on 64 bits"),
        (has_f32_add, "no addition of f32 by hardware"),
        (has_f64_add, "no addition of f64 by hardware"),
        (has_scopes, "no scopes of atomics"),
    ];
    let missing: Vec<&str> = missing.iter().filter(|(has, _)| !**has).map(|(_, text)| *text).collect();
    (!missing.is_empty()).then(|| format!("This device has {}.", missing.join(", ")))
}

/// Operation of a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AtomicRung {
    /// On integers in global memory.
    Word(AtomicWidth, Returns, AtomicOperation),
    /// Addition of floats in global memory.
    Real(AtomicWidth, RealAddition),
    /// Addition with a scope.
    Scope(AtomicScope),
    /// Addition in shared memory.
    Shared(&'static str, SharedAddition, SharedPattern),
}

impl AtomicRung {
    /// Returns the rungs of one width.
    fn words(width: AtomicWidth) -> impl Iterator<Item = Self> {
        let rungs = |returns, operations: &'static [AtomicOperation]| {
            let operations = operations.iter().filter(move |operation| operation.has_width(width));
            operations.map(move |operation| Self::Word(width, returns, *operation))
        };
        rungs(Returns::Unused, &WITHOUT_RESULT).chain(rungs(Returns::Summed, &WITH_RESULT))
    }

    /// Returns whether a device with these atomics can run the rung.
    fn is_supported(&self, support: &AtomicSupport, has_f64: bool) -> bool {
        match self {
            Self::Word(width, ..) => *width == AtomicWidth::Bits32 || support.has_u64,
            Self::Real(AtomicWidth::Bits32, RealAddition::Hardware) => support.has_f32_add,
            Self::Real(AtomicWidth::Bits32, RealAddition::CompareAndSwap) => true,
            Self::Real(AtomicWidth::Bits64, RealAddition::Hardware) => has_f64 && support.has_f64_add,
            Self::Real(AtomicWidth::Bits64, RealAddition::CompareAndSwap) => has_f64,
            Self::Scope(_) => support.has_scopes,
            Self::Shared(_, SharedAddition::U64, _) => support.has_u64,
            Self::Shared(..) => true,
        }
    }
}

/// Device and number of operations, and the rates of additions that race in global and in shared
/// memory.
pub struct AtomicInput {
    device: Device,
    n: usize,
    operations: u32,
    race_rates: [OnceCell<f64>; 2],
}

impl AtomicInput {
    /// Returns the workload of the rungs in global memory.
    fn work(&self) -> AtomicWorkload {
        let (operations, pattern) = (self.operations, AtomicPattern::InOrder);
        AtomicWorkload { operations, numbers: NUMBERS, pattern }
    }

    /// Returns a rung of `items` operations. The first one of each memory is the roof of the
    /// others.
    fn new_rung<'a, S: 'a>(
        &'a self,
        is_shared: bool,
        items: f64,
        state: S,
        launch: impl FnMut(&mut S) -> Result<(), DeviceError> + 'a,
        note: impl Fn(&S) -> Result<Option<String>, DeviceError> + 'a,
    ) -> PreparedRung<'a> {
        let details = move |state: &mut S, runs: &TimedRuns| {
            let race = *self.race_rates[usize::from(is_shared)].get_or_init(|| runs.rate());
            let limit = Some(RungLimit::Rate(race));
            Ok(RungDetails { note: note(state)?, limit, ..RungDetails::default() })
        };
        PreparedRung::with_details(RungClock::of(&self.device), self.n, items, state, launch, details)
    }

    fn prepare_words<T: AtomicWord>(
        &self,
        returns: Returns,
        operation: AtomicOperation,
    ) -> Result<PreparedRung<'_>, DeviceError> {
        let (queue, work) = (self.device.queue(), self.work());
        let atomics = WordAtomics::<T>::new(&self.device, returns, NUMBERS, work.operations)?;
        atomics.reset(queue, operation)?;
        let kernel = atomics.resources();
        let launch = move |atomics: &mut WordAtomics<T>| atomics.launch(queue, operation, &work);
        Ok(self.new_rung(false, work.operations.into(), atomics, launch, |_| Ok(None)).with_kernel(kernel))
    }

    fn prepare_reals<T: Element>(&self, method: RealAddition) -> Result<PreparedRung<'_>, DeviceError> {
        let (queue, work) = (self.device.queue(), self.work());
        let atomics = RealAtomics::<T>::new(&self.device, NUMBERS)?;
        let launch = move |atomics: &mut RealAtomics<T>| atomics.launch(queue, method, &work);
        Ok(self.new_rung(false, work.operations.into(), atomics, launch, |_| Ok(None)))
    }

    fn prepare_scope(&self, scope: AtomicScope) -> Result<PreparedRung<'_>, DeviceError> {
        let (queue, operations) = (self.device.queue(), self.operations);
        let scoped = ScopedAdditions::new(&self.device, operations)?;
        let launch = move |scoped: &mut ScopedAdditions| scoped.launch(queue, scope, operations);
        Ok(self.new_rung(false, operations.into(), scoped, launch, |_| Ok(None)))
    }

    /// The note is the cost of an addition of a warp.
    fn prepare_shared(
        &self,
        addition: SharedAddition,
        pattern: SharedPattern,
    ) -> Result<PreparedRung<'_>, DeviceError> {
        let queue = self.device.queue();
        let additions = SharedAdditions::new(&self.device, pattern)?;
        let (rounds, kernel) = (shared_rounds(self.n, &additions), additions.resources());
        let items = additions.thread_count() as f64 * f64::from(rounds);
        let launch = move |additions: &mut SharedAdditions| additions.launch(queue, addition, rounds);
        let note = move |additions: &SharedAdditions| {
            let cycles = additions.cycles_per_addition(rounds)?;
            Ok(cycles.map(|cycles| format!("{} cycles per addition of a warp", format_number(cycles))))
        };
        Ok(self.new_rung(true, items, additions, launch, note).with_kernel(kernel))
    }
}

/// Returns the additions per thread of shared memory, so that all threads do about `n`.
fn shared_rounds(n: usize, additions: &SharedAdditions) -> i32 {
    (n / additions.thread_count()).clamp(8, 4096) as i32
}

impl LadderRung for AtomicRung {
    type Input = AtomicInput;

    fn all(_: &Device) -> Vec<Self> {
        let racing = Self::Word(AtomicWidth::Bits32, Returns::Unused, AtomicOperation::RacingAdd);
        let methods = [RealAddition::Hardware, RealAddition::CompareAndSwap];
        let reals =
            AtomicWidth::ALL.into_iter().flat_map(|width| methods.map(|method| Self::Real(width, method)));
        let (banks, number) = (SharedPattern::Numbers(32), SharedPattern::Numbers(1));
        let shared = [
            Self::Shared("shared, u32 racing add", SharedAddition::RacingU32, banks),
            Self::Shared("shared, u32 add, 32 banks", SharedAddition::U32, banks),
            Self::Shared("shared, u32 add, one bank", SharedAddition::U32, SharedPattern::OneBank),
            Self::Shared("shared, u32 add, one number", SharedAddition::U32, number),
            Self::Shared("shared, f32 add, 32 banks", SharedAddition::F32, banks),
            Self::Shared("shared, f32 add, one number", SharedAddition::F32, number),
            Self::Shared("shared, u64 add, 32 numbers", SharedAddition::U64, banks),
            Self::Shared("shared, u64 add, one number", SharedAddition::U64, number),
        ];
        let words = AtomicWidth::ALL.into_iter().flat_map(Self::words);
        let scopes = AtomicScope::ALL.map(Self::Scope);
        [racing].into_iter().chain(words).chain(reals).chain(scopes).chain(shared).collect()
    }

    fn new_input(device: &Device, n: usize) -> Result<AtomicInput, MeasureError> {
        let operations = n.min(i32::MAX as usize) as u32;
        Ok(AtomicInput { device: device.clone(), n, operations, race_rates: Default::default() })
    }

    fn label(&self) -> RungLabel<'_> {
        match self {
            Self::Word(width, returns, operation) => {
                let result = if *returns == Returns::Unused { "" } else { ", result" };
                RungLabel::new(format!("u{} {}{result}", width.bits(), operation.name()), "")
            }
            Self::Real(width, method) => {
                let method = match method {
                    RealAddition::Hardware => "add",
                    RealAddition::CompareAndSwap => "add by compare-and-swap",
                };
                RungLabel::new(format!("f{} {method}", width.bits()), "")
            }
            Self::Scope(scope) => RungLabel::new(format!("u32 add, scope {}", scope.name()), ""),
            Self::Shared(name, ..) => RungLabel::new(*name, ""),
        }
    }

    fn prepare<'a>(&'a self, input: &'a AtomicInput, _: usize, _: usize) -> PrepareResult<'a> {
        Ok(Some(match *self {
            Self::Word(AtomicWidth::Bits32, returns, operation) => {
                input.prepare_words::<u32>(returns, operation)?
            }
            Self::Word(AtomicWidth::Bits64, returns, operation) => {
                input.prepare_words::<u64>(returns, operation)?
            }
            Self::Real(AtomicWidth::Bits32, method) => input.prepare_reals::<f32>(method)?,
            Self::Real(AtomicWidth::Bits64, method) => input.prepare_reals::<f64>(method)?,
            Self::Scope(scope) => input.prepare_scope(scope)?,
            Self::Shared(_, addition, pattern) => input.prepare_shared(addition, pattern)?,
        }))
    }
}
