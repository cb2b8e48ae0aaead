//! Names and files of others cannot control the terminal or forge lines.

use std::process::Output;

use orrery_formats::{FieldValues, write_field_vti};
use orrery_model::grid::Grid;

use crate::common::{PAIR, TestDir, from_file, run_arguments, text};

/// Changes the title of the window and the colour, moves the cursor, reverses the order of letters.
const HOSTILE: &str = "\u{1b}]0;title\u{7}\u{1b}[31m\u{9b}2J\u{202e}\u{2066}\u{8}";

/// Returns the output of a command on both streams. Panics if it contains control characters.
#[track_caller]
fn clean_output_of(dir: &TestDir, arguments: &[&str]) -> (Output, String) {
    let output = dir.orrery(arguments);
    let all = text(&output.stdout) + &text(&output.stderr);
    let is_hostile = |c: char| (c.is_control() && c != '\n') || HOSTILE.contains(c) && !c.is_ascii();
    assert!(!all.contains(is_hostile), "{arguments:?}: {all:?}");
    (output, all)
}

/// Returns the line of an error.
#[track_caller]
fn clean_error_of(dir: &TestDir, arguments: &[&str]) -> String {
    let (output, all) = clean_output_of(dir, arguments);
    assert!(!output.status.success(), "{arguments:?}: {all}");
    assert!(all.starts_with("error: ") && all.lines().count() == 1, "{arguments:?}: {all}");
    all
}

#[test]
fn texts_in_a_file_of_bodies_are_escaped() {
    let dir = TestDir::new();
    let comment = format!(" name{HOSTILE}=value{HOSTILE} title=\"{HOSTILE}\"\n");
    dir.write("pair.xyz", PAIR.replacen(" units=nbody\n", &format!(" units=nbody{comment}"), 1));
    let (output, all) = clean_output_of(&dir, &["info", "pair.xyz"]);
    assert!(
        output.status.success() && all.contains("title      \\u001b]0;title\\u0007\\u001b[31m\\u009b2J"),
        "{all}"
    );
    // An unknown column, an unknown type, and a number with other characters.
    for (from, to) in [
        (":mass:R:1", format!(":mass{HOSTILE}:R:1")),
        (":mass:R:1", format!(":mass:{HOSTILE}:1")),
        ("0 0 3 10", format!("0 0 3{HOSTILE} 10")),
    ] {
        dir.write("bad.xyz", PAIR.replacen(from, &to, 1));
        clean_error_of(&dir, &["forces", "bad.xyz"]);
    }
}

#[test]
fn names_of_files_are_escaped() {
    let dir = TestDir::new();
    let hostile = format!("a{HOSTILE}\nerror: forged\nb");
    let name = format!("{hostile}.xyz");
    let message = clean_error_of(&dir, &["info", &name]);
    assert!(message.contains("\\u009b2J\\u202e\\u2066\\u0008\\nerror: forged\\nb.xyz"), "{message}");
    dir.write(&name, PAIR);
    let (output, all) = clean_output_of(&dir, &["info", &name]);
    assert!(output.status.success() && !all.contains("\nerror: "), "{all}");
    clean_error_of(&dir, &["convert", &name, &format!("{hostile}/new.hdf5")]);
    let case = format!("{hostile}.toml");
    dir.write(&case, from_file("pair.xyz"));
    dir.write("pair.xyz", PAIR);
    let sets = ["image.size=64", "output.image_every=0", "bodies.wrong=1"];
    clean_error_of(&dir, &run_arguments(&case, "out", &sets));
    clean_error_of(&dir, &["run", &case, &format!("--{HOSTILE}")]);
    let (output, all) = clean_output_of(&dir, &["run", &case, "--out", "out", "--set", "image.size=64"]);
    assert!(output.status.success() && !all.contains("\nerror: "), "{all}");
    let log = dir.text("out/run.log");
    assert!(!log.contains(|c: char| c.is_control() && c != '\n') && !log.contains('\u{202e}'), "{log:?}");
}

#[test]
fn tags_of_image_data_are_escaped() {
    let dir = TestDir::new();
    let grid = Grid { nx: 3, ny: 3, hx: 1.0, hy: 1.0 };
    write_field_vti(&dir.path("plate.vti"), &grid, "temperature", 0.5, FieldValues::Double(&[0.0; 9]))
        .unwrap();
    let bytes = dir.bytes("plate.vti");
    let replaced = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|piece| piece == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("no {from}"));
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    dir.write("name.vti", replaced("Name=\"temperature\"", &format!("Name=\"{HOSTILE}\"")));
    let (_, all) = clean_output_of(&dir, &["info", "name.vti"]);
    // The reader replaces control characters, and the rest is escaped.
    assert!(all.contains("?[31m?2J\\u202e\\u2066?"), "{all}");
    for (from, to) in [("ImageData", format!("Image{HOSTILE}")), ("Float64", format!("Float{HOSTILE}"))] {
        dir.write("bad.vti", replaced(from, &to));
        clean_error_of(&dir, &["info", "bad.vti"]);
    }
}

/// serde escapes C0 only. The other escapes are of JSON, too.
#[test]
fn json_on_the_terminal_has_the_values_of_the_file() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR.replacen("units=nbody", &format!("units=nbody title=\"{HOSTILE}\""), 1));
    let (output, all) = clean_output_of(&dir, &["info", "--json", "-", "pair.xyz"]);
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {all}"));
    assert_eq!(json["files"][0]["provenance"]["title"], HOSTILE);
}
