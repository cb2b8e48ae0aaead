//! Compensated summation.
//!
//! s ← s + x. The rounding error of each addition is collected in c, which is added once at the end
//! (Neumaier, ZAMM 54, 39, 1974). The error is one rounding of the result plus O(n u²) Σ|x|, for
//! terms of any magnitude.

/// A running compensated sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompensatedSum {
    sum: f64,
    correction: f64,
}

impl CompensatedSum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.correction +=
            if self.sum.abs() >= term.abs() { (self.sum - sum) + term } else { (term - sum) + self.sum };
        self.sum = sum;
    }

    /// Adds the terms of another sum. With the same terms in the same blocks, the result has the
    /// same bits, whichever thread sums a block.
    pub fn merge(&mut self, other: &Self) {
        self.add(other.sum);
        self.correction += other.correction;
    }

    /// Sum so far.
    pub fn value(&self) -> f64 {
        self.sum + self.correction
    }
}

impl FromIterator<f64> for CompensatedSum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}

/// Returns the sum of `terms`.
pub fn compensated_sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    terms.into_iter().collect::<CompensatedSum>().value()
}

/// Returns the sum of `terms`, component by component.
pub fn compensated_vector_sum(terms: impl IntoIterator<Item = [f64; 3]>) -> [f64; 3] {
    let mut sums = [CompensatedSum::default(); 3];
    for term in terms {
        sums.iter_mut().zip(term).for_each(|(sum, component)| sum.add(component));
    }
    sums.map(|sum| sum.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_survive_next_to_large_ones() {
        let terms = [1.0, 1e100, 1.0, -1e100];
        assert_eq!(terms.iter().sum::<f64>(), 0.0);
        assert_eq!(compensated_sum(terms), 2.0);
        assert_eq!(compensated_vector_sum(terms.map(|t| [t, 0.0, -t])), [2.0, 0.0, -2.0]);
    }

    #[test]
    fn merged_sums_keep_small_terms() {
        let sum_of = |terms: [f64; 2]| terms.into_iter().collect::<CompensatedSum>();
        let mut sum = sum_of([1.0, 1e100]);
        sum.merge(&sum_of([1.0, -1e100]));
        assert_eq!(sum.value(), 2.0);
        let mut sum = CompensatedSum::default();
        for _ in 0..1000 {
            sum.merge(&std::iter::repeat_n(0.1, 1000).collect());
        }
        assert_eq!(sum.value(), 100_000.0);
    }

    #[test]
    fn sum_of_a_million_tenths_is_exact() {
        // Plain addition has an error of about 1e-6 here.
        assert_eq!(compensated_sum(std::iter::repeat_n(0.1, 1_000_000)), 100_000.0);
    }
}
