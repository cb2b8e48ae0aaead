//! Weights of finite differences.

use orrery_model::wave::WaveGrid;

use super::WaveError;
use crate::Scalar;

/// Largest number of nodes that a stencil reaches to either side.
pub const MAX_RADIUS: usize = 4;

/// Order of the error of the spatial derivatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpaceOrder {
    /// Error of order h².
    Second,
    /// Error of order h⁴.
    Fourth,
    /// Error of order h⁶.
    Sixth,
    /// Error of order h⁸.
    Eighth,
}

impl SpaceOrder {
    /// All orders, lowest first.
    pub const ALL: [Self; 4] = [Self::Second, Self::Fourth, Self::Sixth, Self::Eighth];

    /// Returns the order with this number: 2, 4, 6 or 8.
    pub fn from_number(number: u32) -> Result<Self, WaveError> {
        Self::ALL.into_iter().find(|order| order.number() == number).ok_or(WaveError::Order(number))
    }

    /// Returns 2, 4, 6 or 8.
    pub const fn number(self) -> u32 {
        2 * self.radius() as u32
    }

    /// Returns the number of nodes that the stencil reaches to either side: 1 to 4.
    pub const fn radius(self) -> usize {
        match self {
            Self::Second => 1,
            Self::Fourth => 2,
            Self::Sixth => 3,
            Self::Eighth => 4,
        }
    }

    /// Returns the weights w_0 … w_4 of the second derivative, h² u'' = w_0 u_0 + Σ w_r (u_r +
    /// u_−r).
    pub const fn second_derivative(self) -> [f64; MAX_RADIUS + 1] {
        match self {
            Self::Second => [-2.0, 1.0, 0.0, 0.0, 0.0],
            Self::Fourth => [-5.0 / 2.0, 4.0 / 3.0, -1.0 / 12.0, 0.0, 0.0],
            Self::Sixth => [-49.0 / 18.0, 3.0 / 2.0, -3.0 / 20.0, 1.0 / 90.0, 0.0],
            Self::Eighth => [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0],
        }
    }

    /// Returns the weights d_1 … d_4 of the first derivative, h u' = Σ d_r (u_r − u_−r).
    pub const fn first_derivative(self) -> [f64; MAX_RADIUS] {
        match self {
            Self::Second => [1.0 / 2.0, 0.0, 0.0, 0.0],
            Self::Fourth => [2.0 / 3.0, -1.0 / 12.0, 0.0, 0.0],
            Self::Sixth => [3.0 / 4.0, -3.0 / 20.0, 1.0 / 60.0, 0.0],
            Self::Eighth => [4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0],
        }
    }

    /// Returns the largest stable c dt √(Σ 1/h_a²), which is 2/√S with S = |w_0| + 2 Σ |w_r|.
    ///
    /// The scheme is stable if v times the largest eigenvalue of −h0² ∇² is at most 4. The largest
    /// eigenvalue belongs to the wave that changes its sign from node to node, where each axis
    /// contributes S (h0/h_a)². For example, the limit of c dt/h is 0.45286 in three dimensions
    /// with order 8.
    pub fn courant_limit(self) -> f64 {
        let weights = self.second_derivative();
        let sum = weights[0].abs() + 2.0 * weights[1..].iter().map(|w| w.abs()).sum::<f64>();
        2.0 / sum.sqrt()
    }
}

/// Weights of the Laplace operator times h0², where h0 is the smallest spacing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stencil<R> {
    /// Nodes that the stencil reaches to either side.
    pub radius: usize,
    /// W = w_0 Σ (h0/h_a)², the weight of the node.
    pub centre: R,
    /// w_r (h0/h_a)² of axis a for r = 1 … 4. Zero beyond the radius, and for z in two dimensions.
    pub neighbours: [[R; MAX_RADIUS]; 3],
}

impl<R: Scalar> Stencil<R> {
    /// Computes the weights in f64 and rounds them.
    pub fn new(grid: &WaveGrid, order: SpaceOrder) -> Self {
        let weights = order.second_derivative();
        let scales: Vec<f64> = axis_scales(grid).iter().map(|scale| scale * scale).collect();
        let scale = |axis: usize| scales.get(axis).copied().unwrap_or(0.0);
        Self {
            radius: order.radius(),
            centre: R::from_f64(weights[0] * scales.iter().sum::<f64>()),
            neighbours: std::array::from_fn(|axis| {
                std::array::from_fn(|r| R::from_f64(weights[r + 1] * scale(axis)))
            }),
        }
    }
}

/// Returns h0/h_a for the axes of the grid.
pub(super) fn axis_scales(grid: &WaveGrid) -> Vec<f64> {
    let smallest = grid.min_spacing();
    grid.used_spacings().iter().map(|spacing| smallest / spacing).collect()
}
