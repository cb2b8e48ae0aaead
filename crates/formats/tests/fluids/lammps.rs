//! Data files of LAMMPS: forms that are read, next to forms that are refused.

use orrery_formats::FluidFile;
use orrery_model::simulation_box::SimulationBox;

use super::read_unlimited;

fn read(text: &str) -> Result<FluidFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.data");
    std::fs::write(&path, text).unwrap();
    let label = format!("{}: ", path.display());
    read_unlimited(&path).map_err(|message| message.strip_prefix(&label).unwrap().to_owned())
}

const HEADER: &str = "title\n\n2 atoms\n2 atom types\n-1 3 xlo xhi\n0 5 ylo yhi\n0.5 6.5 zlo zhi\n";

#[track_caller]
fn assert_error(body: &str, expected: &str) {
    assert_eq!(read(&format!("{HEADER}{body}")).unwrap_err(), expected);
}

#[test]
fn all_sections_are_read() {
    let text = "LAMMPS data file via write_data, timestep = 1200, units = lj\n\n\
        3 atoms # a comment\n2 atom types\n0 bonds\n1 bond types\n2 extra bond per atom\n\
        0 4 xlo xhi\n0 5 ylo yhi\n-3.0 3.0 zlo zhi\n0 0 0 xy xz yz\n\n\
        Masses\n\n1 39.948 # Ar\n2 1e2\n\nPair Coeffs # lj/cut\n\n1 1 1\n2 1 1\n\nPairIJ Coeffs\n\n1 1 2 3\n\n\
        Atoms # atomic\n\n7 2 0.5 1 -1 0 0 -2\n3 1 1.5 1 -1 1 0 0\n5 1 2.5 1 1e-1 0 0 0\n\n\
        Velocities\n\n3 1 0 0\n5 0 2 0\n7 0 0 -3\n";
    let read = read(text).unwrap();
    let bounds = SimulationBox::periodic([4.0, 5.0, 6.0], 3);
    assert_eq!(read.bounds, SimulationBox { origin: [0.0, 0.0, -3.0], ..bounds });
    assert_eq!((read.id, read.species), (vec![7, 3, 5], vec![1, 0, 0]));
    assert_eq!(read.coordinates.get(2), [2.5, 1.0, 0.1]);
    let velocity: Vec<[f64; 3]> = read.velocity.unwrap().iter().collect();
    assert_eq!(velocity, [[0.0, 0.0, -3.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]);
    assert_eq!(read.image, Some([vec![0, 1, 0], vec![0; 3], vec![-2, 0, 0]]));
    assert_eq!((read.mass, read.species_names), (Some(vec![39.948, 100.0]), vec!["1".into(), "2".into()]));
    assert_eq!((read.step, read.time), (Some(1200), None));
}

#[test]
fn styles_are_read() {
    for (style, atoms) in [
        ("", "1 1 1 2 3\n2 2 4 5 6\n"),
        ("", "1 1 1 2 3 0 0 0\n2 2 4 5 6 0 0 0\n"),
        (" # atomic", "1 1 1 2 3\n2 2 4 5 6\n"),
        (" # charge", "1 1 -0.5 1 2 3\n2 2 0.5 4 5 6\n"),
        (" # molecular", "1 9 1 1 2 3\n2 9 2 4 5 6 # comment\n"),
        ("  #  full", "1 9 1 0.5 1 2 3\n\n2 9 2 0.5 4 5 6"),
        (" # sphere", "1 1 1.0 1.0 1 2 3 0 0 0\n2 2 1.0 1.0 4 5 6 0 0 0\n"),
    ] {
        let read = read(&format!("{HEADER}\nAtoms{style}\n\n{atoms}")).unwrap();
        assert_eq!(
            read.coordinates.iter().collect::<Vec<_>>(),
            [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
            "{style}"
        );
        assert_eq!((read.id, read.species, read.velocity), (vec![1, 2], vec![0, 1], None), "{style}");
        let has_charges = style.contains("charge") || style.contains("full");
        let expected: &[&str] = if has_charges { &["2 charges"] } else { &[] };
        assert_eq!(read.ignored, expected, "{style}");
    }
    assert_error("Atoms # dipole\n\n1 1 1 2 3\n", STYLE);
    assert_error(
        "Atoms\n\n1 1 0.5 1 2 3\n",
        "line 10: got 6 columns, expected the style after the title: 'Atoms # charge'",
    );
    assert_error("Atoms # full\n\n1 1 1 2 3\n", "line 10: got 5 columns, expected 7, or 10 with an image");
    assert_error(
        "Atoms\n\n1 1 1 2 3\n2 1 1 2 3 0 0 0\n",
        "line 11: got 8 columns, expected 5, or 8 with an image",
    );
}

const STYLE: &str = "line 8: got the style 'dipole', expected one of atomic, charge, bond, angle, molecular, \
    full and sphere";

#[test]
fn labels_name_the_species() {
    let labels = "Atom Type Labels\n\n2 Kr\n1 Ar\n\n";
    let rest = "Masses\n\nAr 40\nKr 84\n\nPair Coeffs\n\nAr 1 1\nKr 1 1\n\nAtoms\n\n1 Kr 1 2 3\n2 1 4 5 6\n";
    let file = read(&format!("{HEADER}{labels}{rest}")).unwrap();
    assert_eq!((file.species_names, file.species), (vec!["Ar".into(), "Kr".into()], vec![1, 0]));
    assert_eq!(file.mass, Some(vec![40.0, 84.0]));
    assert_error(
        "Masses\n\n1 1\n2 1\n\nAtom Type Labels\n\n1 Ar\n2 Kr\n",
        "line 13: got 'Atom Type Labels', expected labels before Masses and Atoms",
    );
    assert_error(
        "Atom Type Labels\n\n1 Ar\n2 Ar\n",
        "line 11: got '2 Ar', expected each type and each label once",
    );
    assert_error(
        "Atom Type Labels\n\n3 Ar\n",
        "line 10: got '3 Ar', expected a type from 1 to 2 and a label that starts with a letter",
    );
}

#[test]
fn errors_name_the_line() {
    let atoms = "Atoms\n\n1 1 1 2 3\n2 1 4 5 6\n";
    assert!(read(&format!("{HEADER}{atoms}")).is_ok());
    assert_error("", "content: got no section Atoms, expected positions");
    assert_error("Atoms\n\n1 1 1 2 3\n", "line 11: got end of file, expected 2 lines in Atoms, found 1");
    assert_error(
        "Atoms\n\n1 1 1 2 3\nVelocities\n",
        "line 11: got 'Velocities', expected 2 lines in Atoms, found 1",
    );
    assert_error(
        &format!("{atoms}3 1 1 1 1\n"),
        "line 12: got '3 1 1 1 1', expected Masses, Atoms, Velocities, Atom Type Labels or Coeffs",
    );
    assert_error(&format!("{atoms}{atoms}"), "line 12: got 'Atoms', expected each section once");
    assert_error("Atoms\n\n1 3 1 2 3\n", "line 10: got the type '3', expected a type from 1 to 2 or a label");
    assert_error("Atoms\n\n-1 1 1 2 3\n", "line 10: got '-1', expected an id >= 0");
    assert_error("Atoms\n\n1 1 1 nan 3\n", "line 10: got '1 1 1 nan 3', expected 3 numbers");
    assert_error("Atoms\n\n1 1 1 2 3 0 0 x\n", "line 10: got 'x', expected the number of an image");
    assert_error("Atoms\n\n1 1 1 2 3\n1 1 4 5 6\n", "ids: got 1 twice, expected each id once");
    assert_error("Velocities\n\n", "line 8: got 'Velocities', expected Atoms before Velocities");
    assert_error(
        &format!("{atoms}Velocities\n\n1 0 0 0\n3 0 0 0\n"),
        "line 15: got the id '3', expected an id of Atoms",
    );
    assert_error(
        &format!("{atoms}Velocities\n\n1 0 0 0\n1 0 0 0\n"),
        "line 15: got the id '1' twice, expected each id once",
    );
    assert_error(&format!("{atoms}Velocities\n\n1 0 0\n"), "line 14: got '1 0 0', expected 3 numbers");
    assert_error("Masses\n\n1 1\n1 2\n", "line 11: got '1 2', expected each type once");
    assert_error("Masses\n\n1 -1\n", "line 10: got '1 -1', expected a type and its mass > 0");
    assert_error("Bonds\n\n1 1 1 2\n", "line 8: got 'Bonds', expected particles without bonds or shapes");
    assert_error(
        "Surprise\n\n1\n",
        "line 8: got 'Surprise', expected Masses, Atoms, Velocities, Atom Type Labels or Coeffs",
    );
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let sides = "0 4 xlo xhi\n0 5 ylo yhi\n0 6 zlo zhi\n";
    let error = |text: String| read(&text).unwrap_err();
    let atoms = "\nAtoms\n\n1 1 1 2 3\n";
    assert!(read(&format!("t\n1 atoms\n1 atom types\n{sides}{atoms}")).is_ok());
    assert_eq!(
        error(format!("t\n1 atoms\n1 atom types\n{sides}0.5 0 0 xy xz yz\n{atoms}")),
        "line 7: got '0.5 0 0 xy xz yz', expected the tilt factors 0 0 0: a box with right angles"
    );
    assert_eq!(
        error(format!("t\n1 atoms\n1 atom types\n1 0 0 avec\n{atoms}")),
        "line 4: got '1 0 0 avec', expected xlo xhi, ylo yhi and zlo zhi: a box with right angles"
    );
    assert_eq!(
        error(format!("t\n1 atoms\n3 bonds\n1 atom types\n{sides}{atoms}")),
        "line 3: got '3 bonds', expected 0: particles without bonds or shapes"
    );
    assert_eq!(
        error(format!("t\n1 atoms\n1 atom kinds\n{sides}{atoms}")),
        "line 3: got '1 atom kinds', expected a line of the header, such as '100 atoms', or a section"
    );
    assert_eq!(error(format!("t\n1 atom types\n{sides}")), "header: got no line with it, expected 'atoms'");
    assert_eq!(error("t\n1 atoms\n1 atom types\n".into()), "header: got no line with it, expected 'xlo xhi'");
    assert_eq!(error(format!("t\n-1 atoms\n{sides}")), "line 2: got '-1 atoms', expected an integer >= 0");
    assert_eq!(
        error(format!("t\n1 atoms\n1 atom types\n0 xlo xhi\n{atoms}")),
        "line 4: got '0 xlo xhi', expected 2 numbers"
    );
    assert_eq!(
        error(format!("t\n1 atoms\n300 atom types\n{sides}{atoms}")),
        "header: got 300 atom types, expected at most 256"
    );
    assert_eq!(
        error(format!("t\n1000 atoms\n1 atom types\n{sides}{atoms}")),
        "header: got 1000 atoms, expected no more than fit into a file of 80 bytes"
    );
    assert_eq!(
        error(format!("t\n1 atoms\n1 atom types\n{}{atoms}", sides.replace("0 5 ylo", "5 5 ylo"))),
        "the box has the length 0e0 along y, expected 1e-100 to 1e100"
    );
}

/// A file with another extension is recognised by the line with the number of atoms.
#[test]
fn content_selects_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("start");
    std::fs::write(&path, format!("{HEADER}Atoms\n\n1 1 1 2 3\n2 1 4 5 6\n")).unwrap();
    assert_eq!(read_unlimited(&path).unwrap().id, [1, 2]);
    std::fs::write(&path, "some text\nand more\n").unwrap();
    let message = read_unlimited(&path).unwrap_err();
    assert!(
        message.ends_with("byte 0: got unknown content, expected a GSD, extended XYZ or LAMMPS data file")
    );
}
