//! Executes the commands of README.md in their order, in one folder. Runs have small images, and
//! some of them are shorter.

use crate::common::{TestDir, text};

/// Returns the commands of the shell blocks, without comments. A block after an HTML comment that
/// starts with "not executed" is left out.
fn shell_commands(markdown: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let (mut is_shell, mut is_skipped) = (false, false);
    for line in markdown.lines() {
        match line {
            "```sh" => is_shell = true,
            "```" if is_shell => (is_shell, is_skipped) = (false, false),
            _ if is_shell && !is_skipped => {
                commands.push(line.split(" #").next().unwrap_or_default().trim().to_owned());
            }
            _ if line.starts_with("<!-- not executed: ") => is_skipped = true,
            _ => {}
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Returns the settings that are appended to a command. They replace earlier settings of a key.
fn settings_of(words: &[&str]) -> &'static [&'static str] {
    match words {
        ["run", "sine-decay" | "chip", ..] => &["--set", "image.size=64", "--set", "time.end=0.01"],
        ["run", "plummer.toml", ..] => &["--set", "image.size=64", "--set", "bodies.n=1e3"],
        ["run", ..] => &["--set", "image.size=64"],
        _ => &[],
    }
}

#[test]
fn the_commands_of_the_readme_work_in_order() {
    let readme = include_str!("../../../README.md");
    let commands = shell_commands(readme);
    assert!(commands.len() > 10, "{commands:#?}");
    // A block without a language would not be executed and not be noticed.
    let fences: Vec<&str> = readme.lines().filter(|line| line.starts_with("```")).collect();
    assert!(fences.chunks(2).all(|pair| pair[0] != "```" && pair[1] == "```"), "{fences:?}");
    let dir = TestDir::new();
    for command in commands {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("orrery"), "{command}");
        let words: Vec<&str> = words.collect();
        let output = dir.orrery(&[&words[..], settings_of(&words)].concat());
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    }
    // The files that the Python section opens.
    assert!(dir.path("out/plummer/snapshots/snapshot_002.hdf5").exists());
    assert!(dir.path("forces.npz").exists());
}
