//! The heat equation  c ∂u/∂t = ∇·(k ∇u) + s  on a rectangle, with the explicit five-point scheme.
//!
//! u is a temperature, k a conductivity, c a heat capacity per area (1 unless given) and s a heat
//! per time and area. Nodes, indices and edges are those of [`orrery_model::grid`]. W, E, S and N
//! are the neighbours of a node. One step of length dt with uniform conductivity and heat
//! capacity, r_x = dt k/(c hx²), r_y = dt k/(c hy²):
//!
//!   lap_x = fma(−2, u, u_W + u_E),  lap_y = fma(−2, u, u_S + u_N)
//!   u' = fma(r_x, lap_x, fma(r_y, lap_y, u))
//!
//! With a conductivity per node, stored as ρ = 1/k, the conductivity of the face between nodes a
//! and b is the harmonic mean k_ab = 2/(ρ_a + ρ_b). It is exact for layered media. c_x = dt/(c
//! hx²), c_y = dt/(c hy²):
//!
//!   f_x = fma(k_E, u_E − u, k_W (u_W − u)),  f_y = fma(k_N, u_N − u, k_S (u_S − u))
//!   u' = fma(c_x, f_x, fma(c_y, f_y, u))
//!
//! With a source, u' = fma(dt/c, s, u') follows.
//!
//! With a heat capacity per node, c in the coefficients is the smallest one, and w = c_min/c is
//! stored. There is always a conductivity per node then:
//!
//!   g = fma(c_x, f_x, c_y f_y),  with a source g = fma(dt/c_min, s, g),  u' = fma(w, g, u)
//!
//! A node is a cell of its material, so two materials meet midway between nodes.
//!
//! State, ρ, w, s and coefficients are rounded to the precision of the problem, and every operation
//! is rounded once in that precision. fma is a fused multiply-add. All implementations compute
//! exactly this form, so they give the same bits. A constant field stays exactly constant.
//!
//! The equation is linear, so the state may be the difference from any base temperature. In single
//! precision [`HeatField`] stores differences from a base that it chooses at the start, because a
//! small change of 300 would be lost to rounding.
//!
//! Edges:
//! - Fixed: the node keeps its value.
//! - Flux q: the missing neighbour is the mirror image, u_W = u_E + g with g = 2 hx q/k, where k is
//!   the conductivity of the face on the other side of the node. That face also gives k_W = k_E.
//!   This is the balance of the half cell that belongs to an edge node.
//! - Periodic: the missing neighbour is the last node of the row or column.
//!
//! Stability and maximum principle: dt (k_E + k_W)/hx² + dt (k_N + k_S)/hy² <= c at every node.
//!
//! [`mod@reference`] contains plain loops, [`cpu`] the fast version
//! and [`mod@device`] the one for devices. [`HeatField`] is the state with all operations of a run.
//! Several ranks compute a field together if their leader creates it with
//! [`HeatField::new_in_team`] and the others call [`follow`].

mod base;
mod capacity;
pub mod cpu;
pub mod device;
mod edge_flux;
mod error;
mod field;
mod host;
mod kernels;
mod measures;
mod plate;
mod problem;
pub mod reference;
mod single_step;
mod team;
mod tile;

pub use capacity::{HEAT_CAPACITIES, HeatCapacity};
pub use edge_flux::EdgeStrips;
pub use error::HeatError;
pub use field::{HeatDeviceSetup, HeatField, HeatView};
pub use host::HostHeat;
pub use measures::FieldMeasures;
pub use plate::{Plate, PlateFields, StepCoefficients};
pub use problem::{CONDUCTIVITIES, Conductivity, HeatProblem};
pub use team::follow;
pub(crate) use tile::PlatePass;
pub use tile::Rows;
