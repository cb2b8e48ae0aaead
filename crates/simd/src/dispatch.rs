//! Instruction sets, and kernels that are compiled for each of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::x86;
use crate::{SingleVector, Vector, portable};

/// A computation that is compiled for every instruction set.
pub trait SimdKernel {
    /// Result of the computation.
    type Output;
    /// Runs the computation with registers `S` (f32) and `D` (f64). Implementations must be
    /// `#[inline(always)]`, or they are compiled without the instruction set.
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> Self::Output;
}

/// A SIMD instruction set. Wider sets compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionSet {
    /// Plain loops, compiled for the baseline of the target.
    Portable,
    /// AVX2 with FMA: eight f32, four f64.
    Avx2,
    /// AVX-512 F and DQ: sixteen f32, eight f64.
    Avx512,
}

/// Widest instruction set that this process may use, as its discriminant.
static LIMIT: AtomicU8 = AtomicU8::new(u8::MAX);

impl InstructionSet {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }

    /// Returns the widest instruction set of this machine, within the limit of this process.
    pub fn best() -> Self {
        let limit = match LIMIT.load(Ordering::Relaxed) {
            0 => Self::Portable,
            1 => Self::Avx2,
            _ => Self::Avx512,
        };
        Self::detected().min(limit)
    }

    /// Limits this process to `set` and narrower instruction sets. The golden tests use it to run
    /// on every instruction set.
    pub fn limit_to(set: Self) {
        LIMIT.store(set as u8, Ordering::Relaxed);
    }

    /// Returns the widest instruction set of this machine.
    fn detected() -> Self {
        static DETECTED: OnceLock<InstructionSet> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
                    return if wide { Self::Avx512 } else { Self::Avx2 };
                }
            }
            Self::Portable
        })
    }

    /// Returns all instruction sets of this machine, narrowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(|&set| set <= Self::best())
    }
}

/// Runs `kernel` with the instruction set `set`, or with the widest one of this machine if that is
/// narrower.
#[inline]
pub fn dispatch<K: SimdKernel>(set: InstructionSet, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match set.min(InstructionSet::best()) {
        // SAFETY: `best` found AVX-512 F and DQ on this machine.
        InstructionSet::Avx512 => return unsafe { x86::run_with_avx512(kernel) },
        // SAFETY: `best` found AVX2 and FMA on this machine.
        InstructionSet::Avx2 => return unsafe { x86::run_with_avx2(kernel) },
        InstructionSet::Portable => {}
    }
    run_portable(kernel)
}

/// Runs a kernel with plain loops. Like the functions of the other instruction sets it is not
/// inlined: every caller of [`dispatch`] would compile these loops again.
#[inline(never)]
fn run_portable<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run::<portable::F32s, portable::F64s>()
}
