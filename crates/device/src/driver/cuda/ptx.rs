//! Reader of PTX, the assembly text that CUDA's compiler writes: names and parameters of kernels,
//! and variables in constant memory.
//!
//! A kernel is `.visible .entry NAME(.param TYPE NAME_param_0, ...)`, followed by directives such
//! as `.maxntid 256, 1, 1` and by its body in braces. Registers are virtual, so PTX does not tell
//! how many a kernel needs.

use super::cubin::CubinKernel;

/// Returns the kernels of a PTX text, sorted by name, or None if one of them cannot be read. Their
/// registers and memory are 0.
pub(super) fn read_kernels(text: &str) -> Option<Vec<CubinKernel>> {
    let mut kernels = Vec::new();
    for part in text.split(".entry ").skip(1) {
        let (name, rest) = part.split_once('(')?;
        let (parameters, rest) = rest.split_once(')')?;
        let (directives, _) = rest.split_once('{')?;
        let parameters = parameters.split(".param ").skip(1);
        kernels.push(CubinKernel {
            name: name.trim().to_owned(),
            max_block_size: max_block_size(directives)?,
            parameter_bytes: parameters.map(variable_bytes).collect::<Option<_>>()?,
            ..CubinKernel::default()
        });
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    Some(kernels)
}

/// Returns the names and sizes in bytes of the variables in constant memory, or None if one of them
/// cannot be read.
pub(super) fn read_constants(text: &str) -> Option<Vec<(String, usize)>> {
    let declarations = text.lines().filter_map(|line| line.split_once(".const ").map(|(_, rest)| rest));
    declarations
        .map(|declaration| {
            let name =
                declaration.split_whitespace().find(|word| !word.starts_with('.') && !is_number(word))?;
            let name = name.split(['[', ';', '=']).next()?;
            Some((name.to_owned(), variable_bytes(declaration)?))
        })
        .collect()
}

fn is_number(word: &str) -> bool {
    word.chars().all(|character| character.is_ascii_digit())
}

/// Returns the product of the sizes after `.maxntid`, 0 without it.
fn max_block_size(directives: &str) -> Option<u32> {
    let Some((_, rest)) = directives.split_once(".maxntid") else { return Some(0) };
    let mut sizes = rest.lines().next()?.split(',').map(|size| size.trim().parse::<u32>().ok());
    sizes.try_fold(1u32, |product, size| product.checked_mul(size?))
}

/// Returns the size of a variable from its type and, for an array, its number of elements, for
/// example 24 for `.align 8 .b8 name[24]`.
fn variable_bytes(declaration: &str) -> Option<usize> {
    let of_type = |word: &str| match word {
        ".u8" | ".s8" | ".b8" => Some(1),
        ".u16" | ".s16" | ".b16" | ".f16" => Some(2),
        ".u32" | ".s32" | ".b32" | ".f32" => Some(4),
        ".u64" | ".s64" | ".b64" | ".f64" => Some(8),
        _ => None,
    };
    let element: usize = declaration.split_whitespace().find_map(of_type)?;
    match declaration.split_once('[') {
        None => Some(element),
        Some((_, rest)) => element.checked_mul(rest.split_once(']')?.0.trim().parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
.version 9.0
.target sm_90
.const .align 8 .u64 columns[10];
.const .align 4 .b8 numbers[8] = {0, 0, 128, 63};
.visible .const .align 4 .s32 count;

.visible .entry move(
\t.param .u64 .ptr .align 1 move_param_0,
\t.param .align 4 .b8 move_param_1[24],
\t.param .f32 move_param_2
)
.maxntid 32, 2, 1
.minnctapersm 2
{
\t.reg .b32 %r<3>;
}
.visible .entry clear(

)
{
}
";

    #[test]
    fn kernels_have_names_parameters_and_block_sizes() {
        let kernels = read_kernels(TEXT).unwrap();
        let found: Vec<_> =
            kernels.iter().map(|k| (k.name.as_str(), k.max_block_size, &k.parameter_bytes[..])).collect();
        assert_eq!(found, [("clear", 0, &[][..]), ("move", 64, &[8, 24, 4][..])]);
        assert_eq!(read_kernels(".entry cut(.param .u64 a"), None);
        assert_eq!(read_kernels(".entry odd(.param .v9 a) {"), None);
    }

    #[test]
    fn constants_have_names_and_sizes() {
        let expected = [("columns", 80), ("numbers", 8), ("count", 4)];
        assert_eq!(read_constants(TEXT).unwrap(), expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    }
}
