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
    // The kernels are tested on the processor: OpenCL's loader, and PoCL behind it.
    Need { package: "ocl-icd-libopencl1", source: Source::Apt, is_there: |_| has_opencl_loader() },
    Need { package: "pocl-opencl-icd", source: Source::Apt, is_there: |_| has_pocl() },
    // A minimal Rust comes without these two.
    Need { package: "rustfmt", source: Source::Rustup, is_there: |_| runs("cargo fmt --version") },
    Need { package: "clippy", source: Source::Rustup, is_there: |_| runs("cargo clippy --version") },
];

fn runs(line: &str) -> bool {
    Line::new(line).succeeds()
}

/// Whether the dynamic linker finds OpenCL's loader. Its lister stands in a folder that not every user's PATH
/// has, and not every system has it at all.
fn has_opencl_loader() -> bool {
    const LOADER: &str = "libOpenCL.so.1";
    let listed =
        |lister: &str| Line::new(lister).word("-p").output().is_some_and(|list| list.contains(LOADER));
    ["ldconfig", "/sbin/ldconfig"].into_iter().any(listed)
        || ["/usr/lib", "/usr/lib64"].iter().any(|folder| Path::new(folder).join(LOADER).exists())
}

/// Whether PoCL is among the drivers that OpenCL's loader knows.
fn has_pocl() -> bool {
    let vendors = std::env::var("OCL_ICD_VENDORS").unwrap_or_else(|_| "/etc/OpenCL/vendors".to_owned());
    names_pocl(Path::new(&vendors))
}

/// Whether a file in `vendors` names PoCL's library.
fn names_pocl(vendors: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(vendors) else { return false };
    let mut paths = files.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.any(|path| {
        path.extension().is_some_and(|extension| extension == "icd")
            && std::fs::read_to_string(&path).is_ok_and(|library| library.contains("libpocl"))
    })
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
    fn pocl_is_known_by_the_library_that_a_vendor_file_names() {
        let folder = std::env::temp_dir().join(format!("orrery-xtask-icd-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        assert!(!names_pocl(&folder.join("missing")));
        write("nvidia.icd", "libnvidia-opencl.so.1\n");
        write("pocl.icd.bak", "libpocl.so.2\n");
        assert!(!names_pocl(&folder));
        write("any.icd", "/usr/lib/libpocl.so.2.10.0\n");
        assert!(names_pocl(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
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
