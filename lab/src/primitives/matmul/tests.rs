use super::rungs::{LoopOrder, expected_with_bound, multiply_in_order};
use super::selftest::{SHAPES, random_matrices};
use super::*;

/// Requires the bits of the reference.
fn compare_on_cpu<T: MatrixNumber>(product: &Product<T>) {
    let [a, b, mut expected] = random_matrices(product);
    let mut found = expected.clone();
    matmul_on_cpu(product, &a, &b, &mut found);
    matmul_reference(product, &a, &b, &mut expected);
    assert!(found == expected, "{product:?}");
}

#[test]
fn the_reference_multiplies_matrices() {
    // (1 2 3; 4 5 6) (1 0; 0 1; 1 1) = (4 5; 10 11)
    let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let mut c = [1.0f64, 2.0, 3.0, 4.0];
    matmul_reference(&Product { alpha: 2.0, beta: -1.0, ..Product::new(2, 2, 3) }, &a, &b, &mut c);
    assert_eq!(c, [7.0, 8.0, 17.0, 18.0]);
    let (a_transposed, b_transposed) = ([1.0, 4.0, 2.0, 5.0, 3.0, 6.0], [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
    let product = Product { transposed_a: true, transposed_b: true, ..Product::new(2, 2, 3) };
    matmul_reference(&product, &a_transposed, &b_transposed, &mut c);
    assert_eq!(c, [4.0, 5.0, 10.0, 11.0]);
}

#[test]
fn the_cpu_gives_the_bits_of_the_reference() {
    // More than one block along each dimension.
    for [m, n, k] in SHAPES.into_iter().chain([[100, 530, 300], [97, 16, 513]]) {
        compare_on_cpu::<f32>(&Product::new(m, n, k));
        compare_on_cpu::<f64>(&Product::new(m, n, k));
        for (transposed_a, transposed_b) in [(true, false), (false, true), (true, true)] {
            let product = Product { transposed_a, transposed_b, ..Product::new(m, n, k) };
            compare_on_cpu::<f32>(&Product { alpha: -0.5, beta: 3.0, ..product });
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let product = Product::<f32>::new(40, 70, 33);
    let [a, b, c] = random_matrices(&product);
    let mut expected = c;
    matmul_reference(&product, &a, &b, &mut expected);
    for set in InstructionSet::available() {
        let mut found = vec![f32::NAN; expected.len()];
        cpu::multiply_with(set, &product, &a, &b, &mut found);
        assert!(found == expected, "{set:?}");
    }
}

#[test]
fn results_are_within_the_error_bound() {
    for k in [1, 10, 1000, 20_000] {
        let product = Product::<f32>::new(3, 5, k);
        let [a, b, mut c] = random_matrices(&product);
        matmul_on_cpu(&product, &a, &b, &mut c);
        for (i, &number) in c.iter().enumerate() {
            let (expected, bound) = expected_with_bound(&product, &a, &b, i / 5, i % 5, 0.0);
            assert!((f64::from(number) - expected).abs() <= bound, "k = {k}: {number}, expected {expected}");
        }
    }
}

#[test]
fn every_loop_order_computes_the_product() {
    for [m, n, k] in SHAPES {
        let product = Product::<f32>::new(m, n, k);
        let [a, b, mut c] = random_matrices(&product);
        for order in LoopOrder::ALL {
            multiply_in_order(order, &product, &a, &b, &mut c);
            for (i, &number) in c.iter().enumerate() {
                let (expected, bound) = expected_with_bound(&product, &a, &b, i / n, i % n, 0.0);
                let error = (f64::from(number) - expected).abs();
                assert!(error <= bound, "{order:?}, {m} x {n} x {k}: {number}, expected {expected}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "numbers of A, B and C")]
fn a_wrong_length_panics() {
    matmul_on_cpu(&Product::<f32>::new(2, 2, 2), &[0.0; 4], &[0.0; 3], &mut [0.0; 4]);
}
