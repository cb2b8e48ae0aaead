//! Images of runs: size, view and colours, and films by ffmpeg.

use std::fs;
use std::path::Path;

use crate::common::{TestDir, error_of, run_arguments, text};

const SMALL: [&str; 4] =
    ["bodies.n=300", "time.step=0.0078125", "time.end=0.125", "output.image_every=0.0625"];

/// Returns width and height of a PNG file.
fn png_size(dir: &TestDir, name: &str) -> (u32, u32) {
    let bytes = dir.bytes(name);
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn images_have_the_width_and_height_of_the_case() {
    let dir = TestDir::new();
    let size = "image.size=320x180";
    dir.run("plummer", "bodies", &[&SMALL[..], &[size]].concat());
    let plate = ["grid.nx=17", "grid.ny=17", "time.step=1e-4", "time.end=4e-4", size];
    dir.run("sine-decay", "plate", &plate);
    let source = "wave.source=[{ x = 600, y = 20, wavelet = \"sine\", frequency = 20 }]";
    let receiver = "wave.receivers=[{ x = 610, y = 10 }]";
    let wave = ["time.end=0.02", "output.snapshot_every=0", source, receiver, size];
    dir.run("two-layer-shot", "wave", &wave);
    for out in ["bodies", "plate", "wave"] {
        assert_eq!(png_size(&dir, &format!("{out}/images/image_0000.png")), (320, 180), "{out}");
        let gif = dir.bytes(&format!("{out}/animation.gif"));
        assert_eq!(gif[6..10], [64, 1, 180, 0], "{out}");
    }
}

/// A view that follows the bodies, from any direction, is that of an uninterrupted run after an
/// extension.
#[test]
fn moving_and_rotated_views_are_resumed() {
    let dir = TestDir::new();
    let view = [
        "image.size=300x256",
        "image.center=centre of mass",
        "image.azimuth=40 deg",
        "image.elevation=25 deg",
        "image.colormap=viridis",
    ];
    let sets = [&SMALL[..], &view].concat();
    dir.run("plummer", "whole", &sets);
    dir.run("plummer", "parts", &[&sets[..], &["time.end=0.0625"]].concat());
    dir.stdout_of(&["resume", "parts", "--end", "0.125", "--quiet"]);
    assert!(dir.bytes("whole/animation.gif") == dir.bytes("parts/animation.gif"));
    for name in dir.list("whole/images") {
        let [a, b] = ["whole", "parts"].map(|out| dir.bytes(&format!("{out}/images/{name}")));
        // The text chunks have the time at which each run was started to end.
        assert_eq!(idat(&a), idat(&b), "{name}");
    }
    let case = dir.text("parts/case.toml");
    for line in ["center = \"centre of mass\"", "azimuth = \"40 deg\"", "size = \"300x256\""] {
        assert!(case.contains(line), "{line} in {case}");
    }
    assert!(!case.contains("plane = "), "{case}");
}

/// Returns the compressed pixels of a PNG file.
fn idat(png: &[u8]) -> Vec<u8> {
    let (mut at, mut pixels) = (8, Vec::new());
    while at < png.len() {
        let length = u32::from_be_bytes(png[at..at + 4].try_into().unwrap()) as usize;
        if &png[at + 4..at + 8] == b"IDAT" {
            pixels.extend(&png[at + 8..at + 8 + length]);
        }
        at += 12 + length;
    }
    assert!(!pixels.is_empty());
    pixels
}

#[test]
fn a_center_of_an_absent_species_writes_nothing() {
    let dir = TestDir::new();
    let message = error_of(&dir, &["run", "plummer", "--quiet", "--set", "image.center=bulge"]);
    assert!(
        message
            .starts_with("plummer: image.center = \"bulge\": there are no bodies of this species, expected "),
        "{message}"
    );
    assert!(message.ends_with(" or centre of mass"), "{message}");
    assert!(!dir.path("out").exists());
}

/// A case file with a plane can be viewed from another direction with `--set`, and vice versa.
#[test]
fn set_replaces_the_plane_by_angles() {
    let dir = TestDir::new();
    let body = "bodies.model = \"plummer\"\ntime = { step = 0.01, end = 1 }\n";
    dir.write("plane.toml", format!("{body}image.plane = \"xz\"\n"));
    dir.write("angle.toml", format!("{body}image.elevation = \"30 deg\"\n"));
    let dry_run = |case: &str, set: &str| dir.stdout_of(&["run", case, "--dry-run", "--set", set]);
    let text = dry_run("plane.toml", "image.azimuth=10 deg");
    assert!(
        text.contains("azimuth = \"10 deg\"\nelevation = \"90 deg\"") && !text.contains("plane ="),
        "{text}"
    );
    let text = dry_run("angle.toml", "image.plane=yz");
    assert!(text.contains("plane = \"yz\"") && !text.contains("elevation ="), "{text}");
}

/// Runs a case with `image.animation = "mp4"` and the folder `bin` of the test as `PATH`. Returns
/// standard output and standard error of a run that succeeds.
fn run_film(dir: &TestDir, out: &str) -> (String, String) {
    let sets = [&SMALL[..], &["image.size=65", "image.animation=mp4"]].concat();
    let mut arguments = run_arguments("plummer", out, &sets);
    arguments.retain(|argument| *argument != "--quiet");
    let output = dir.command(&arguments).env("PATH", dir.path("bin")).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(dir.path(out).join("animation.gif").exists());
    let warnings = stderr.lines().filter(|line| line.starts_with("warning: "));
    (text(&output.stdout), warnings.collect::<Vec<_>>().join("\n"))
}

#[cfg(unix)]
fn write_script(dir: &TestDir, lines: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(dir.path("bin")).unwrap();
    dir.write("bin/ffmpeg", format!("#!/bin/sh\n{lines}\n"));
    fs::set_permissions(dir.path("bin/ffmpeg"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn has_unfinished_file(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|e| e == "part"))
}

/// The script stores its arguments and writes its last one, which is the film.
#[cfg(unix)]
#[test]
fn ffmpeg_makes_a_film_of_the_images() {
    let dir = TestDir::new();
    write_script(
        &dir,
        "printf '%s\\n' \"$@\" > \"$0.arguments\"\nfor last; do :; done\necho film > \"$last\"",
    );
    let (stdout, warnings) = run_film(&dir, "out");
    assert_eq!((dir.text("out/animation.mp4"), warnings), ("film\n".to_owned(), String::new()));
    assert!(stdout.contains("out/animation.mp4 "), "{stdout}");
    assert!(!has_unfinished_file(&dir.path("out")));
    let arguments = dir.text("bin/ffmpeg.arguments").lines().collect::<Vec<_>>().join(" ");
    let expected = "-framerate 20 -start_number 0 -i images/image_%04d.png -frames:v 3 -vf pad=ceil(iw/2)*2:ceil(ih/2)*2";
    assert!(arguments.contains(expected), "{arguments}");
    assert!(arguments.ends_with(".part") && arguments.contains(" -f mp4 .animation.mp4."), "{arguments}");
    // A run that replaces this one removes the film.
    let sets = [&SMALL[..], &["image.size=65"]].concat();
    dir.stdout_of(&[&run_arguments("plummer", "out", &sets)[..], &["--force"]].concat());
    assert!(!dir.path("out/animation.mp4").exists());
}

/// The run is complete without the film.
#[cfg(unix)]
#[test]
fn a_failure_of_ffmpeg_is_a_warning() {
    let dir = TestDir::new();
    let lines = "for last; do :; done\necho part > \"$last\"\necho \"Unknown encoder 'libx264'\" >&2\nexit 8";
    write_script(&dir, lines);
    let (stdout, warnings) = run_film(&dir, "out");
    assert_eq!(
        warnings,
        "warning: out/animation.mp4: cannot be encoded: ffmpeg: exit status: 8: Unknown encoder 'libx264'"
    );
    assert!(!dir.path("out/animation.mp4").exists() && !has_unfinished_file(&dir.path("out")));
    assert!(!stdout.contains("animation.mp4"), "{stdout}");
}

#[test]
fn a_film_without_ffmpeg_is_a_warning_at_the_start() {
    let dir = TestDir::new();
    let (stdout, warnings) = run_film(&dir, "out");
    let expected = "warning: ffmpeg is not in PATH: the run writes animation.gif and no animation.mp4; \
                    install ffmpeg, or set image.animation = \"gif\"";
    assert_eq!(warnings, expected);
    assert!(!stdout.contains("animation.mp4") && !dir.path("out/animation.mp4").exists(), "{stdout}");
}

/// Images with odd sides are padded, because H.264 needs even ones.
#[test]
fn the_installed_ffmpeg_encodes_images() {
    let dir = TestDir::new();
    if orrery_draw::picture::find_ffmpeg().is_none() {
        eprintln!("ffmpeg is not in PATH, not tested");
        return;
    }
    let size = ["image.size=101x75", "image.animation=mp4"];
    dir.run("plummer", "out", &[&SMALL[..], &size].concat());
    let film = dir.bytes("out/animation.mp4");
    assert_eq!(&film[4..8], b"ftyp");
    // The first occurrence is in the list of compatible formats, the second one in the header of
    // the track, which has width and height.
    let mut found = (0..film.len() - 4).filter(|&at| &film[at..at + 4] == b"avc1");
    let track = found.nth(1).expect("a track of H.264");
    assert_eq!(film[track + 28..track + 32], [0, 102, 0, 76]);
    // A longer run has a new film.
    dir.stdout_of(&["resume", "out", "--end", "0.25", "--quiet"]);
    assert!(dir.bytes("out/animation.mp4").len() > film.len());
}
