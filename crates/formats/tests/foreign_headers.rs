//! Headers of other programs: cosmology, periodic boxes, gas, and units in part.

use std::path::PathBuf;

use crate::common::read_unlimited;
use hdf5_pure::{AttrValue, FileBuilder};
use orrery_formats::{Comoving, Limits, Snapshot, describe_snapshot, read_snapshot_as};
use orrery_model::{Species, Units};

/// Attributes of one group.
type Group<'a> = (&'a str, &'a [(&'a str, AttrValue)]);

/// A GADGET HDF5 file in a temporary folder: two gas bodies with individual masses and one halo
/// body with the mass of the table. `exponents` are attributes of Coordinates.
struct TestFile {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl TestFile {
    fn new(groups: &[Group<'_>], exponents: &[(&str, f64)]) -> Self {
        let mut builder = FileBuilder::new();
        let no_header: Group<'_> = ("Header", &[]);
        let header = groups.iter().find(|(name, _)| *name == "Header").unwrap_or(&no_header);
        let mut group = builder.create_group("Header");
        group.set_attr("NumPart_ThisFile", AttrValue::U32Array(vec![2, 1, 0, 0, 0, 0]));
        group.set_attr("MassTable", AttrValue::F64Array(vec![0.0, 3.0, 0.0, 0.0, 0.0, 0.0]));
        for (name, value) in header.1 {
            group.set_attr(name, value.clone());
        }
        builder.add_group(group.finish());
        for (name, attributes) in groups.iter().filter(|(name, _)| *name != "Header") {
            let mut group = builder.create_group(name);
            for (name, value) in *attributes {
                group.set_attr(name, value.clone());
            }
            builder.add_group(group.finish());
        }
        for (name, n) in [("PartType0", 2u64), ("PartType1", 1)] {
            let mut group = builder.create_group(name);
            let dataset = group.create_dataset("Coordinates").with_f64_data(&vec![8.0; 3 * n as usize]);
            let dataset = dataset.with_shape(&[n, 3]);
            for (name, value) in exponents {
                dataset.set_attr(name, AttrValue::F64(*value));
            }
            group.create_dataset("Velocities").with_f64_data(&vec![6.0; 3 * n as usize]).with_shape(&[n, 3]);
            if n == 2 {
                group.create_dataset("Masses").with_f64_data(&[1.0, 2.0]).with_shape(&[2]);
                group.create_dataset("InternalEnergy").with_f64_data(&[5.0, 5.0]).with_shape(&[2]);
            }
            builder.add_group(group.finish());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.hdf5");
        std::fs::write(&path, builder.finish().unwrap()).unwrap();
        Self { _folder: folder, path }
    }

    fn with_header(attributes: &[(&str, f64)]) -> Self {
        let attributes: Vec<_> = attributes.iter().map(|&(name, v)| (name, AttrValue::F64(v))).collect();
        Self::new(&[("Header", &attributes)], &[])
    }

    fn error(&self) -> String {
        let message = read_unlimited(&self.path).expect_err("the file should be refused").to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message.rsplit_once("s.hdf5: ").unwrap().1.to_owned()
    }

    fn read(&self) -> Snapshot {
        read_unlimited(&self.path).unwrap()
    }

    fn read_as(&self, comoving: Comoving) -> Snapshot {
        read_snapshot_as(&self.path, &Limits::unbounded(), comoving).unwrap()
    }
}

/// a = 1/4 and h = 1/2, so that all factors are exact.
const COSMOLOGICAL: [(&str, f64); 5] =
    [("Time", 0.25), ("Redshift", 3.0), ("Omega0", 0.3), ("HubbleParam", 0.5), ("BoxSize", 100.0)];

#[test]
fn cosmological_snapshot_is_refused_with_its_fields() {
    let message = TestFile::with_header(&COSMOLOGICAL).error();
    assert_eq!(
        message,
        "the header is that of a cosmological snapshot (Redshift = 3, Time = 0.25, Omega0 = 0.3, HubbleParam = 0.5, \
         BoxSize = 100), expected physical coordinates in open space; orrery convert --cosmological physical FILE \
         NEW.hdf5, or bodies.cosmological = \"physical\" in a case, converts them, and unchanged keeps the numbers"
    );
    // At redshift 0, and with the flag of GADGET-4 or SWIFT.
    let present = TestFile::with_header(&[("Time", 1.0), ("Redshift", 0.0), ("Omega0", 0.3)]);
    assert!(present.error().contains("(Redshift = 0, Time = 1, Omega0 = 0.3)"));
    for (group, name) in [("Parameters", "ComovingIntegrationOn"), ("Cosmology", "Cosmological run")] {
        let file = TestFile::new(&[(group, &[(name, AttrValue::I32(1))])], &[]);
        assert!(file.error().contains(&format!("({name} = 1)")));
    }
    // Python writes an integer for 1.
    let header: &[_] = &[("Redshift", AttrValue::I64(1))];
    assert!(TestFile::new(&[("Header", header)], &[]).error().contains("(Redshift = 1)"));
}

/// Parameter files of isolated galaxies often have a matter density and a Hubble parameter.
#[test]
fn isolated_galaxy_with_cosmological_parameters_is_read_with_warnings() {
    let file =
        TestFile::with_header(&[("Time", 0.5), ("Redshift", 0.0), ("Omega0", 0.3), ("HubbleParam", 0.7)]);
    let snapshot = file.read();
    assert_eq!((snapshot.time, snapshot.particles.position.x[0]), (0.5, 8.0));
    assert!(
        snapshot.warnings()[1]
            .starts_with("Hubble parameter: HubbleParam = 0.7, values may be in units of 1/h")
    );
    let flag: &[_] = &[("ComovingIntegrationOn", AttrValue::I32(0))];
    let header: &[_] = &[("Time", AttrValue::F64(1.0)), ("Omega0", AttrValue::F64(0.3))];
    assert_eq!(TestFile::new(&[("Header", header), ("Parameters", flag)], &[]).read().time, 1.0);
}

#[test]
fn conversion_to_physical_coordinates() {
    let file = TestFile::with_header(&COSMOLOGICAL);
    let physical = file.read_as(Comoving::ToPhysical);
    // Factors: a / h = 1/2, sqrt(a) = 1/2, 1 / h = 2.
    assert_eq!(physical.particles.position.z, [4.0; 3]);
    assert_eq!(physical.particles.velocity.y, [3.0; 3]);
    assert_eq!(physical.particles.mass, [2.0, 4.0, 6.0]);
    assert_eq!(physical.time, 0.0);
    let (name, text) = &physical.provenance[0];
    assert_eq!(name, "cosmology");
    assert!(text.starts_with("converted to physical coordinates") && text.contains("Redshift = 3"), "{text}");

    let unchanged = file.read_as(Comoving::Unchanged);
    assert_eq!((unchanged.particles.position.x[0], unchanged.particles.mass[2]), (8.0, 3.0));
    assert_eq!(unchanged.time, 0.25);

    // A written file is physical, so that it is read without an option.
    let path = file.path.with_extension("npz");
    let hdf5 = file.path.with_file_name("new.hdf5");
    for path in [path, hdf5] {
        orrery_formats::write_snapshot(&path, &physical).unwrap();
        assert_eq!(read_unlimited(&path).unwrap().particles, physical.particles);
    }
}

/// SWIFT has no factor h, which the attributes of the dataset say.
#[test]
fn exponents_of_a_dataset_replace_those_of_gadget() {
    let header: Vec<_> = COSMOLOGICAL.iter().map(|&(name, v)| (name, AttrValue::F64Array(vec![v]))).collect();
    for (a, h) in [("a-scale exponent", "h-scale exponent"), ("a_scaling", "h_scaling")] {
        let file = TestFile::new(&[("Header", &header)], &[(a, 1.0), (h, 0.0)]);
        let physical = file.read_as(Comoving::ToPhysical);
        assert_eq!((physical.particles.position.x[0], physical.particles.velocity.x[0]), (2.0, 3.0));
    }
}

#[test]
fn gas_and_periodic_boxes_give_warnings() {
    let file = TestFile::with_header(&[("BoxSize", 50.0)]);
    let expected = [
        "2 gas particles are treated as collisionless, since there is no hydrodynamics",
        "periodic box: BoxSize = 50, but forces are not periodic",
    ];
    assert_eq!(file.read().warnings(), expected);
    let found = describe_snapshot(&file.path, &Limits::unbounded()).unwrap();
    assert_eq!(found.warnings, expected);
    // `info` describes a cosmological file.
    let file = TestFile::with_header(&COSMOLOGICAL);
    let found = describe_snapshot(&file.path, &Limits::unbounded()).unwrap();
    let text = &found.provenance[0].1;
    assert!(text.starts_with("comoving numbers at expansion factor 0.25, unchanged: Redshift = 3"), "{text}");
    assert_eq!((found.expansion_factor, file.read_as(Comoving::ToPhysical).time), (Some(0.25), 0.0));
    // SWIFT has a time and the redshift.
    let swift = TestFile::with_header(&[("Redshift", 3.0), ("Time", 0.0123)]);
    assert_eq!(describe_snapshot(&swift.path, &Limits::unbounded()).unwrap().expansion_factor, Some(0.25));

    for (comment, is_periodic) in [
        ("pbc=\"F F F\"", false),
        ("pbc=\"T T T\"", true),
        ("Lattice=\"1 0 0 0 1 0 0 0 1\"", true),
        ("Lattice=\"1 0 0 0 1 0 0 0 1\" pbc=\"F F F\"", false),
    ] {
        let path = file.path.with_extension("xyz");
        let text = format!("1\nProperties=pos:R:3:vel:R:3:mass:R:1 units=nbody {comment}\n1 2 3 0 0 0 1\n");
        std::fs::write(&path, text).unwrap();
        let warnings = read_unlimited(&path).unwrap().warnings();
        assert_eq!(warnings.len(), usize::from(is_periodic), "{comment}: {warnings:?}");
    }
}

fn units_of(groups: &[Group<'_>]) -> TestFile {
    TestFile::new(groups, &[])
}

/// A header field of another type would be read as absent, and a part of a snapshot as the whole.
#[test]
fn fields_of_another_type_and_parts_of_a_snapshot_are_refused() {
    let error_of = |name: &str, value: AttrValue| TestFile::new(&[("Header", &[(name, value)])], &[]).error();
    for name in ["Time", "Redshift", "Omega0", "HubbleParam", "BoxSize", "NumFilesPerSnapshot"] {
        assert_eq!(
            error_of(name, AttrValue::String("soon".to_owned())),
            format!("attribute /Header/{name}: got 'soon', expected a number")
        );
    }
    let totals = |totals: [u32; 6]| AttrValue::U32Array(totals.to_vec());
    assert_eq!(
        error_of("NumPart_Total", totals([2, 4, 0, 0, 0, 0])),
        "attribute /Header/NumPart_Total: got 4 bodies of type 1, expected the 1 of this file: 1 file per snapshot"
    );
    for files in [AttrValue::F64(4.0), AttrValue::U64(4), AttrValue::F64(f64::NAN)] {
        let message = error_of("NumFilesPerSnapshot", files);
        assert!(message.ends_with(", expected 1 file per snapshot"), "{message}");
    }
    for total in [[2, 1, 0, 0, 0, 0], [0; 6]] {
        TestFile::new(&[("Header", &[("NumPart_Total", totals(total))])], &[]).read();
    }
}

#[test]
fn units_are_collected_from_all_groups() {
    let number = AttrValue::F64;
    let length = ("UnitLength_in_cm", number(3.085678e21));
    let mass = ("UnitMass_in_g", number(1.989e43));
    let speed = ("UnitVelocity_in_cm_per_s", number(1e5));
    let file = units_of(&[("Units", &[length.clone(), mass.clone()]), ("Header", &[speed])]);
    assert_eq!(file.read().units, Units::Galactic);
    let file = units_of(&[("Units", &[length, mass, ("UnitTime_in_s", number(3.085678e16))])]);
    assert_eq!(file.read().units, Units::Galactic);
    let gizmo: &[_] = &[
        ("UnitLength_In_CGS", number(3.085678e21)),
        ("UnitMass_In_CGS", number(1.989e43)),
        // An integer, as Python writes it.
        ("UnitVelocity_In_CGS", AttrValue::I64(100_000)),
    ];
    let snapshot = units_of(&[("Header", gizmo)]).read();
    assert_eq!((snapshot.units, snapshot.units_are_assumed()), (Units::Galactic, false));
}

#[test]
fn units_in_part_are_an_error_that_names_the_rest() {
    let length = ("UnitLength_in_cm", AttrValue::F64(3.085678e21));
    let mass = ("UnitMass_in_g", AttrValue::F64(1.989e43));
    let file = units_of(&[("Units", &[length, mass.clone()])]);
    assert_eq!(
        file.error(),
        "units: got only /Units/UnitLength_in_cm = 3.085678e21 and /Units/UnitMass_in_g = 1.989e43, expected \
         UnitVelocity_in_cm_per_s as well; with h5py, f = h5py.File(FILE, 'r+'); \
         f.require_group('Units').attrs['UnitVelocity_in_cm_per_s'] = 1e5"
    );
    let message = units_of(&[("Header", &[mass])]).error();
    assert!(
        message.contains(
            "only /Header/UnitMass_in_g = 1.989e43, expected UnitLength_in_cm and UnitVelocity_in_cm_per_s"
        ),
        "{message}"
    );
    let text =
        units_of(&[("Units", &[("UnitLength_in_cm", AttrValue::VarLenString("kpc".to_owned()))])]).error();
    assert_eq!(text, "attribute /Units/UnitLength_in_cm: got 'kpc', expected a finite number > 0");
}

/// Adds a type of particles: positions, velocities and masses of n bodies. `masses` is the name of
/// the dataset.
fn add_type(builder: &mut FileBuilder, kind: usize, n: u64, masses: Option<&str>) {
    let mut group = builder.create_group(&format!("PartType{kind}"));
    let values: Vec<f64> = (0..3 * n).map(|k| (10 * kind) as f64 + k as f64).collect();
    group.create_dataset("Coordinates").with_f64_data(&values).with_shape(&[n, 3]);
    group.create_dataset("Velocities").with_f64_data(&values).with_shape(&[n, 3]);
    if let Some(name) = masses {
        group.create_dataset(name).with_f64_data(&vec![kind as f64 + 0.5; n as usize]).with_shape(&[n]);
    }
    builder.add_group(group.finish());
}

fn file_with_types(
    counts: &[u64],
    table: &[f64],
    masses: impl Fn(usize) -> Option<&'static str>,
) -> TestFile {
    let mut builder = FileBuilder::new();
    let mut header = builder.create_group("Header");
    header.set_attr("NumPart_ThisFile", AttrValue::U64Array(counts.to_vec()));
    header.set_attr("NumPart_Total", AttrValue::U64Array(counts.to_vec()));
    header.set_attr("MassTable", AttrValue::F64Array(table.to_vec()));
    header.set_attr("Time", AttrValue::F64Array(vec![0.5]));
    builder.add_group(header.finish());
    for (kind, &n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        add_type(&mut builder, kind, n, masses(kind));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.hdf5");
    std::fs::write(&path, builder.finish().unwrap()).unwrap();
    TestFile { _folder: folder, path }
}

/// SWIFT has seven types: 3 are sinks, 4 stars, 5 black holes, whose masses have another name, and
/// 6 neutrinos.
#[test]
fn files_of_swift_with_seven_types_are_read() {
    let masses = |kind| Some(if kind == 5 { "DynamicalMasses" } else { "Masses" });
    let file = file_with_types(&[2, 1, 0, 0, 1, 1, 3], &[0.0; 7], masses);
    let snapshot = file.read();
    let bodies = &snapshot.particles;
    use Species::{Boundary, Gas, Halo, Stars};
    assert_eq!(bodies.species, [Gas, Gas, Halo, Stars, Boundary, Halo, Halo, Halo]);
    assert_eq!(bodies.mass, [0.5, 0.5, 1.5, 4.5, 5.5, 6.5, 6.5, 6.5]);
    assert_eq!((bodies.position.x[5], bodies.id.len(), snapshot.time), (60.0, 8, 0.5));
    let expected = "other types: 3 bodies of type 6 read as halo, a collisionless species";
    assert!(snapshot.warnings().contains(&expected.to_owned()), "{:?}", snapshot.warnings());
    let without_others = file_with_types(&[2, 1, 0, 0, 1, 1, 0], &[0.0; 7], masses).read();
    assert!(!without_others.warnings().iter().any(|warning| warning.contains("type")));
}

/// The number of types of GADGET-4 is an option of its build.
#[test]
fn files_of_gadget_4_have_any_number_of_types() {
    let of_file = |_| Some("Masses");
    let two = file_with_types(&[0, 4], &[0.0, 0.25], of_file).read().particles;
    assert_eq!((two.species, two.mass), (vec![Species::Halo; 4], vec![0.25; 4]));
    let nine = file_with_types(&[1, 0, 0, 0, 0, 0, 0, 2, 1], &[0.0; 9], of_file).read();
    assert_eq!(nine.particles.species, [Species::Gas, Species::Halo, Species::Halo, Species::Halo]);
    assert!(nine.warnings()[1].contains("2 bodies of type 7, 1 body of type 8 read as halo"));
    let error = |counts: &[u64], table: &[f64]| file_with_types(counts, table, of_file).error();
    assert_eq!(error(&[0, 1], &[0.0; 6]), "attribute /Header/MassTable has 6 entries, expected 2");
    assert_eq!(
        error(&[1; 33], &[0.0; 33]),
        "attribute /Header/NumPart_ThisFile: got 33 numbers, expected one for each of 1 to 32 types"
    );
}
