//! Numbers that go wrong on the way, and bodies at the edge of what numbers can say: finite results or one
//! clear line, never silent garbage.

mod common;

use common::{Room, from_file, text};

const HEAD: &str = "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n";

/// A pair of bodies from two lines of a file, stepped as said.
fn pair(room: &Room, bodies: &str, time: &str) {
    room.write("pair.xyz", format!("{HEAD}{bodies}"));
    let case = from_file("pair.xyz").replace("step = 0.25\nend = 0.5\n", time);
    assert!(case.contains(time));
    room.write("pair.toml", format!("{case}[image]\nsize = 64\n"));
}

/// The status and the last line of a quiet run into `out`.
fn outcome(room: &Room, sets: &[&str]) -> (Option<i32>, String) {
    let output = room.orrery(&common::run_arguments("pair.toml", "out", sets));
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_number_that_is_lost_ends_the_run_with_a_post_mortem() {
    let room = Room::new();
    pair(&room, "0 0 0 0 0 0 1 10\n2 0 0 1e99 0 0 0 20\n", "step = 1e250\nend = 1e251\n");
    let (status, said) = outcome(&room, &[]);
    assert_eq!(status, Some(1));
    assert!(
        said.starts_with("error: step 1, time 1e250: body 20 has position x = -inf, expected a finite"),
        "{said}"
    );
    assert!(said.ends_with("; the bodies at that moment are in out/post-mortem.hdf5\n"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let found = room.snapshot("out/post-mortem.hdf5");
    assert_eq!((found.step, found.particles.id.clone()), (1, vec![10, 20]));
    assert!(found.particles.position.x[1].is_infinite());
    // What was there before it went wrong is whole.
    assert_eq!(room.snapshot("out/snapshots/snapshot_000.hdf5").step, 0);
    assert_eq!(room.list("out/checkpoints"), ["checkpoint_000000000.orrery"]);
    assert_eq!(room.text("out/conserved.csv").lines().count(), 2);
}

#[test]
fn energy_beyond_its_limit_warns_or_stops() {
    let room = Room::new();
    // A fall through one another in four steps: leapfrog keeps next to nothing.
    pair(&room, "-1 0 0 0 0.1 0 1 10\n1 0 0 0 -0.1 0 1 20\n", "step = 0.5\nend = 4\n");
    let every = "output.record_every=1 step";
    let (status, said) = outcome(&room, &[every]);
    assert_eq!(status, Some(0));
    assert!(said.starts_with("warning: step "), "{said}");
    assert!(
        said.ends_with(
            "beyond 0.02 ([limits] energy_error); a shorter step or a larger softening may help\n"
        ),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "once is enough: {said}");

    std::fs::remove_dir_all(room.path("out")).unwrap();
    let (status, said) = outcome(&room, &[every, "limits.on_energy_error=stop", "limits.energy_error=0.1"]);
    assert_eq!(status, Some(1));
    assert!(said.contains(": the energy error is "), "{said}");
    assert!(
        said.contains(", expected at most 0.1 ([limits] energy_error); the bodies at that moment are in"),
        "{said}"
    );
    let step = room.snapshot("out/post-mortem.hdf5").step;
    assert!(said.starts_with(&format!("error: step {step}, time {}: ", step as f64 / 2.0)), "{said}");
    // All rows until then, and the plot of them.
    assert_eq!(room.text("out/conserved.csv").lines().count() as u64, step + 2);
    assert!(room.bytes("out/energy.png").starts_with(b"\x89PNG"));

    std::fs::remove_dir_all(room.path("out")).unwrap();
    assert_eq!(outcome(&room, &[every, "limits.energy_error=none"]), (Some(0), String::new()));
}

#[test]
fn bodies_at_the_edge() {
    let room = Room::new();
    let steps = "step = 0.25\nend = 0.5\n";
    let too_large = "expected at most 1e100 in size: energies and moments must be numbers too";
    for (second, softening, expected) in [
        ("1e300 0 0 0 0 0 5 20", "0", format!("body 20 (number 1) has position x = 1e300, {too_large}")),
        ("2 0 0 0 -1e300 0 5 20", "0", format!("body 20 (number 1) has velocity y = -1e300, {too_large}")),
        ("2 0 0 0 0 0 1e300 20", "0", format!("body 20 (number 1) has mass = 1e300, {too_large}")),
        ("2 0 0 0 0 0 5 10", "0", "bodies number 0 and 1 share the id 10, expected unique ids".to_owned()),
        ("0 0 0 0 0 0 5 20", "0", String::new()),
    ] {
        pair(&room, &format!("0 0 0 0 0 0 3 10\n{second}\n"), steps);
        let (status, said) = outcome(&room, &[&format!("gravity.softening={softening}")]);
        assert_eq!(status, Some(2), "{second}: {said}");
        assert!(
            said.starts_with("error: ") && said.contains(&expected) && said.lines().count() == 1,
            "{second}: {said}"
        );
        assert!(!room.path("out").exists(), "{second}");
    }
    // So close that the force is beyond f64.
    pair(&room, "0 0 0 0 0 0 3 10\n1e-200 0 0 0 0 0 5 20\n", steps);
    let (status, said) = outcome(&room, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.starts_with("error: step 0, time 0: body 10 has acceleration x = "), "{said}");
    assert!(!room.path("out").exists(), "nothing had begun");

    // A body without mass is carried along; bodies in one place are, with softening.
    for (second, softening) in
        [("2 0 0 0 0 0 0 20", "0"), ("0 0 0 0 0 0 5 20", "0.1"), ("1e-300 0 0 0 0 0 5 20", "0.1")]
    {
        pair(&room, &format!("0 0 0 0 0 0 3 10\n{second}\n"), steps);
        let (status, said) = outcome(&room, &[&format!("gravity.softening={softening}")]);
        assert_eq!((status, said.as_str()), (Some(0), ""), "{second}");
        let last = room.snapshots("out").pop().unwrap().particles;
        assert!(last.position.x.iter().chain(&last.velocity.x).all(|x| x.is_finite()), "{second}");
        if second.starts_with('2') {
            assert_eq!(last.velocity.x[0], 0.0, "what has no mass does not pull");
            assert!(last.velocity.x[1] < 0.0, "but falls");
        }
        std::fs::remove_dir_all(room.path("out")).unwrap();
    }
}
