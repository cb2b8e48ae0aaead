//! Warnings about cases with one fault each.

use std::path::PathBuf;

use orrery_formats::Limits;
use orrery_model::Units;
use orrery_model::wave::Wavelet;

use super::placement_warnings;
use crate::case::{Case, CaseError, CaseSource};
use crate::input_files::InputFiles;
use crate::wave::build_problem;

fn load(text: &str) -> Result<Case, CaseError> {
    let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: PathBuf::new() };
    Case::load_within(&source, &[], None)
}

/// Returns the warnings of a case of 61 x 41 nodes at distances of 10 m with layers of 8 nodes, a
/// free surface, and `rest`.
fn warnings(rest: &str) -> Vec<String> {
    let text = format!(
        "units = \"si\"\n[grid]\nnx = 61\nny = 41\nhx = \"10 m\"\n[wave]\ny_min = \"free\"\nlayer_nodes = 8\n{rest}\n\
         [time]\nend = \"0.5 s\"\n"
    );
    warnings_of(&text)
}

fn warnings_of(text: &str) -> Vec<String> {
    let case = load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let wave = case.wave().unwrap();
    let problem = build_problem(&case, wave, &InputFiles::new(&Limits::default())).unwrap();
    placement_warnings(&case, wave, &problem)
}

const VELOCITY: &str = "velocity = \"1500 m/s\"\n";
const SOURCE: &str = "[[wave.source]]\nx = 300.0\ny = 200.0\nfrequency = 10.0\n";

#[test]
fn a_case_without_faults_has_no_warnings() {
    // The first node outside of a layer, a point at half a spacing below the surface, and the edge
    // of a wall that a later region covers.
    let rest = "[[wave.receivers]]\nx = 80.0\ny = 5.0\ncount = 45\ndx = 10.0\n\
                [[wave.region]]\nshape = \"ball\"\nx = 300.0\ny = 200.0\nradius = 50.0\nvelocity = \"wall\"\n\
                [[wave.region]]\nshape = \"box\"\nx = 200.0\ny = 100.0\nwidth = 200.0\nheight = 200.0\nvelocity = 1600.0\n";
    assert_eq!(warnings(&format!("{VELOCITY}{SOURCE}{rest}")), [""; 0]);
}

#[test]
fn points_in_layers_and_walls_and_on_surfaces_are_reported() {
    let rest = "[[wave.source]]\nx = 40.0\ny = 200.0\nfrequency = 10.0\n\
                [[wave.receivers]]\nx = 60.0\ny = 200.0\ncount = 54\ndx = 10.0\n\
                [[wave.receivers]]\nx = 300.0\ny = 0.0\n[[wave.receivers]]\nx = 410.0\ny = 300.0\n\
                [[wave.region]]\nshape = \"box\"\nx = 400.0\ny = 250.0\nwidth = 20.0\nheight = 100.0\nvelocity = \"wall\"\n";
    assert_eq!(
        warnings(&format!("{VELOCITY}{SOURCE}{rest}")),
        [
            "1 of 2 sources is in the absorbing layer at x_min, which is 80 m thick (8 nodes), at (40 m, 200 m): its waves \
             are damped; expected x >= 80 m, a larger grid or fewer wave.layer_nodes",
            "2 of 56 receivers are in the absorbing layer at x_min, which is 80 m thick (8 nodes), the first at (60 m, \
             200 m): the traces are damped; expected x >= 80 m, a larger grid or fewer wave.layer_nodes",
            "7 of 56 receivers are in the absorbing layer at x_max, which is 80 m thick (8 nodes), the first at (530 m, \
             200 m): the traces are damped; expected x <= 520 m, a larger grid or fewer wave.layer_nodes",
            "1 of 56 receivers is on the free surface y_min, where u is 0, at (300 m, 0 m): the traces are zero; expected \
             a depth of at least one spacing, 10 m",
            "1 of 56 receivers is in the wall of wave.region[1], at (410 m, 300 m): no wave arrives; expected a position \
             outside of it",
        ]
    );
}

#[test]
fn wavelets_that_are_cut_are_reported() {
    let source = |keys: &str| format!("{VELOCITY}[[wave.source]]\nx = 300.0\ny = 200.0\n{keys}\n");
    for (keys, expected) in [
        (
            "frequency = 10.0\ndelay = 0.6",
            "has its maximum at 600 ms, and the run ends at 501.3 ms; expected a delay of about 150 ms",
        ),
        ("frequency = 10.0\ndelay = 0.0", "starts with a jump to 100% of its amplitude"),
        ("frequency = 10.0\ndelay = 0.05", "expected a delay of at least 150 ms"),
        ("frequency = 10.0\namplitude = 0", "emits nothing: its amplitude is 0"),
        ("wavelet = \"sine\"\nfrequency = 10.0\ndelay = 0.7", "starts at 700 ms, and the run ends at"),
    ] {
        let found = warnings(&source(keys));
        assert!(found.len() == 1 && found[0].contains(expected), "{keys}: {found:?}");
        assert!(found[0].contains("source at (300 m, 200 m)"), "{found:?}");
    }
    assert_eq!(warnings(&source("frequency = 10.0\ndelay = 0.1")), [""; 0]);
    for (values, expected) in [
        (&[0.0, 0.0][..], "emits nothing: all samples"),
        (&[1.0, 0.5, 0.0], "starts with a jump of 100%"),
        (&[0.0, 1.0, -2.0, 0.5], "ends with a jump of 25%"),
    ] {
        let found = super::sampled_warning(values, "x").unwrap();
        assert!(found.contains(expected), "{found}");
    }
    assert_eq!(super::sampled_warning(&[0.0, 1.0, 0.0], "x"), None);
}

#[test]
fn regions_and_layers_without_effect_are_reported() {
    let region = |keys: &str| format!("{VELOCITY}{SOURCE}[[wave.region]]\nvelocity = 2000.0\n{keys}\n");
    let a_box = |x: f64, width: f64| {
        region(&format!("shape = \"box\"\nx = {x}\ny = 100.0\nwidth = {width}\nheight = 100.0"))
    };
    let ball =
        |x: f64, radius: f64| region(&format!("shape = \"ball\"\nx = {x}\ny = 105.0\nradius = {radius}"));
    for (rest, expected) in [
        (a_box(610.0, 100.0), "is outside of the grid and has no effect: it has x from 610 m to 710 m"),
        (a_box(-80.0, 70.0), "expected within 0 to 600 m"),
        (
            a_box(101.0, 8.0),
            "8 m along x with a spacing of 10 m, and is between two nodes, so it has no effect",
        ),
        (a_box(98.0, 4.0), "and covers one node there, which has the effect of a full cell"),
        (ball(105.0, 6.0), "wave.region[1] covers no node of the grid and has no effect"),
        (ball(700.0, 60.0), "is outside of the grid"),
    ] {
        let found = warnings(&rest);
        assert!(found.len() == 1 && found[0].contains(expected), "{rest}: {found:?}");
    }
    assert_eq!(warnings(&a_box(95.0, 20.0)), [""; 0]);
    assert_eq!(warnings(&ball(100.0, 6.0)), [""; 0]);

    let layers = |tops: [f64; 3]| {
        let layer = |top: f64| format!("[[wave.layer]]\ntop = {top:?}\nvelocity = 1500.0\n");
        warnings(&(tops.map(layer).concat() + SOURCE))
    };
    assert_eq!(layers([0.0, 50.0, 100.0]), [""; 0]);
    assert!(layers([0.0, 51.0, 58.0])[0].starts_with("wave.layer[2] from 51 m to 58 m is between two nodes"));
    assert!(
        layers([0.0, 50.0, 401.0])[0].contains("wave.layer[3] starts at a depth of 401 m, below the grid")
    );
}

#[test]
fn points_that_can_never_be_meant_are_refused() {
    let refused = |rest: &str| {
        let text = format!(
            "[grid]\nnx = 61\nny = 41\nhx = 10.0\n[wave]\nvelocity = 1.0\ny_min = \"free\"\nlayer_nodes = 8\n{rest}\n\
             [time]\nend = 1.0\n"
        );
        load(&text).unwrap_err().message
    };
    assert_eq!(
        refused("[[wave.source]]\nx = 300.0\ny = 0.0\nfrequency = 0.01"),
        "wave.source[1].y = 0.0 is on the free surface y_min, where a source emits nothing, expected a distance of at \
         least one spacing = 10"
    );
    assert_eq!(
        refused(&format!("{}[[wave.receivers]]\nx = 300.0\ny = 20.0\ncount = 5\ndz = 3.0", SOURCE)),
        "wave.receivers[1].count = 5 has no spacing, so all receivers are at one place, expected dx or dy"
    );
}

/// A wavelet of samples has its warnings too.
#[test]
fn samples_after_the_end_are_reported() {
    let wavelet = Wavelet::Sampled { interval: 2.0, values: vec![0.0, 1.0, -3.0, 1.0, 0.0] };
    let found = super::wavelet_warning(&wavelet, "(1, 2)", 1.0, Units::Si).unwrap();
    assert_eq!(
        found,
        "the wavelet of the source at (1, 2) has its largest sample at 4 s, and the run ends at 1 s; expected an interval \
         shorter than 2 s, or a later end"
    );
    assert_eq!(super::wavelet_warning(&wavelet, "(1, 2)", 10.0, Units::Si), None);
}

/// The run ends at about 0.5 s. Waves need 0.1 s to pass 150 m.
#[test]
fn waves_that_arrive_after_the_end_are_reported() {
    let line = |delay: f64| {
        let source = format!("[[wave.source]]\nx = 150.0\ny = 200.0\nfrequency = 10.0\ndelay = {delay}\n");
        warnings(&format!(
            "velocity = 1500.0\n{source}[[wave.receivers]]\nx = 180.0\ny = 200.0\ncount = 12\ndx = 30.0\n"
        ))
    };
    assert_eq!(line(0.15), [""; 0]);
    let found = line(0.4);
    let expected = "before a wave arrives at 2 of 12 receivers, whose traces are 0: it arrives there from 520 ms on; expected \
                    a time.end above 540 ms";
    assert!(
        found.len() == 1 && found[0].contains("the run ends at 50") && found[0].ends_with(expected),
        "{found:?}"
    );
}

#[test]
fn thin_absorbing_layers_are_reported() {
    let plain = format!("{VELOCITY}{SOURCE}");
    let found = |nodes: usize, sides: &str| {
        let text = format!(
            "units = \"si\"\n[grid]\nnx = 61\nny = 41\nhx = \"10 m\"\n[wave]\nlayer_nodes = {nodes}\n{sides}{plain}\n\
             [time]\nend = \"0.5 s\"\n"
        );
        warnings_of(&text)
    };
    let expected = "wave.layer_nodes = 3 is so thin that the layers reflect: traces are wrong by about 10% with 3 nodes and \
                    0.7% with 6; expected at least 10";
    assert_eq!(found(3, ""), [expected]);
    assert_eq!(found(6, ""), [""; 0]);
    let rigid = ["x_min", "x_max", "y_min", "y_max"].map(|side| format!("{side} = \"rigid\"\n")).concat();
    assert_eq!(found(3, &rigid), [""; 0]);
}

#[test]
fn waves_that_become_zero_are_reported() {
    let with = |amplitude: &str, precision: &str| {
        warnings(&format!(
            "precision = \"{precision}\"\nvelocity = 1500.0\n[[wave.source]]\nx = 300.0\ny = 200.0\nfrequency = 10.0\n\
             amplitude = {amplitude}\n"
        ))
    };
    let found = with("-1e-30", "single");
    let expected = "the largest amplitude of a source is 1e-30, so waves are about 1.592e-31 at a distance of 10 m, and values \
                    below 2^-111 become 0; expected an amplitude of at least 2.42e-29, or wave.precision = \"double\"";
    assert_eq!(found, [expected]);
    assert_eq!(with("1e-28", "single"), [""; 0]);
    assert_eq!(with("-1e-30", "double"), [""; 0]);
}

/// In two dimensions the depth is y, and z is not used.
#[test]
fn settings_of_z_in_two_dimensions_are_reported() {
    let end =
        "no effect in two dimensions, where y is the depth; expected y, or grid.nz > 1 for three dimensions";
    let rest = "[[wave.receivers]]\nx = 80.0\ny = 5.0\nz = 1.0\ncount = 5\ndx = 10.0\ndz = 1.0\n\
                [[wave.region]]\nshape = \"box\"\nx = 200.0\ny = 100.0\nz = 3.0\nwidth = 200.0\nheight = 200.0\n\
                depth = 5.0\nvelocity = 1600.0\n[wave.snapshot]\nz_from = 1.0\nz_to = 2.0\n";
    let source = SOURCE.replace("frequency", "z = 2.0\nfrequency");
    assert_eq!(warnings(&format!("{VELOCITY}{source}")), [format!("wave.source[1].z has {end}")]);
    assert_eq!(
        warnings(&format!("z_min = \"free\"\nz_max = \"rigid\"\n{VELOCITY}{source}{rest}")),
        [format!(
            "wave.z_min, wave.z_max, wave.source[1].z, wave.receivers[1].z, wave.receivers[1].dz, wave.region[1].z and 3 \
             more have {end}"
        )]
    );
    for key in ["hz", "depth"] {
        let text = format!(
            "units = \"si\"\n[grid]\nnx = 61\nny = 41\nhx = 10.0\n{key} = 50.0\n[wave]\nlayer_nodes = 8\n{VELOCITY}{}[time]\nend = 0.5\n",
            SOURCE
        );
        assert_eq!(warnings_of(&text), [format!("grid.hz or grid.depth has {end}")], "{key}");
    }
}

#[test]
fn presets_of_waves_are_not_reported() {
    for preset in crate::case::presets() {
        if preset.text.contains("[wave]") {
            assert_eq!(warnings_of(preset.text), [""; 0], "{}", preset.name);
        }
    }
}
