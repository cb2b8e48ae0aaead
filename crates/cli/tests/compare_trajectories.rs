//! `compare` of trajectories: all frames, nearest images, tolerance and formats.

use orrery_formats::{FluidFrame, FluidSpecies, append_fluid_frame};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;
use serde_json::Value;

use crate::common::{TestDir, text};

/// Frames of four particles in a periodic box. `change` may change a frame.
struct Frames {
    count: usize,
    units: &'static str,
}

const FRAMES: Frames = Frames { count: 3, units: "lj" };

impl Frames {
    fn write(&self, dir: &TestDir, name: &str, change: impl Fn(usize, &mut FluidParticles)) {
        let bounds = SimulationBox::periodic([4.0, 5.0, 6.0], 3);
        for frame in 0..self.count {
            let shift = 0.1 * frame as f64;
            let coordinates = Vec3s {
                x: vec![0.5 + shift, 1.5, 3.95, 0.0],
                y: vec![1.0, 2.0 + shift, 3.0, 4.0],
                z: vec![0.25, 1.25, 2.25, 3.25 - shift],
            };
            let mut particles = FluidParticles::at_rest(bounds, &coordinates);
            particles.velocity = Vec3s { x: vec![1.0, -1.0, 0.5, 0.0], y: vec![0.5; 4], z: vec![shift; 4] };
            particles.id = vec![11, 12, 13, 14];
            change(frame, &mut particles);
            let frame = FluidFrame {
                particles: &particles,
                species: &[FluidSpecies { name: "A".to_owned(), mass: 1.0, sigma: 1.0 }],
                step: 100 * frame as u64,
                time: 0.1 * frame as f64,
                units: self.units,
                unit_names: &[],
                provenance: &[],
            };
            append_fluid_frame(&dir.path(name), &frame).unwrap();
        }
    }
}

fn compare(dir: &TestDir, arguments: &[&str]) -> (Option<i32>, String) {
    let output = dir.orrery(&[&["compare"], arguments].concat());
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The last frames are equal. Only a frame before differs.
#[test]
fn an_earlier_frame_that_differs_is_found() {
    let dir = TestDir::new();
    for extension in ["gsd", "xyz"] {
        let [a, b] = ["a", "b"].map(|name| format!("{name}.{extension}"));
        FRAMES.write(&dir, &a, |_, _| {});
        FRAMES.write(&dir, &b, |frame, particles| {
            if frame == 1 {
                particles.velocity.y[2] = 0.75;
            }
        });
        let expected = format!("{a} and {a}: equal to the bit, 4 particles in 3 frames\n");
        assert_eq!(compare(&dir, &[&a, &a]), (Some(0), expected));
        let (status, found) = compare(&dir, &[&a, &b]);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(status, Some(1), "{found}");
        assert_eq!(lines[0], format!("{a} and {b}: different, 4 particles in 3 frames compared"));
        assert_eq!(lines[1], "  first difference: frame 2, step 100, particle 13: vy 5e-1 and 7.5e-1");
        assert!(lines[3].ends_with("2.500e-1  frame 2, particle 13: 5e-1 and 7.5e-1"), "{found}");
        assert_eq!(compare(&dir, &[&a, &b, "--tolerance", "0.25,0"]).0, Some(0));
        assert_eq!(compare(&dir, &[&a, &b, "--tolerance", "0.24,0"]).0, Some(1));
        let json = dir.orrery(&["compare", &a, &b, "--json", "-"]).stdout;
        let json: Value = serde_json::from_slice(&json).unwrap();
        let first = &json["files"][0]["first_difference"];
        assert_eq!((&first["frame"], &first["particle"]), (&2.into(), &13.into()), "{json}");
    }
}

#[test]
fn different_numbers_of_frames_are_a_difference() {
    let dir = TestDir::new();
    FRAMES.write(&dir, "long.xyz", |_, _| {});
    Frames { count: 2, ..FRAMES }.write(&dir, "short.gsd", |_, _| {});
    let (status, found) = compare(&dir, &["long.xyz", "short.gsd", "--tolerance", "1e-5,0"]);
    assert_eq!(status, Some(1));
    assert!(found.contains("4 particles in 2 frames compared\n  3 and 2 frames\n"), "{found}");
}

/// GSD has f32 positions relative to the centre of the box, so the formats differ by rounding. The
/// positions in the runs' folders are those of `trajectory.gsd` and `trajectory.xyz`.
#[test]
fn formats_are_equal_within_the_rounding_of_gsd() {
    let dir = TestDir::new();
    FRAMES.write(&dir, "a.gsd", |_, _| {});
    FRAMES.write(&dir, "b.xyz", |_, _| {});
    let (status, found) = compare(&dir, &["a.gsd", "b.xyz", "--tolerance", "1e-6,0"]);
    assert_eq!(status, Some(0), "{found}");
    assert!(found.starts_with("a.gsd and b.xyz: equal within the tolerance, 4 particles in 3 frames\n"));
    assert_eq!(compare(&dir, &["a.gsd", "b.xyz"]).0, Some(1));
    for (run, name) in [("gsd", "a.gsd"), ("xyz", "b.xyz")] {
        std::fs::create_dir(dir.path(run)).unwrap();
        std::fs::copy(dir.path(name), dir.path(&format!("{run}/trajectory.{run}"))).unwrap();
        dir.write(&format!("{run}/thermo.csv"), "step,total\n0,1.0\n1,1.0\n");
    }
    let (status, found) = compare(&dir, &["gsd", "xyz", "--tolerance", "1e-6,0"]);
    assert_eq!(status, Some(0), "{found}");
    assert!(found.ends_with("the runs are equal within the tolerance\n"), "{found}");
    dir.write("xyz/thermo.csv", "step,total\n0,1.0\n1,1.00001\n");
    assert_eq!(compare(&dir, &["gsd", "xyz", "--tolerance", "1e-6,0"]).0, Some(1));
    assert_eq!(compare(&dir, &["gsd", "xyz", "--tolerance", "1e-6,1e-4"]).0, Some(0));
}

/// A particle on the other side of a periodic box is near. A particle that is a whole box further
/// on is not.
#[test]
fn positions_are_compared_by_their_nearest_images() {
    let dir = TestDir::new();
    FRAMES.write(&dir, "a.xyz", |_, _| {});
    let far = SimulationBox::periodic([4.0, 5.0, 6.0], 3).fraction(0, 3.9999).0;
    FRAMES.write(&dir, "b.xyz", |_, particles| {
        particles.position[0][3] = far;
        particles.image[0][3] = -1;
    });
    let (status, found) = compare(&dir, &["a.xyz", "b.xyz", "--tolerance", "2e-4,0"]);
    assert_eq!(status, Some(0), "{found}");
    let (status, found) = compare(&dir, &["a.xyz", "b.xyz", "--tolerance", "9e-5,0"]);
    assert!(status == Some(1) && found.contains(" 1.000e-4  frame "), "{found}");
    FRAMES.write(&dir, "c.xyz", |_, particles| particles.image[1][2] = 1);
    let (status, found) = compare(&dir, &["a.xyz", "c.xyz", "--tolerance", "1,1"]);
    assert_eq!(status, Some(1));
    let expected = "frame 1 and 2 more: 1 particle has another image count, the first is 13: 0 and 1 along y";
    assert!(found.contains(expected), "{found}");
}

/// Particles are matched by their ids. Columns that one file lacks are named, and so are particles.
#[test]
fn missing_columns_and_particles_are_differences() {
    let dir = TestDir::new();
    FRAMES.write(&dir, "a.xyz", |_, _| {});
    FRAMES.write(&dir, "reversed.xyz", |_, particles| {
        particles.position.iter_mut().for_each(|column| column.reverse());
        let v = &mut particles.velocity;
        [&mut v.x, &mut v.y, &mut v.z].into_iter().for_each(|column| column.reverse());
        particles.id.reverse();
    });
    assert_eq!(compare(&dir, &["a.xyz", "reversed.xyz"]).0, Some(0));
    FRAMES.write(&dir, "renamed.xyz", |_, particles| particles.id[0] = 99);
    let (status, found) = compare(&dir, &["a.xyz", "renamed.xyz"]);
    let expected = "frame 1 and 2 more: only a.xyz has particle 11\n  frame 1 and 2 more: only renamed.xyz has \
                    particle 99\n";
    assert!(status == Some(1) && found.contains(expected), "{found}");
    dir.write("positions.xyz", dir.text("a.xyz").replace("velo:R:3", "none:R:3"));
    let (status, found) = compare(&dir, &["a.xyz", "positions.xyz"]);
    assert!(status == Some(1) && found.contains("only a.xyz has velocities"), "{found}");
    Frames { units: "real", ..FRAMES }.write(&dir, "real.gsd", |_, _| {});
    let (status, found) = compare(&dir, &["a.xyz", "real.gsd"]);
    let expected = "error: real.gsd: the system of units is 'real', but a.xyz has 'lj'; expected files with the \
                    same units\n";
    assert_eq!((status, found.as_str()), (Some(2), expected));
    for wrong in ["1", "-1,0", "x,y"] {
        assert_eq!(compare(&dir, &["a.xyz", "a.xyz", "--tolerance", wrong]).0, Some(2), "{wrong}");
    }
}
