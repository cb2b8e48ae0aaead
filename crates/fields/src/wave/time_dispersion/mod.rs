//! Removal of the error in time from wavelets and traces (Stork 2013, EAGE 75th Conference, Tu 16
//! 06; Koene, Robertsson, Broggini, Andersson 2018, Geophysical Journal International 213, 169).
//!
//! A step of length dt replaces the frequency ω of the equation by ω' = (2/dt) sin(ω dt/2), exactly
//! and for any medium. With θ = ω dt, a free oscillation cos(m ω' dt) of the equation is cos(n θ)
//! in the samples of a run. The Jacobi-Anger expansion
//!
//!   cos(2 m sin(θ/2)) = J_0(2 m) + 2 Σ_(n≥1) J_2n(2 m) cos(n θ)
//!
//! therefore gives the corrected trace c from the samples u of a trace that starts at rest:
//!
//!   c_m = J_0(2 m) u_0 + 2 Σ_(n≥1) J_2n(2 m) u_n.
//!
//! The amplitudes of a wavelet f are corrected with the inverse map, from the expansion of
//! cos(θ/2) sin(2 m sin(θ/2)):
//!
//!   g_n = Σ_(m≥1) (2 n/m) J_2n(2 m) f(m dt),   g_0 = f(0)/2.
//!
//! f(0)/2 makes the sum over all n the trapezoidal rule for a wavelet that starts with a jump. A
//! run with the amplitudes g has traces u whose c is the solution for f without an error in time.
//! Its fields have the right amplitude of each wave number, and the phase of its raw frequency.
//!
//! J_2n(2 m) is negligible for n > m + 5 (2 m)^(1/3), so nothing wraps around. c_m needs samples
//! slightly later than m. Those after the end of a trace are predicted, see `prediction`, so the
//! last 2.5 N^(1/3) of N samples may be wrong by some percent of the trace.

pub mod bessel;
pub mod prediction;
mod signal;
mod traces;

pub use signal::SourceSignal;
pub use traces::corrected_traces;

/// Treatment of the error in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeDispersion {
    /// Wavelets are corrected before a run, and traces can be corrected after it.
    Corrected,
    /// Wavelets and traces are those of the scheme.
    Raw,
}
