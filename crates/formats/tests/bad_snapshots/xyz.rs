//! Invalid extended XYZ files.

use super::{BadFile, bad};

const HEAD: &str = "Properties=pos:R:3:vel:R:3:mass:R:1";
const BODY: &str = "1 2 3 0 0 0 1\n";

fn xyz(text: &str, message: &'static str) -> BadFile {
    bad("s.xyz", text.replace("HEAD", HEAD).replace("BODY\n", BODY), message)
}

pub fn all() -> Vec<BadFile> {
    let long = format!("1\n{}\n", "x".repeat((4 << 20) + 5000));
    let names: String = (0..2000).map(|k| format!(" n{k}=1")).collect();
    let columns = "x:R:600:".repeat(2);
    vec![
        bad("s.xyz", "", "the file is empty, expected a snapshot"),
        bad("s.xyz", [0xff; 3], "line 1: got no newline at its end, expected a whole line"),
        bad(
            "s.dat",
            "three\nbodies\n",
            "byte 0: got unknown content, expected a GADGET (HDF5 or binary), extended XYZ or NPZ file",
        ),
        xyz("\n", "line 1: got '', expected the number of bodies"),
        xyz("-1\nHEAD\n", "line 1: got '-1', expected the number of bodies"),
        xyz("1.5\nHEAD\nBODY\n", "line 1: got '1.5', expected the number of bodies"),
        xyz("one\nHEAD\nBODY\n", "line 1: got 'one', expected the number of bodies"),
        xyz("1 1\nHEAD\nBODY\n", "line 1: got '1 1', expected the number of bodies"),
        xyz("\u{1}\u{7}\nHEAD\nBODY\n", "line 1: got '??', expected the number of bodies"),
        xyz("1", "line 1: got no newline at its end, expected a whole line"),
        xyz("1\n", "line 2: got end of file, expected a line with Properties="),
        xyz("1\nHEAD", "line 2: got no newline at its end, expected a whole line"),
        xyz("1\nHEAD\n", "line 3: got end of file, expected 1 body, found 0"),
        xyz("1\nHEAD\n1 2 3 0 0 0", "line 3: got 6 columns, expected 7"),
        xyz("2\nHEAD\nBODY\n", "line 4: got end of file, expected 2 bodies, found 1"),
        xyz(
            "0\nHEAD\nBODY\n",
            "line 3: got another line, expected the end of the file after 0 bodies, since a file contains one snapshot",
        ),
        xyz(
            "1\nHEAD\nBODY\nBODY\n",
            "line 4: got another line, expected the end of the file after 1 body, since a file contains one snapshot",
        ),
        xyz(
            "1\nHEAD\nBODY\n\n1\nHEAD\nBODY\n",
            "line 5: got another line, expected the end of the file after 1 body, since a file contains one snapshot",
        ),
        xyz("1\nHEAD\n\n", "line 3: got 0 columns, expected 7"),
        xyz("1\nHEAD\n1 2 3 0 0 0\n", "line 3: got 6 columns, expected 7"),
        xyz("1\nHEAD\n1 2 3 0 0 0 1 1\n", "line 3: got 8 columns, expected 7"),
        xyz("1\nHEAD\n1 2 x 0 0 0 1\n", "line 3: got 'x' in column 3, expected a number"),
        xyz("1\nHEAD\n1 2 3 0 0,5 0 1\n", "line 3: got '0,5' in column 5, expected a number"),
        xyz("1\nHEAD\n1 2 3 0 0 0 heavy\n", "line 3: got 'heavy' in column 7, expected a number"),
        xyz("1\nHEAD:id:I:1\n1 2 3 0 0 0 1 -7\n", "line 3: got '-7' in column 8, expected an integer >= 0"),
        xyz(
            "1\nHEAD:id:I:1\n1 2 3 0 0 0 1 18446744073709551616\n",
            "line 3: got '18446744073709551616' in column 8, expected an integer >= 0",
        ),
        xyz("1\nHEAD Time=soon\nBODY\n", "line 2, Time: got 'soon', expected a number"),
        xyz("1\nHEAD Step=-1\nBODY\n", "line 2, Step: got '-1', expected an integer"),
        xyz("1\nHEAD Step=1.5\nBODY\n", "line 2, Step: got '1.5', expected an integer"),
        xyz(
            "1\nHEAD units=feet\nBODY\n",
            "line 2, units: got 'feet', expected nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'",
        ),
        xyz(
            "1\nHEAD units=\"custom 0e0 m 1e0 kg 1e0 s\"\nBODY\n",
            "line 2, units: got 'custom 0e0 m 1e0 kg 1e0 s', expected nbody, galactic, solar or 'custom LENGTH m MASS kg TIME s'",
        ),
        xyz(
            "1\nTime=1\nBODY\n",
            "line 2, Properties: got 'nothing', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(
            "1\nProperties=pos:R:3:vel:R\nBODY\n",
            "line 2, Properties: got 'pos:R:3:vel:R', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(
            "1\nProperties=pos:R:3:vel:R:3\nBODY\n",
            "line 2, Properties: got 'pos:R:3:vel:R:3' without one 'mass', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(
            "1\nHEAD:pos:R:3\nBODY\n",
            "line 2, Properties: got 'pos:R:3:vel:R:3:mass:R:1:pos:R:3' without one 'pos', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(
            "1\nHEAD:x:R:0\nBODY\n",
            "line 2, Properties: got 'pos:R:3:vel:R:3:mass:R:1:x:R:0', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(
            "1\nHEAD:x:R:-1\nBODY\n",
            "line 2, Properties: got 'pos:R:3:vel:R:3:mass:R:1:x:R:-1', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(
            &format!("1\nHEAD:{columns}\nBODY\n"),
            "line 2, Properties: got 'pos:R:3:vel:R:3:mass:R:1:x:R:600:x:R:600', expected species:S:1:pos:R:3:vel:R:3:mass:R:1:id:I:1:Z:I:1",
        ),
        xyz(&format!("1\nHEAD{names}\nBODY\n"), "line 2: got 1025 names, expected at most 1000"),
        xyz(&long, "line 2: got a longer line, expected at most 4198400 bytes"),
        xyz(
            "2147483648\nHEAD\nBODY\n",
            "line 1: got 2147483648 bodies, expected no more than fit into a file of 61 bytes",
        ),
        xyz(
            "9223372036854775808\nHEAD\nBODY\n",
            "line 1: got 9223372036854775808 bodies, expected no more than fit into a file of 70 bytes",
        ),
        xyz(
            "18446744073709551615\nHEAD\nBODY\n",
            "line 1: got 18446744073709551615 bodies, expected no more than fit into a file of 71 bytes",
        ),
        xyz(
            "18446744073709551616\nHEAD\nBODY\n",
            "line 1: got '18446744073709551616', expected the number of bodies",
        ),
        xyz(
            &format!("20000\nHEAD\n{}", BODY.repeat(20_000)),
            "20000 bodies need 1.2 MiB of memory, the limit is 1.0 MiB",
        ),
    ]
}
