//! Every number of every model over the range of f64: an error of one line or finite bodies.

use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use crate::common::{output_to, temp_folder};
use orrery_device::testing::{SplitMix64, is_soak};
use orrery_engine::case::{Case, CaseSource, model_names};
use orrery_engine::control::Control;
use orrery_engine::gravity::initial_bodies;
use orrery_engine::run::run;

/// Values that overflow, underflow or cancel in some power or ratio, and ordinary ones.
const VALUES: [f64; 25] = [
    5e-324,
    1e-308,
    1e-300,
    1e-200,
    1e-154,
    1e-100,
    1e-90,
    1e-60,
    1e-30,
    1e-16,
    1e-8,
    1e-4,
    1e-2,
    1.0,
    1e2,
    1e4,
    1e8,
    1e16,
    1e30,
    1e60,
    1e90,
    1e100,
    1e154,
    1e200,
    f64::MAX,
];

/// Returns a case of few bodies of `model` with the given settings of `[bodies]`.
fn load(model: &str, sets: &[String]) -> Result<Case, String> {
    let text = "[bodies]\n[time]\nstep = 1.0\nend = 1.0\n".to_owned();
    let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
    let units = match model {
        "galaxy" | "encounter" => "galactic",
        "solar-system" => "solar",
        _ => "nbody",
    };
    let mut all = vec![format!("bodies.model={model:?}"), format!("units={units:?}")];
    if !["kepler", "figure-eight", "pythagorean", "solar-system"].contains(&model) {
        all.push("bodies.n=30".to_owned());
    }
    all.extend(sets.iter().cloned());
    Case::load(&source, &all).map_err(|e| e.to_string())
}

/// Returns the keys of `[bodies]` and its subsections that are not integers, found in the resolved
/// case.
fn real_keys(model: &str) -> Vec<String> {
    let resolved = load(model, &[]).unwrap_or_else(|e| panic!("{e}")).to_toml();
    let (mut section, mut keys) = (String::new(), Vec::new());
    for line in resolved.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, value)) = line.split_once(" = ")
            && (section == "bodies" || section.starts_with("bodies."))
            && value.contains(['.', 'e'])
            && value.parse::<f64>().is_ok()
        {
            keys.push(format!("{section}.{key}"));
        }
    }
    keys
}

/// Generates bodies and checks the outcome. Returns true if there are bodies.
fn generates(model: &str, sets: &[String]) -> bool {
    let outcome = catch_unwind(|| {
        let case = load(model, sets)?;
        initial_bodies(&case, case.gravity().unwrap(), &Default::default(), &Default::default(), &mut |_| {})
            .map(|start| start.particles)
            .map_err(|e| e.to_string())
    });
    let outcome = outcome.unwrap_or_else(|_| panic!("{model} {sets:?} panics"));
    match outcome {
        Ok(bodies) => {
            let is_finite = bodies.validate().is_ok()
                && bodies.position.first_non_finite().is_none()
                && bodies.velocity.first_non_finite().is_none();
            assert!(is_finite, "{model} {sets:?} is not finite");
            true
        }
        Err(message) => {
            assert!(!message.contains('\n') && message.len() < 400, "{model} {sets:?}: {message}");
            assert!(message.contains("expected") || message.contains("outside"), "{model}: {message}");
            false
        }
    }
}

#[test]
fn every_parameter_over_the_range_of_f64_gives_bodies_or_an_error() {
    let (mut accepted, mut refused) = (0, 0);
    // In `cargo xtask test`, every third value, and other ones for the next key.
    let stride = if is_soak() { 1 } else { 3 };
    for model in model_names() {
        for (number, key) in real_keys(model).into_iter().enumerate() {
            let values = VALUES.into_iter().chain(VALUES.map(|value| -value)).chain([0.0]);
            for value in values.skip(number % stride).step_by(stride) {
                match generates(model, &[format!("{key}={value:e}")]) {
                    true => accepted += 1,
                    false => refused += 1,
                }
            }
        }
    }
    assert!(accepted > 100 / stride && refused > 500 / stride, "{accepted} accepted, {refused} refused");
}

/// Two or three parameters at once. The exponents of most values are moderate, so that ratios and
/// not single values are tested.
#[test]
fn random_combinations_of_parameters_give_bodies_or_an_error() {
    let mut random = SplitMix64::new(13);
    let mut accepted = 0;
    for trial in 0..200 {
        let model = ["galaxy", "encounter", "hernquist", "plummer", "kepler"][trial % 5];
        let keys = real_keys(model);
        let exponents = [3, 6, 12, 60, 300][random.below(5)];
        let sets: Vec<String> = (0..2 + random.below(2))
            .map(|_| {
                let exponent = random.below(2 * exponents + 1) as i64 - exponents as i64;
                format!("{}={}e{exponent}", keys[random.below(keys.len())], 1 + random.below(9))
            })
            .collect();
        accepted += usize::from(generates(model, &sets));
    }
    assert!((10..190).contains(&accepted), "{accepted} of 200 accepted");
}

/// The cases of users that panicked or never ended.
#[test]
fn unsuitable_scales_of_a_galaxy_are_named_with_their_range() {
    for (set, expected) in [
        ("halo_cutoff=1e200", "halo_cutoff = 1e200 is outside 0.01 <= halo_cutoff <= 10000"),
        ("halo_cutoff=1e-200", "halo_cutoff = 1e-200 is outside 0.01 <= halo_cutoff <= 10000"),
        ("bulge_scale_radius=1e200", "bulge_scale_radius = 1e200 is outside 1e-30 <= bulge_scale_radius"),
        (
            "halo_scale_radius=1e20",
            "halo_scale_radius = 1e20 is outside 0.0003 <= halo_scale_radius <= 30000 \
             (0.0001 to 10000 times disc_scale_length = 3)",
        ),
        ("disc_scale_length=3 cm", "e-22 is outside 6e-5 <= disc_scale_length <= 6000"),
        (
            "disc_scale_height=1e30",
            "disc_scale_height = 1e30 is outside 3e-6 <= disc_scale_height <= 30 \
             (1e-6 to 10 times disc_scale_length = 3)",
        ),
        ("bulge_scale_radius=1e-20", "bulge_scale_radius = 1e-20 is outside 0.0003 <= bulge_scale_radius"),
        ("toomre_q=1e100", "toomre_q = 1e100 is outside"),
    ] {
        let case = load("galaxy", &[format!("bodies.{set}")]).unwrap();
        let error = initial_bodies(
            &case,
            case.gravity().unwrap(),
            &Default::default(),
            &Default::default(),
            &mut |_| {},
        )
        .unwrap_err();
        assert!(error.is_user_error());
        assert!(error.to_string().contains(expected), "{set}: {error}");
    }
}

#[test]
fn generation_ends_when_a_stop_is_requested() {
    let dir = temp_folder();
    for model in ["plummer", "hernquist", "uniform-sphere", "galaxy", "encounter"] {
        let case = load(model, &["bodies.n=1000000".to_owned()]).unwrap();
        let control = Control::default();
        control.stop.store(true, Ordering::Relaxed);
        let folder = dir.path().join(model);
        let error = run(&case, &output_to(folder.clone()), &control, |_| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "[bodies]: stopped while the bodies were generated, nothing was written"
        );
        assert!(!error.is_user_error(), "the exit status is 1");
        assert!(!folder.exists(), "{model}");
    }
}
