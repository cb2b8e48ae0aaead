//! Acoustic waves  u_tt = c² (∇²u + f)  in two and three dimensions, with finite differences.
//!
//! u is a pressure and c a velocity. The sources are points, f = Σ f_s(t) δ(x − x_s), so u = f(t −
//! r/c)/(4π r) around a source in a uniform medium in three dimensions. Nodes, indices and sides
//! are those of [`orrery_model::wave`]. The scheme is of second order in time, and of order 2, 4, 6
//! or 8 in space (Alford, Kelly, Boore 1974, Geophysics 39, 834; Dablain 1986, Geophysics 51, 54).
//! h0 is the smallest spacing and v = (c dt/h0)².
//!
//! A step replaces u^(n−1) by u^(n+1), in this order:
//!
//! 1. All nodes, with the weights of [`Stencil`], r = 1 … radius and the axes in the order z, y, x:
//!
//!    acc = W u,  acc = fma(w_r, u_−r + u_r, acc),  u' = z(fma(v, acc, fma(2, u, −u^(n−1))))
//!
//! 2. The absorbing layers, in the order of [`Side::ALL`](orrery_model::wave::Side::ALL). n counts
//!    nodes from the outside inwards, L is the thickness, D the first derivative and D2 the second
//!    one along the normal, both times a power of h0. D is one product, for r = 1, and fma for the
//!    others:
//!
//!    ψ = z(fma(b, ψ, a Du))  for n < L,
//!    ζ = z(fma(b, ζ, a (D2u + Dψ)))  for n < L,
//!    u' = fma(v, Dψ + ζ, u')  for n < L + radius, where ψ = ζ = 0 for n >= L.
//!
//!    This is a convolutional PML for the wave equation (Pasalic, McGarry 2010, SEG Technical
//!    Program, 2925). ψ is at the nodes: on half nodes the layer is unstable after thousands of
//!    steps.
//!
//! 3. The sources at the time n dt: u' = fma(v, Σ weight f_s, u'), see `points`.
//! 4. The values at the receivers at the time (n + 1) dt.
//!
//! z(x) is 0 for |x| < 2⁻¹¹¹ in f32, 2⁻¹⁰⁰⁷ in f64, and x otherwise. Ahead of a wave the field
//! decreases to subnormal numbers within a few nodes, and in a layer behind it with time. CPUs need
//! more than 100 cycles for an operation on them: 256³ nodes on two AVX-512 cores took 31 ms per
//! step without z, and take 21 ms with it (`wave-3d`, 148 steps).
//!
//! Beyond a free surface u is the negative image of the nodes inside, and the node on the surface
//! is zero. Beyond a rigid side it is the image itself. Behind an absorbing layer u is zero. State
//! and coefficients are rounded to the precision of the problem, and every operation is rounded
//! once in that precision. fma is a fused multiply-add. All implementations compute exactly this
//! form, so they give the same bits.
//!
//! Stability: c dt √(Σ 1/h_a²) <= 2/√S at the largest velocity, see [`SpaceOrder::courant_limit`].
//! Without absorption and sources, the energy of `energy` is constant.
//!
//! The error in time can be removed from wavelets and traces, see [`TimeDispersion`]. Then f_s are
//! the corrected amplitudes, and all else is unchanged.
//!
//! [`mod@reference`] contains plain loops, [`cpu`] the fast version and [`device`] the one for
//! GPUs. [`WaveField`] is the state with all operations of a run. Several ranks compute a field
//! together if their leader creates it with [`WaveField::new_in_team`] and the others call
//! [`follow`].

mod accuracy;
mod bands;
mod column_pass;
mod columns;
pub mod cpu;
pub mod device;
mod division;
mod energy;
mod error;
mod field;
mod host;
mod images;
mod kernels;
mod layer;
mod layer_kernels;
mod layer_pass;
pub mod layout;
mod medium;
mod points;
mod problem;
pub mod reference;
mod slab;
mod spectrum;
mod state;
mod stencil;
mod team;
pub mod time_dispersion;

pub use accuracy::WaveAccuracy;
pub use energy::WaveMeasures;
pub(crate) use energy::sum_rows;
pub use error::WaveError;
pub use field::{GridPlane, WaveDeviceSetup, WaveField, WaveView};
pub use host::{HostWave, StoredWave};
pub use layer::{LayerCoefficients, LayerMemory};
pub use medium::{Medium, SquaredCourant};
pub use points::{ReceiverTable, SourceTable};
pub use problem::{Velocity, WaveProblem, WaveSource};
pub(crate) use slab::HostWaveSlab;
pub use state::WaveState;
pub use stencil::{MAX_RADIUS, SpaceOrder, Stencil};
pub use team::follow;
pub use time_dispersion::{SourceSignal, TimeDispersion, corrected_traces};
