//! Enumerations whose variants have the same names in kernel files.

/// Declares an enumeration and generates the `#define` of each variant, so that a kernel file can
/// compare names: `#if RUNG >= RUNG_TILE`. The names are those in strings, the values are the
/// discriminants.
///
/// `DEFINES` is put before the text of the kernel file. The module is built with
/// `("RUNG", rung.kernel_name().to_owned())`, or the discriminant is an argument of the kernel.
macro_rules! kernel_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $value:literal => $kernel_name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$variant_attribute])* $variant = $value,)+
        }

        impl $name {
            /// Definitions of all names, as text of a kernel file.
            pub const DEFINES: &str = concat!($("#define ", $kernel_name, " ", $value, "\n"),+);

            /// Returns the name in kernel files.
            pub const fn kernel_name(self) -> &'static str {
                match self {
                    $(Self::$variant => $kernel_name,)+
                }
            }
        }
    };
}

pub(crate) use kernel_enum;

/// Checks that the text of a kernel file defines every name in its conditions on `subject`, for
/// example `RUNG`. The compiler would count a name that is not defined as 0.
#[cfg(test)]
pub fn check_conditions(text: &str, subject: &str) {
    let words = |line: &str| -> Vec<String> {
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let is_name = |word: &String| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && !["if", "elif", subject].contains(&word.as_str())
    };
    let conditions = text.lines().filter(|line| line.starts_with("#if ") || line.starts_with("#elif "));
    let parts = conditions.flat_map(|line| line.split("&&")).map(words);
    let names: Vec<String> = parts
        .filter(|part| part.iter().any(|word| word == subject))
        .flat_map(|part| part.into_iter().filter(is_name))
        .collect();
    assert!(!names.is_empty(), "no condition on {subject}");
    for name in names {
        let is_defined = text.lines().any(|line| line.starts_with(&format!("#define {name} ")));
        assert!(is_defined, "{name} in a condition on {subject} is not defined");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::atomics::device::Returns;
    use crate::experiments::fences::{LitmusAccess, LitmusFence};
    use crate::primitives::histogram::letters::LetterCounting;
    use crate::primitives::histogram::rungs::HistogramVariant;
    use crate::primitives::transpose::rungs::TransposeVariant;
    use crate::rungs::reduce::ReductionVariant;

    kernel_enum! {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum TestSide {
            Left = 0 => "SIDE_LEFT",
            Right = 1 => "SIDE_RIGHT",
        }
    }

    #[test]
    fn names_are_defined_as_the_discriminants() {
        assert_eq!(TestSide::DEFINES, "#define SIDE_LEFT 0\n#define SIDE_RIGHT 1\n");
        assert_eq!([TestSide::Left, TestSide::Right].map(TestSide::kernel_name), ["SIDE_LEFT", "SIDE_RIGHT"]);
        check_conditions("#define SIDE_LEFT 0\n#if SIDE == SIDE_LEFT\n#endif\n", "SIDE");
    }

    #[test]
    fn kernel_files_compare_names_that_are_defined() {
        for (subject, defines, text) in [
            ("ACCESS", LitmusAccess::DEFINES, include_str!("experiments/fences/fences.cu")),
            ("FENCE", LitmusFence::DEFINES, include_str!("experiments/fences/fences.cu")),
            ("RETURNS", Returns::DEFINES, include_str!("experiments/atomics/atomics.cu")),
            ("COUNTING", LetterCounting::DEFINES, include_str!("primitives/histogram/letters.cu")),
            ("RUNG", HistogramVariant::DEFINES, include_str!("primitives/histogram/rungs.cu")),
            ("RUNG", TransposeVariant::DEFINES, include_str!("primitives/transpose/rungs.cu")),
            ("RUNG", ReductionVariant::DEFINES, include_str!("rungs/reduce/rungs.cu")),
        ] {
            check_conditions(&[defines, text].concat(), subject);
        }
    }

    #[test]
    #[should_panic(expected = "SIDE_LEFD in a condition on SIDE is not defined")]
    fn a_misspelt_name_is_found() {
        check_conditions("#define SIDE_LEFT 0\n#if SIDE > SIDE_LEFD\n#endif\n", "SIDE");
    }
}
