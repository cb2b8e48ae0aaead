//! Division of slices among ranks, and the time of the exchange of their borders.

use orrery_cluster::{MessagePath, Team, threads};
use orrery_device::testing::test_devices;
use orrery_fields::{EndSlices, divided_slices, time_border_exchange};

const NO_ENDS: [EndSlices; 2] = [EndSlices { extra_cost: 0, min_slices: 0 }; 2];

fn lengths(slices: usize, ranks: usize, min_slices: usize, ends: [EndSlices; 2]) -> Vec<usize> {
    let slabs = divided_slices(slices, ranks, min_slices, ends).unwrap();
    assert_eq!((slabs.len(), slabs[0].start, slabs[ranks - 1].end), (ranks, 0, slices));
    assert!(slabs.windows(2).all(|pair| pair[0].end == pair[1].start));
    slabs.iter().map(|slab| slab.len()).collect()
}

#[test]
fn slabs_have_almost_equal_cost() {
    assert_eq!(lengths(1024, 4, 9, NO_ENDS), [256; 4]);
    assert_eq!(lengths(50, 1, 9, NO_ENDS), [50]);
    let uneven = lengths(100, 7, 9, NO_ENDS);
    assert!(uneven.iter().all(|&length| length == 14 || length == 15), "{uneven:?}");
    // 20 layers with three times the cost at each end: 160 + 2 x 40 in shares of 60.
    let ends = [EndSlices { extra_cost: 40, min_slices: 14 }; 2];
    assert_eq!(lengths(160, 4, 9, ends), [20, 60, 60, 20]);
    assert_eq!(lengths(161, 2, 9, [ends[0], EndSlices::default()]), [60, 101]);
}

#[test]
fn slabs_have_the_fewest_slices_at_least() {
    let low = [EndSlices { extra_cost: 0, min_slices: 38 }, EndSlices::default()];
    let high = [low[1], low[0]];
    assert_eq!(lengths(60, 3, 9, low), [38, 11, 11]);
    assert_eq!(lengths(60, 3, 9, high), [11, 11, 38]);
    assert_eq!(lengths(56, 3, 9, low), [38, 9, 9]);
    assert_eq!(lengths(50, 2, 9, high), [12, 38]);
    assert_eq!(divided_slices(55, 3, 9, low), Err(56));
    assert_eq!(lengths(6, 6, 1, NO_ENDS), [1; 6]);
    assert_eq!(divided_slices(5, 6, 1, NO_ENDS), Err(6));
}

#[test]
fn every_division_is_complete() {
    for slices in 9..90 {
        for ranks in 1..8 {
            for (extra_cost, fewest) in [(0, 0), (10, 5), (30, 18)] {
                let end = EndSlices { extra_cost, min_slices: fewest };
                for ends in [[end, end], [end, EndSlices::default()], [EndSlices::default(), end]] {
                    match divided_slices(slices, ranks, 4, ends) {
                        Ok(_) => {
                            let lengths = lengths(slices, ranks, 4, ends);
                            assert!(ranks == 1 || lengths.iter().all(|&length| length >= 4));
                            assert!(ranks == 1 || lengths[0] >= ends[0].min_slices);
                            assert!(ranks == 1 || lengths[ranks - 1] >= ends[1].min_slices);
                        }
                        Err(needed) => assert!(slices < needed),
                    }
                }
            }
        }
    }
}

#[test]
fn all_ranks_get_the_time_of_the_slowest() {
    let device = &test_devices()[0];
    for (device, path) in [(None, MessagePath::Messages), (Some(device), MessagePath::Direct)] {
        let times = threads::run(3, |transport| time_border_exchange(&Team::new(transport), device, 1000, 4));
        let times = times.unwrap();
        assert!(times[0].secs > 0.0 && times.iter().all(|time| *time == times[0]), "{times:?}");
        assert_eq!(times[0].paths, [path]);
    }
}
