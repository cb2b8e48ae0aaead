//! Several ranks give the bits of one, on the host and on devices.

use orrery_cluster::Team;
use orrery_device::testing::test_devices;
use orrery_fields::heat::{
    Conductivity, FieldMeasures, HeatDeviceSetup, HeatError, HeatField, HeatProblem, HeatView, Plate,
    PlateFields, follow, reference,
};
use orrery_fields::{FieldColumn, run_team};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid, PixelWeights};
use proptest::prelude::*;

use crate::heat_cpu::{ALL_FIELDS, EDGE_PAIRS, UNIFORM, boundaries_of, field_combinations, problem_of};

/// Runs `lead` with the field of the leader of `ranks` ranks, which starts with `column`.
fn with_team<T: Send>(
    ranks: usize,
    problem: &HeatProblem,
    column: &FieldColumn,
    setup: Option<&HeatDeviceSetup>,
    lead: impl Fn(HeatField) -> Result<T, HeatError> + Sync,
) -> Result<T, HeatError> {
    run_team(
        ranks,
        |team| lead(HeatField::restore_in_team(team, problem, column.clone(), setup)?),
        |team| follow(team, problem, setup),
    )
}

/// Everything that a view shows, in bits.
#[derive(Debug, PartialEq)]
struct Observed {
    column: Vec<u64>,
    scalars: Vec<u64>,
    means: Vec<u64>,
}

fn bits(values: impl IntoIterator<Item = f64>) -> Vec<u64> {
    values.into_iter().map(f64::to_bits).collect()
}

fn observe(view: HeatView<'_>, problem: &HeatProblem) -> Result<Observed, HeatError> {
    let FieldMeasures { min, max, heat_content } = view.measures()?;
    let mut means = Vec::new();
    for pixels in [(1, 1), (4, 3), (9, 50)] {
        let weights = PixelWeights::new(problem.grid(), problem.boundaries(), pixels);
        let found = view.pixel_means(&weights)?;
        means.extend(found.means);
        means.extend([found.min, found.max]);
    }
    view.check_finite()?;
    Ok(Observed {
        column: bits(view.values()?),
        scalars: bits([min, max, heat_content].into_iter().chain(view.edge_fluxes()?)),
        means: bits(means),
    })
}

/// Observes a field after some steps, a look ahead, and one more step.
fn observed_run(mut field: HeatField, problem: &HeatProblem) -> Result<Vec<Observed>, HeatError> {
    let dt = problem.max_stable_step();
    let mut observed = Vec::new();
    field.advance(dt, 21)?;
    observed.push(observe(field.now(), problem)?);
    field.ahead(0.3 * dt)?;
    observed.push(observe(field.last_ahead(), problem)?);
    observed.push(observe(field.now(), problem)?);
    field.advance(0.7 * dt, 1)?;
    field.wait()?;
    observed.push(observe(field.now(), problem)?);
    Ok(observed)
}

#[test]
fn ranks_do_not_change_bits() {
    // The smallest slabs of 4 ranks have 10 rows, and 7 ranks 5 or 6, so passes have up to 5 steps.
    let grid = Grid { nx: 37, ny: 41, hx: 0.1, hy: 0.13 };
    for kind in 0..EDGE_PAIRS {
        let boundaries = boundaries_of(&grid, (kind + 2) % EDGE_PAIRS, kind);
        let fields = field_combinations().nth(kind).unwrap();
        let (problem, initial) = problem_of::<f32>(grid, boundaries, fields);
        let column = FieldColumn::Single(initial);
        let run = |ranks| with_team(ranks, &problem, &column, None, |field| observed_run(field, &problem));
        let one = run(1).unwrap();
        for ranks in [2, 3, 4, 7] {
            assert_eq!(run(ranks).unwrap(), one, "{ranks} ranks, edges {kind}");
        }
    }
    let (problem, initial) = problem_of::<f64>(grid, boundaries_of(&grid, 1, 2), ALL_FIELDS);
    let column = FieldColumn::Double(initial);
    let run = |ranks| with_team(ranks, &problem, &column, None, |field| observed_run(field, &problem));
    assert_eq!(run(3).unwrap(), run(1).unwrap());
}

#[test]
fn ranks_on_devices_do_not_change_bits() {
    let grid = Grid { nx: 61, ny: 43, hx: 0.1, hy: 0.1 };
    for device in test_devices().iter().filter(|device| device.properties().has_f64) {
        for kind in [0, 2, 4] {
            let fields = if kind == 2 { ALL_FIELDS } else { UNIFORM };
            let (problem, initial) = problem_of::<f32>(grid, boundaries_of(&grid, 1, kind), fields);
            let setup = HeatDeviceSetup::new(device, &problem);
            let column = FieldColumn::Single(initial);
            let run = |ranks, setup| {
                with_team(ranks, &problem, &column, setup, |field| observed_run(field, &problem))
            };
            let one = run(1, Some(&setup)).unwrap();
            let on_host: Vec<_> = run(1, None).unwrap().into_iter().map(|observed| observed.column).collect();
            assert_eq!(one.iter().map(|observed| observed.column.clone()).collect::<Vec<_>>(), on_host);
            for ranks in [2, 3] {
                assert_eq!(run(ranks, Some(&setup)).unwrap(), one, "{ranks} ranks, edges {kind}");
            }
        }
    }
}

#[test]
fn fields_continue_on_other_numbers_of_ranks() {
    let grid = Grid { nx: 20, ny: 30, hx: 0.1, hy: 0.1 };
    let fields = PlateFields { source: false, ..ALL_FIELDS };
    let (problem, initial) = problem_of::<f32>(grid, boundaries_of(&grid, 0, 2), fields);
    let dt = problem.max_stable_step();
    let advanced = |column: &FieldColumn, ranks, steps| {
        with_team(ranks, &problem, column, None, |mut field| {
            field.advance(dt, steps)?;
            field.now().column()
        })
        .unwrap()
    };
    let start = FieldColumn::Single(initial);
    let expected = advanced(&start, 1, 30);
    assert_eq!(advanced(&advanced(&advanced(&start, 3, 11), 4, 12), 1, 7), expected);
    // A field of one rank is divided.
    let lead = |team: &Team| {
        let mut field = HeatField::restore(&problem, start.clone(), None)?;
        field.advance(dt, 10)?;
        let mut field = field.moved_to_team(team, None)?;
        field.advance(dt, 20)?;
        field.now().column()
    };
    let divided = run_team(2, lead, |team| follow(team, &problem, None));
    assert_eq!(divided.unwrap(), expected);
}

#[test]
fn steps_per_pass_fit_the_smallest_slab() {
    let grid = Grid { nx: 20, ny: 30, hx: 0.1, hy: 0.1 };
    let (problem, initial) = problem_of::<f32>(grid, boundaries_of(&grid, 0, 0), UNIFORM);
    let column = FieldColumn::Single(initial);
    for (ranks, expected) in [(1, 16), (2, 7), (7, 2), (15, 1)] {
        let steps = with_team(ranks, &problem, &column, None, |field| Ok(field.steps_per_pass()));
        assert_eq!(steps, Ok(expected), "{ranks} ranks");
    }
    let largest = |ranks| HeatField::largest_slab(&grid, ranks).map(|grid| grid.ny);
    assert_eq!((largest(1), largest(4)), (Ok(30), Ok(8 + 32)));
}

#[test]
fn bad_teams_are_refused() {
    let grid = Grid { nx: 9, ny: 5, hx: 0.1, hy: 0.1 };
    let edges = Boundaries::uniform(Boundary::fixed(0.0));
    let problem = HeatProblem::new(grid, edges, Conductivity::Uniform(1.0), None, Precision::Single).unwrap();
    let column = FieldColumn::Single(vec![0.0; 45]);
    let message = with_team(3, &problem, &column, None, |_| Ok(())).unwrap_err().to_string();
    assert_eq!(message, "the grid has 5 nodes along y, expected at least 6 for 3 ranks: 2 per rank");
    let device = &test_devices()[0];
    let lead = |team: &Team| {
        let field = HeatField::restore_in_team(team, &problem, column.clone(), None)?;
        field.now().measures()
    };
    let setup = HeatDeviceSetup::new(device, &problem);
    let result = run_team(2, lead, |team| follow(team, &problem, Some(&setup)));
    let message = result.unwrap_err().to_string();
    assert_eq!(message, "rank 1 computes on a device, expected the CPU, as on rank 0");
}

#[test]
fn values_that_are_not_finite_are_named() {
    let grid = Grid { nx: 37, ny: 22, hx: 0.1, hy: 0.13 };
    let (problem, mut initial) = problem_of::<f32>(grid, boundaries_of(&grid, 1, 2), UNIFORM);
    initial[grid.index(5, 12)] = f32::NAN;
    let column = FieldColumn::Single(initial);
    let message = |ranks| {
        with_team(ranks, &problem, &column, None, |field| field.now().check_finite()).unwrap_err().to_string()
    };
    assert_eq!(message(3), message(1));
    assert!(message(1).starts_with("the temperature is NaN at node (5, 12)"), "{}", message(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_division_into_slabs_gives_the_bits_of_the_reference(
        (nx, ny) in (3_usize..70, 3_usize..40),
        kinds in (0..EDGE_PAIRS, 0..EDGE_PAIRS),
        count in 1_usize..12,
        steps in 1_u64..40,
    ) {
        let grid = Grid { nx, ny, hx: 0.1, hy: 0.13 };
        let (problem, initial) = problem_of::<f32>(grid, boundaries_of(&grid, kinds.0, kinds.1), ALL_FIELDS);
        let dt = problem.max_stable_step();
        let mut expected = initial.clone();
        reference::advance(&Plate::new(&problem), dt, steps, &mut expected);
        let found = with_team(count.min(ny / 2), &problem, &FieldColumn::Single(initial), None, |mut field| {
            field.advance(dt, steps)?;
            field.now().stored_column()
        });
        let FieldColumn::Single(found) = found.unwrap() else { panic!() };
        let bits = |values: &[f32]| values.iter().map(|u| u.to_bits()).collect::<Vec<_>>();
        assert!(bits(&found) == bits(&expected), "{grid:?} {kinds:?} {count} slabs");
    }
}

/// On a periodic grid with two ranks, both neighbours of a rank are the same one. Borders of a
/// field that is dropped before they are received must not reach the next field.
#[test]
fn borders_reach_the_neighbours_of_the_same_field() {
    let grid = Grid { nx: 61, ny: 43, hx: 0.1, hy: 0.1 };
    for device in test_devices() {
        let (problem, initial) = problem_of::<f32>(grid, boundaries_of(&grid, 1, 4), UNIFORM);
        let (dt, setup) = (problem.max_stable_step(), HeatDeviceSetup::new(&device, &problem));
        let advanced = |team: &Team, initial: &[f32]| {
            let column = FieldColumn::Single(initial.to_vec());
            let mut field = HeatField::restore_in_team(team, &problem, column, Some(&setup))?;
            field.advance(dt, 9)?;
            Ok::<_, HeatError>(field)
        };
        let results = [1, 2, 3].map(|ranks| {
            let lead = |team: &Team| {
                drop(advanced(team, &vec![1.0; grid.len()])?);
                advanced(team, &initial)?.now().column()
            };
            let follow_twice = |team: &Team| {
                follow(team, &problem, Some(&setup))?;
                follow(team, &problem, Some(&setup))
            };
            run_team(ranks, lead, follow_twice).unwrap()
        });
        assert!(results[1] == results[0] && results[2] == results[0]);
    }
}
