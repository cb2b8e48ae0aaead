//! Running sums against the plain ones: every check of the self-test, and numbers that no one thought of.

mod common;

use orrery_primitives::Number;
use orrery_primitives::scan::selftest::SHORT;
use orrery_primitives::scan::{self, Scan, ScanKind, ScanStrategy as How};
use proptest::prelude::*;

use common::{devices, hold};

#[test]
fn checks_of_the_self_test() {
    hold(&scan::selftest::checks());
}

fn plain<T: Number>(kind: ScanKind, numbers: &[T]) -> Vec<T> {
    let mut sums = numbers.to_vec();
    scan::scan_reference(kind, &mut sums);
    sums
}

/// On the processor and on every device, by these strategies.
fn each<T: Number>(kind: ScanKind, numbers: &[T], strategies: &[How], expect: impl Fn(&[T], &str)) {
    let mut sums = numbers.to_vec();
    scan::scan_on_cpu(kind, &mut sums);
    expect(&sums, "on the processor");
    for device in devices() {
        for &strategy in strategies {
            let (from, to) = (device.upload(numbers).unwrap(), device.zeros(numbers.len()).unwrap());
            Scan::with_strategy(&device, kind, strategy).unwrap().queue(&from, &to).unwrap();
            expect(&to.to_vec().unwrap(), &format!("{strategy:?} on {}", device.title()));
            assert!(from.to_vec().unwrap() == numbers, "what was scanned is changed");
        }
    }
}

fn same<T: Number>(kind: ScanKind, numbers: &[T], strategies: &[How]) {
    let right = plain(kind, numbers);
    each(kind, numbers, strategies, |got, what| {
        assert!(got == right, "{kind:?} of {} {}, {what}", numbers.len(), T::NAME)
    });
}

fn kind() -> impl Strategy<Value = ScanKind> {
    prop::sample::select(ScanKind::ALL.to_vec())
}

/// Lengths around powers of two, up to some more than 2^17.
fn length() -> impl Strategy<Value = usize> {
    (0u32..18, 0usize..6).prop_map(|(power, beyond)| ((1usize << power) + beyond).saturating_sub(3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Sums of whole numbers wrap, and so are the same in any order.
    #[test]
    fn whole_numbers(kind in kind(), n in length(), seed in any::<u64>()) {
        let bits = |i: usize| (i as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        same(kind, &(0..n).map(|i| bits(i) as u32).collect::<Vec<_>>(), &[How::default()]);
        same(kind, &(0..n).map(|i| bits(i) as i32).collect::<Vec<_>>(), &[How::default()]);
        same(kind, &(0..n).map(bits).collect::<Vec<_>>(), &[How::default(), SHORT]);
    }

    /// Floats of any sign and size, NaN and infinities aside: n additions at most lie behind a sum, and each rounds by
    /// half of EPSILON Σ|x| at most, here and in the plain one.
    #[test]
    fn floats(kind in kind(), numbers in prop::collection::vec(-1e30f32..1e30, 0..5000), power in -60i32..20) {
        let numbers: Vec<f32> =
            numbers.iter().enumerate().map(|(i, x)| if i % 3 == 0 { x * 2f32.powi(power) } else { *x }).collect();
        let right = plain(kind, &numbers);
        each(kind, &numbers, &[How::default(), SHORT], |got, what| {
            let mut sizes = 0.0;
            for (i, number) in numbers.iter().enumerate() {
                sizes += f64::from(number.abs());
                let error = f64::from(got[i] - right[i]).abs();
                let most = (i + 1) as f64 * f64::from(f32::EPSILON) * sizes;
                assert!(error <= most, "{kind:?}, {what}: place {i} is off by {error:e}, expected {most:e} at most");
            }
        });
    }
}

/// Lengths that do not meet are told, not scanned.
#[test]
fn says_what_does_not_fit() {
    for device in devices() {
        let mut scan = Scan::<u32>::new(&device, ScanKind::Exclusive).unwrap();
        let (ten, eleven) = (device.zeros(10).unwrap(), device.zeros(11).unwrap());
        let told = scan.queue(&ten, &eleven).unwrap_err().to_string();
        assert!(told.ends_with("a buffer of 10 elements meets one of 11"), "{told}");
    }
}
