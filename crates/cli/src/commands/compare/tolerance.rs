//! Columns of values that are compared with a tolerance.

use orrery_model::analysis::max_or_nan;

use super::report::ColumnDifference;

/// Largest accepted difference of two values a and b: `absolute + relative max(|a|, |b|)`. 0
/// accepts equal values only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

impl Tolerance {
    /// Parses `ABS,REL`, for example `1e-6,1e-9`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[absolute, relative])
                if [absolute, relative].iter().all(|x| x.is_finite() && *x >= 0.0) =>
            {
                Ok(Self { absolute, relative })
            }
            _ => Err("expected ABS,REL, two finite numbers >= 0, for example 1e-6,1e-9".to_owned()),
        }
    }

    /// Returns true if a difference of values of this size is accepted. A NaN is not.
    pub fn accepts(&self, difference: f64, size: f64) -> bool {
        difference <= self.absolute + self.relative * size
    }

    /// Returns true if two values are accepted as equal.
    pub fn accepts_values(&self, a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || self.accepts((a - b).abs(), a.abs().max(b.abs()))
    }
}

/// Difference by which the row with the largest difference of a column is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rank {
    /// Relative difference.
    Relative,
    /// Absolute difference, for coordinates, whose sizes have no meaning.
    Absolute,
}

/// Differences of a column so far.
pub struct ColumnTally {
    rank: Rank,
    tolerance: Tolerance,
    count: usize,
    outside: usize,
    relative: f64,
    absolute: f64,
    worst: Option<(String, f64, f64)>,
}

impl ColumnTally {
    pub fn new(tolerance: Tolerance, rank: Rank) -> Self {
        Self { rank, tolerance, count: 0, outside: 0, relative: 0.0, absolute: 0.0, worst: None }
    }

    /// Adds two values with this absolute difference, whose bits may be equal. Returns false if
    /// they differ by more than the tolerance. `label` names the row.
    pub fn add(&mut self, (a, b): (f64, f64), difference: f64, label: impl FnOnce() -> String) -> bool {
        if a.to_bits() == b.to_bits() {
            return true;
        }
        self.count += 1;
        let size = a.abs().max(b.abs());
        // 0 and -0 have different bits and no difference.
        let ratio = if difference == 0.0 { 0.0 } else { difference / size };
        let (found, largest) = match self.rank {
            Rank::Relative => (ratio, self.relative),
            Rank::Absolute => (difference, self.absolute),
        };
        if self.worst.is_none() || (found.is_nan() && !largest.is_nan()) || found > largest {
            self.worst = Some((label(), a, b));
        }
        self.absolute = max_or_nan(self.absolute, difference);
        self.relative = max_or_nan(self.relative, ratio);
        // Without a tolerance, all bits must be equal.
        let is_accepted = self.tolerance != Tolerance::default() && self.tolerance.accepts(difference, size);
        self.outside += usize::from(!is_accepted);
        is_accepted
    }

    /// Returns the differences. `None` if all bits are equal.
    pub fn finish(self, name: &str) -> Option<ColumnDifference> {
        let Self { count, outside, relative, absolute, worst, .. } = self;
        worst.map(|worst| {
            let name = name.to_owned();
            ColumnDifference { name, count, outside, relative, absolute, worst, field: None }
        })
    }
}

/// Compares a column of `pairs` of values. Returns `None` if all bits are equal. `label` names a
/// row.
pub fn compare_column(
    name: &str,
    tolerance: Tolerance,
    pairs: impl Iterator<Item = (f64, f64)>,
    label: impl Fn(usize) -> String,
) -> Option<ColumnDifference> {
    let mut tally = ColumnTally::new(tolerance, Rank::Relative);
    for (row, (a, b)) in pairs.enumerate() {
        tally.add((a, b), (a - b).abs(), || label(row));
    }
    tally.finish(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_has_two_numbers() {
        let expected = Tolerance { absolute: 1e-6, relative: 0.0 };
        assert_eq!(Tolerance::parse("1e-6, 0"), Ok(expected));
        for text in ["", "1", "1,2,3", "-1,0", "nan,0", "1,inf", "a,b"] {
            assert!(Tolerance::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_column_counts_what_the_tolerance_does_not_accept() {
        let pairs = [(1.0, 1.0), (0.0, -0.0), (1.0, 1.001), (100.0, 100.2), (1.0, f64::NAN)];
        let found = |absolute: f64, relative: f64| {
            let tolerance = Tolerance { absolute, relative };
            let column = compare_column("x", tolerance, pairs.into_iter(), |row| row.to_string()).unwrap();
            (column.count, column.outside)
        };
        assert_eq!(found(0.0, 0.0), (4, 4));
        assert_eq!(found(0.0, 1e-3), (4, 2));
        assert_eq!(found(0.01, 0.0), (4, 2));
        assert_eq!(found(1.0, 1.0), (4, 1));
        assert!(
            compare_column("x", Tolerance::default(), [(2.0, 2.0)].into_iter(), |_| String::new()).is_none()
        );
    }

    #[test]
    fn coordinates_are_ranked_by_their_absolute_difference() {
        let mut tally = ColumnTally::new(Tolerance::default(), Rank::Absolute);
        for (row, pair) in [(1e-12, 2e-12), (5.0, 5.5)].into_iter().enumerate() {
            tally.add(pair, (pair.0 - pair.1).abs(), || row.to_string());
        }
        let column = tally.finish("x").unwrap();
        assert_eq!((column.worst.0.as_str(), column.absolute, column.relative), ("1", 0.5, 0.5));
    }
}
