//! Result of moving particles, which all ranks must agree on.

use crate::host::MotionFailure;

/// Result of a motion on one rank, or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MotionReport {
    /// True if a particle has moved by more than half the skin since lists were built.
    pub must_rebuild: bool,
    /// True if a particle is outside the middle half of an open box.
    pub must_widen: bool,
    /// First particle in the user's order that would move too far.
    pub failure: Option<MotionFailure>,
}

/// A report as a message: flags, user's index of the failure or [`NO_FAILURE`], its identifier,
/// axis and velocity as bits.
pub(super) type ReportWords = [u64; 5];

/// No particle moves too far. The number is larger than all indices.
const NO_FAILURE: u64 = u64::MAX;

impl MotionReport {
    /// Returns the report as a message.
    pub(super) fn to_words(self) -> ReportWords {
        let flags = u64::from(self.must_rebuild) | u64::from(self.must_widen) << 1;
        match self.failure {
            None => [flags, NO_FAILURE, 0, 0, 0],
            Some(MotionFailure { user, id, axis, velocity }) => {
                [flags, user.into(), id, axis as u64, velocity.to_bits()]
            }
        }
    }

    /// Returns the report of a message.
    pub(super) fn from_words([flags, user, id, axis, velocity]: ReportWords) -> Self {
        let failure = (user != NO_FAILURE).then(|| MotionFailure {
            user: user as u32,
            id,
            axis: axis as usize,
            velocity: f64::from_bits(velocity),
        });
        Self { must_rebuild: flags & 1 > 0, must_widen: flags & 2 > 0, failure }
    }

    /// Returns the report of two ranks: the flags of both, and the first failure in the user's
    /// order.
    pub(super) fn combined(a: ReportWords, b: ReportWords) -> ReportWords {
        let first = if b[1] < a[1] { b } else { a };
        let [_, user, id, axis, velocity] = first;
        [a[0] | b[0], user, id, axis, velocity]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_name_the_first_failure() {
        let failure =
            |user: u32| MotionFailure { user, id: 70 + u64::from(user), axis: 2, velocity: f64::NAN };
        let report = |must_rebuild: bool, user: Option<u32>| MotionReport {
            must_rebuild,
            must_widen: !must_rebuild,
            failure: user.map(failure),
        };
        let reports =
            [report(false, None), report(true, Some(9)), report(false, Some(4)), report(true, None)];
        let words = reports.map(MotionReport::to_words).into_iter().reduce(MotionReport::combined);
        let all = MotionReport::from_words(words.unwrap());
        assert!(all.must_rebuild && all.must_widen);
        let MotionFailure { user, id, axis, velocity } = all.failure.unwrap();
        assert!((user, id, axis) == (4, 74, 2) && velocity.is_nan());
        let words = reports[0].to_words();
        assert_eq!(MotionReport::from_words(MotionReport::combined(words, words)), reports[0]);
    }
}
