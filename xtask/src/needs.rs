//! What the tests need of the machine beside Rust: each thing with the probe that tells whether it is there,
//! so that nothing is installed on a machine that has it by other means.

use std::path::Path;

use crate::python;
use crate::shell::{Failure, Line};

/// A package, and how to see that it is needless to install it.
struct Need {
    package: &'static str,
    source: Source,
    is_there: fn(root: &Path) -> bool,
}

/// Who installs a package.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Apt,
    Rustup,
}

const NEEDS: &[Need] = &[
    Need { package: "python3-venv", source: Source::Apt, is_there: python::is_possible },
    // A minimal Rust comes without these two.
    Need { package: "rustfmt", source: Source::Rustup, is_there: |_| runs("cargo fmt --version") },
    Need { package: "clippy", source: Source::Rustup, is_there: |_| runs("cargo clippy --version") },
];

fn runs(line: &str) -> bool {
    Line::new(line).succeeds()
}

/// Installs what is missing, or says in one line how to.
pub fn install(root: &Path) -> Result<(), Failure> {
    let missing = missing(root);
    if missing.is_empty() {
        println!("all there: {}", NEEDS.iter().map(|need| need.package).collect::<Vec<_>>().join(", "));
        return Ok(());
    }
    let from = |source| -> Vec<_> {
        missing.iter().filter(|need| need.source == source).map(|need| need.package).collect()
    };
    let components = from(Source::Rustup);
    if !components.is_empty() {
        components.iter().fold(Line::new("rustup component add"), Line::word).run()?;
    }
    let packages = from(Source::Apt);
    if !packages.is_empty() {
        if !runs("apt-get --version") {
            let message = format!("no apt-get here; install what Debian calls {}", packages.join(" "));
            return Err(Failure::new(message));
        }
        let (update, install) = apt_lines(&packages, Rights::of_this_user())?;
        // One repository that does not answer fails the update, though the others may suffice.
        if update.run().is_err() {
            println!("going on with the lists that there are");
        }
        install.run()?;
    }
    match self::missing(root).first() {
        None => Ok(()),
        Some(need) => {
            let package = need.package;
            let cause = "another program of its name may stand before it in PATH";
            Err(Failure::new(format!("{package} is installed but does not work; {cause}")))
        }
    }
}

fn missing(root: &Path) -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_there)(root)).collect()
}

/// Whether this user may install packages.
#[derive(Clone, Copy)]
enum Rights {
    Root,
    /// sudo without a password: nobody may be there to type one.
    Sudo,
    None,
}

impl Rights {
    fn of_this_user() -> Self {
        if Line::new("id -u").output().as_deref() == Some("0") {
            Self::Root
        } else if runs("sudo -n true") {
            Self::Sudo
        } else {
            Self::None
        }
    }
}

/// The lines that update apt's lists and install `packages`.
fn apt_lines(packages: &[&str], rights: Rights) -> Result<(Line, Line), Failure> {
    // sudo drops the environment, so `env` sets it on its far side.
    let apt = match rights {
        Rights::Root => "env DEBIAN_FRONTEND=noninteractive apt-get",
        Rights::Sudo => "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get",
        Rights::None => {
            let packages = packages.join(" ");
            let line = format!("sudo apt-get update && sudo apt-get install -y {packages}");
            return Err(Failure::new(format!("this user may not install {packages}; run first:\n  {line}")));
        }
    };
    let install = Line::new(apt).word("install").word("-y").word("--no-install-recommends");
    Ok((Line::new(apt).word("update"), packages.iter().fold(install, Line::word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_stands_once() {
        for (i, need) in NEEDS.iter().enumerate() {
            assert!(NEEDS[..i].iter().all(|earlier| earlier.package != need.package), "{}", need.package);
        }
    }

    #[test]
    fn apt_is_called_as_the_user_may() {
        let lines = |rights| {
            let (update, install) = apt_lines(&["a", "b"], rights).unwrap();
            (update.to_string(), install.to_string())
        };
        let (update, install) = lines(Rights::Root);
        assert_eq!(update, "env DEBIAN_FRONTEND=noninteractive apt-get update");
        assert_eq!(
            install,
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends a b"
        );
        let (update, install) = lines(Rights::Sudo);
        assert!(update.starts_with("sudo -n env DEBIAN"), "{update}");
        assert!(install.starts_with("sudo -n env DEBIAN"), "{install}");
    }

    #[test]
    fn without_rights_one_line_says_what_to_run() {
        let message = apt_lines(&["a", "b"], Rights::None).unwrap_err().message;
        let line = message.lines().last().unwrap().trim();
        assert_eq!(line, "sudo apt-get update && sudo apt-get install -y a b");
    }
}
