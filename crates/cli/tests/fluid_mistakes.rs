//! Errors in cases of fluids and in their files. Each gives one line with the location, the value
//! found and the expected value, exit status 2, and no files.

use crate::common::{TestDir, text};
use crate::mistakes::check_messages;

/// A small fluid, to which tests add settings.
const CASE: &str = "[particles]\nstart = \"fcc\"\ncells = 4\ndensity = 0.8442\ntemperature = 1.0\n[lennard_jones]\n\
                    [time]\nstep = 0.005\nend = 0.05\n";

/// Two atoms of LAMMPS that overlap.
const OVERLAP: &str = "two atoms\n\n2 atoms\n1 atom types\n0 10 xlo xhi\n0 10 ylo yhi\n0 10 zlo zhi\n\n\
                       Masses\n\n1 1.0\n\nAtoms # atomic\n\n1 1 1 1 1\n2 1 1.2 1 1\n";

/// Returns a case with the particles of a file.
fn of_file(name: &str) -> String {
    format!("[particles]\nfile = \"{name}\"\n[lennard_jones]\n[time]\nstep = 0.001\nend = 0.01\n")
}

#[test]
fn settings_of_fluids_are_checked() {
    let dir = TestDir::new();
    dir.write("fluid.toml", CASE);
    let mistakes: [(&[&str], &str); 17] = [
        (&["particles.density=0"], "SET: particles.density = 0 is outside density > 0"),
        (&["particles.density=-1"], "SET: particles.density = -1 is outside density > 0"),
        (&["particles.temperature=0"], "SET: particles.temperature = 0 is outside temperature > 0"),
        (
            &["particles.temperature=94 K"],
            "SET: particles.temperature = \"94 K\": 'K' has no meaning in lj units, expected a plain number; or set \
             units = \"real\"",
        ),
        (
            &["particles.start=hcp"],
            "SET: particles.start = \"hcp\" is unknown, expected fcc, simple-cubic, square, droplet or random",
        ),
        (&["particles.n=5"], "SET: key 'n' is for droplet or random, not for fcc"),
        (
            &["particles.mass_density=1"],
            "SET: particles.mass_density = 1 conflicts with particles.density, expected only one of them",
        ),
        (&["particles.cells=100000"], "SET: 4000000000000000 particles, expected at most 4294967295"),
        (&["particles.cells=600"], "SET: 864000000 particles need ... are available"),
        (
            &["lennard_jones.cutoff=4"],
            "[particles]: the cutoff is 4, and half of the box is 3.359 along x, expected a larger box or a smaller \
             lennard_jones.cutoff",
        ),
        (&["lennard_jones.cutoff=0"], "SET: lennard_jones.cutoff = 0 is outside 1e-1 <= cutoff <= 1e6"),
        (
            &["units=real"],
            "fluid.toml:6:1: [[lennard_jones.species]] is missing, expected one with mass, sigma and epsilon",
        ),
        (
            &["thermostat.method=andersen"],
            "SET: thermostat.method = \"andersen\" is unknown, expected none, langevin or rescaling",
        ),
        (
            &["thermostat.temperature=2"],
            "SET: thermostat.temperature = 2 applies only with a thermostat, expected a method other than \"none\"",
        ),
        (
            &["lennard_jones.truncation=shifted", "lennard_jones.tail_corrections=true"],
            "SET: lennard_jones.tail_corrections = true applies only to truncation = \"truncated\", expected false",
        ),
        (
            &["lennard_jones.truncation=none", "lennard_jones.search=lists"],
            "SET: lennard_jones.search = \"lists\" needs a cutoff, expected \"all-pairs\" with truncation = \"none\"",
        ),
        (
            &["thermostat.method=langevin", "limits.energy_error=0.1"],
            "SET: limits.energy_error = 0.1 has no meaning with a thermostat, expected \"none\": it changes the energy",
        ),
    ];
    for (sets, expected) in mistakes {
        let mut arguments = vec!["run", "fluid.toml", "--quiet", "--out", "out"];
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        let expected = expected.replace("SET", &format!("--set {}", sets[sets.len() - 1]));
        check_messages(&dir, &[(&arguments, &expected)]);
    }
}

#[test]
fn species_and_pairs_of_a_case_are_checked() {
    let dir = TestDir::new();
    let with = |more: &str| CASE.replace("[lennard_jones]\n", &format!("[lennard_jones]\n{more}"));
    let [a, b] = ["[[lennard_jones.species]]\nname = \"A\"\n", "[[lennard_jones.species]]\nname = \"B\"\n"];
    let pair = |second: &str| format!("[[lennard_jones.pair]]\nfirst = \"A\"\nsecond = \"{second}\"\n");
    let cases = [
        (
            format!("{a}{b}{}sigma = 2\n", pair("C")),
            "13:10: lennard_jones.pair[1].second = \"C\" is an unknown species, expected A or B",
        ),
        (
            format!("{a}{b}{}", pair("B")),
            "11:1: lennard_jones.pair[1] has neither sigma nor epsilon, expected one or both",
        ),
        (format!("{a}{a}"), "...two species have the name A, expected different ones"),
        (
            format!("{a}fraction = 0.5\n{b}fraction = 0.6\n"),
            "12:12: lennard_jones.species[2].fraction = 0.6: all fractions have the sum 1.1, expected 1",
        ),
        (
            format!(
                "{a}{b}{}sigma = 2\n[[lennard_jones.pair]]\nfirst = \"B\"\nsecond = \"A\"\nsigma = 3\n",
                pair("B")
            ),
            "18:9: lennard_jones.pair[2].sigma = 3 contradicts 2 of another section for B and A, expected each pair once",
        ),
        (
            "[[lennard_jones.species]]\nname = \"liquid argon\"\n".to_owned(),
            "8:8: lennard_jones.species[1].name = \"liquid argon\" is not a name, expected 1 to 8 characters of A-Z \
             a-z 0-9 _",
        ),
    ];
    for (more, expected) in cases {
        dir.write("fluid.toml", with(&more));
        let expected = format!("fluid.toml:{expected}");
        check_messages(&dir, &[(&["run", "fluid.toml", "--quiet", "--out", "out"], &expected)]);
    }
}

#[test]
fn particles_of_files_are_checked() {
    let dir = TestDir::new();
    let files = [
        (
            "overlap.data",
            OVERLAP.to_owned(),
            "particles 1 and 2 overlap: their distance is 0.2 and sigma is 1, expected at least half of sigma; \
             particles.minimise = true moves them apart",
        ),
        (
            "outside.data",
            OVERLAP.replace("1.2 1 1", "12 1 1"),
            "particle 2 has x = 12, outside of the box from 0 to 10; particles.wrap = true moves particles into the \
             periodic box",
        ),
        (
            "mass.data",
            OVERLAP.replace("1 1.0", "1 2.0"),
            "species A has the mass 2 in the file and 1 in the case, expected the same",
        ),
        (
            "flat.data",
            OVERLAP.replace("0 10 ylo", "0 0 ylo"),
            "the box has the length 0e0 along y, expected 1e-100 to 1e100",
        ),
        (
            "species.data",
            OVERLAP
                .replace("1 atom types", "2 atom types")
                .replace("1 1.0", "1 1.0\n2 1.0")
                .replace("2 1 1.2", "2 2 3.2"),
            "species '2' is not in the case, expected A (lennard_jones.species)",
        ),
    ];
    for (name, content, expected) in files {
        dir.write(name, content);
        dir.write("file.toml", of_file(name));
        let expected = format!("file.toml:2:8: {name}: {expected}");
        check_messages(&dir, &[(&["run", "file.toml", "--quiet", "--out", "out"], &expected)]);
    }
    let plane = "2\nLattice=\"8 0 0 0 8 0 0 0 8\" Properties=species:S:1:pos:R:3:velo:R:3\nA 1 1 1 0 0 0\nA 3 3 Z 0 0 V\n";
    let plane = |z: &str, v: &str| plane.replace('Z', z).replace('V', v);
    let stated = |text: &str| plane("1", "0").replace("Lattice", &format!("{text} Lattice"));
    let files = [
        (
            plane("1.5", "0"),
            2,
            "particles 0 and 1 have z = 1 and 1.5, expected the same z for all particles in two dimensions \
             (particles.dimensions)",
        ),
        (
            plane("1", "0.25"),
            2,
            "particle 1 has the velocity 0.25 along z, expected 0 in two dimensions (particles.dimensions)",
        ),
        (
            stated("dimensions=2"),
            3,
            "the file has 2 dimensions, expected 3 as in the case (particles.dimensions)",
        ),
        (stated("units=real"), 3, "the system of units of the file is 'real', expected 'lj' as in the case"),
        (
            stated("units=lj unit_length=nm"),
            3,
            "the unit of length of the file is 'nm', expected '' as in the case",
        ),
    ];
    for (content, dimensions, expected) in files {
        dir.write("plane.xyz", content);
        let case = of_file("plane.xyz").replace(".xyz\"\n", &format!(".xyz\"\ndimensions = {dimensions}\n"));
        dir.write("file.toml", case);
        let expected = format!("file.toml:2:8: plane.xyz: {expected}");
        check_messages(&dir, &[(&["run", "file.toml", "--quiet", "--out", "out"], &expected)]);
    }
    dir.write("file.toml", of_file("nowhere.data"));
    let expected =
        "file.toml:2:8: particles.file = \"nowhere.data\" does not exist, expected a file of particles";
    check_messages(&dir, &[(&["run", "file.toml", "--quiet", "--out", "out"], expected)]);
}

/// Particles that move too far in a step end the run with an error and a file.
#[test]
fn an_exploding_fluid_names_the_particle_and_the_step() {
    let dir = TestDir::new();
    dir.write("fluid.toml", CASE);
    let arguments =
        ["run", "fluid.toml", "--quiet", "--out", "out", "--set", "time.step=0.1", "--set", "time.end=30"];
    let output = dir.orrery(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    for part in [
        "error: step ",
        ": particle ",
        "would move beyond its neighbours in one step",
        "are in out/post-mortem.gsd\n",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let particles =
        orrery_formats::read_fluid(&dir.path("out/post-mortem.gsd"), &orrery_formats::Limits::default());
    assert_eq!(particles.unwrap().id.len(), 256);
}
