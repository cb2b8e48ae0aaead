//! Validation of bodies: accepted and rejected input, and the error messages.

use super::*;

fn two_bodies() -> Particles {
    let body = Particle { position: [0.0; 3], velocity: [0.0; 3], mass: 1.0, id: 7, species: Species::Halo };
    let mut bodies = Particles::default();
    bodies.push(body);
    bodies.push(Particle { id: 8, position: [-0.0, 0.0, 0.0], ..body });
    bodies
}

#[test]
fn each_violation_is_reported() {
    assert_eq!(two_bodies().validate(), Ok(()));
    assert_eq!(Particles::default().validate(), Err(ParticlesError::Empty));
    let mut bodies = two_bodies();
    bodies.mass.pop();
    assert_eq!(bodies.validate().unwrap_err().to_string(), "mass has 1 entry, expected 2");
    let mut bodies = two_bodies();
    bodies.velocity.y[1] = f64::NAN;
    assert!(bodies.validate().unwrap_err().to_string().starts_with("body 8 (number 1) has velocity y = NaN"));
    let mut bodies = two_bodies();
    bodies.mass[0] = -1.0;
    assert!(matches!(bodies.validate(), Err(ParticlesError::NegativeMass { id: 7, .. })));
    let mut bodies = two_bodies();
    bodies.id[1] = 7;
    assert_eq!(bodies.validate(), Err(ParticlesError::DuplicateId { id: 7, first: 0, second: 1 }));
    assert_eq!(
        bodies.validate().unwrap_err().to_string(),
        "bodies number 0 and 1 share the id 7, expected unique ids"
    );
}

#[test]
fn values_that_would_overflow_are_rejected() {
    let expected = "expected at most 1e100 in size: energies and moments would overflow";
    let mut bodies = two_bodies();
    bodies.position.x[1] = -1e300;
    assert_eq!(
        bodies.validate().unwrap_err().to_string(),
        format!("body 8 (number 1) has position x = -1e300, {expected}")
    );
    let mut bodies = two_bodies();
    bodies.mass[0] = 1e300;
    assert_eq!(
        bodies.validate().unwrap_err().to_string(),
        format!("body 7 (number 0) has mass = 1e300, {expected}")
    );
    let mut bodies = two_bodies();
    bodies.position.x = vec![1e-300, 0.0];
    bodies.velocity.z = vec![MAX_MAGNITUDE, -MAX_MAGNITUDE];
    bodies.mass = vec![0.0, 0.0];
    assert_eq!(bodies.validate(), Ok(()));
}

#[test]
fn first_non_finite_vector_is_found() {
    // 37 vectors: whole SIMD blocks and a remainder.
    let column: Vec<f64> = [1e307, -1e307, 5e-324, -0.0].into_iter().cycle().take(37).collect();
    let mut vectors = Vec3s { x: column.clone(), y: column.clone(), z: column };
    assert!(vectors.passes_quick_finite_check(0..37) && vectors.first_non_finite().is_none());
    // A sum that overflows fails the quick check although every component is finite.
    let edge = Vec3s { x: vec![f64::MAX; 9], y: vec![1e308; 9], z: vec![f64::MIN; 9] };
    assert!(!edge.passes_quick_finite_check(0..9) && edge.first_non_finite().is_none());
    for value in
        [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::from_bits(0x7ff0_0000_0000_0001)]
    {
        for i in 0..37 {
            for c in 0..3 {
                let original = vectors.get(i);
                let mut changed = original;
                changed[c] = value;
                vectors.set(i, changed);
                assert!(!vectors.passes_quick_finite_check(0..37), "{value} at {i}, {c}");
                assert!(
                    vectors.passes_quick_finite_check(0..i) && vectors.passes_quick_finite_check(i + 1..37)
                );
                assert_eq!(vectors.first_non_finite(), Some((i, c)));
                vectors.set(i, original);
            }
        }
    }
    vectors.x[20] = f64::NAN;
    vectors.z[19] = f64::INFINITY;
    assert_eq!(vectors.first_non_finite(), Some((19, 2)));
}

#[test]
fn minus_zero_and_zero_are_the_same_position() {
    let mut bodies = two_bodies();
    bodies.position.y = vec![0.5; 2];
    assert_eq!(
        bodies.check_distinct_positions().unwrap_err().to_string(),
        "bodies 7 and 8 are at the same place (0, 0.5, 0); set a softening above 0 or move one"
    );
    bodies.position.z[1] = 5e-324;
    assert_eq!(bodies.check_distinct_positions(), Ok(()));
}

#[test]
fn species_have_the_numbers_of_gadget_types() {
    for (k, species) in Species::ALL.into_iter().enumerate() {
        assert_eq!(species as usize, k);
    }
}
