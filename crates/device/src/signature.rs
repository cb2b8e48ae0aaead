//! Signatures of kernels and arrays in constant memory, read from their declarations in the source.
//!
//! A launch passes untyped words to the driver. On OpenCL, a number in place of a pointer would be
//! used as the address of a memory object. Drivers report the number of parameters and sometimes
//! their sizes, but not their types. So the declaration itself is parsed:
//!
//! `KERNEL(256) scale(GLOBAL double* RESTRICT x, double factor, int n)`
//!
//! Invariant: a module has a signature for each of its kernels, or its build failed.

use std::collections::HashMap;
use std::fmt;

use crate::choice::Backend;
use crate::element::ElementType;
use crate::preprocess::{Macros, constant_value, expand, preprocess};

/// Type of a parameter or argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterType {
    /// A number.
    Scalar(ElementType),
    /// A pointer to device memory.
    Buffer(ElementType),
    /// A texture with this number of dimensions.
    Texture(u32),
}

impl ParameterType {
    /// Returns whether an argument of type `got` may be passed. A buffer of signed integers may be
    /// passed as unsigned ones of the same size and vice versa, as in C.
    pub(crate) fn accepts(self, got: Self) -> bool {
        match (self, got) {
            (Self::Buffer(declared), Self::Buffer(got)) => declared.as_unsigned() == got.as_unsigned(),
            _ => self == got,
        }
    }

    /// Returns the size of the argument in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Scalar(element) => element.size(),
            Self::Buffer(_) | Self::Texture(_) => 8,
        }
    }

    /// Returns the number of parameters that the driver counts for this one. On OpenCL, a 2-D
    /// texture is an image and a sampler.
    fn driver_parameters(self, backend: Backend) -> usize {
        if self == Self::Texture(2) && backend == Backend::OpenCl { 2 } else { 1 }
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(element) => write!(f, "{element}"),
            Self::Buffer(element) => write!(f, "a buffer of {element}"),
            Self::Texture(dimensions) => write!(f, "a {dimensions}-D texture"),
        }
    }
}

/// Declaration of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Name and type of each argument of a launch, in order.
    pub(crate) parameters: Vec<(String, ParameterType)>,
    /// Whether the declaration ends with DYNAMIC_SHARED. On OpenCL this is a parameter too, whose
    /// argument is the size of the memory.
    pub(crate) has_dynamic_shared: bool,
    /// Threads per block. None if the expression is not understood.
    pub(crate) block_size: Option<u32>,
}

impl Signature {
    /// Returns the number of parameters that the driver counts.
    pub(crate) fn driver_parameters(&self, backend: Backend) -> usize {
        let parameters = self.parameters.iter().map(|(_, parameter)| parameter.driver_parameters(backend));
        parameters.sum::<usize>() + usize::from(self.has_dynamic_shared && backend == Backend::OpenCl)
    }

    /// Checks that launches may have this many bytes of dynamic shared memory. On CUDA, a kernel
    /// may also declare it with `extern __shared__`. The error is the text for a message.
    pub(crate) fn check_dynamic_shared(&self, bytes: u32, backend: Backend) -> Result<(), &'static str> {
        match (bytes, self.has_dynamic_shared) {
            (0, true) => Err("expected a size of its dynamic shared memory"),
            (1.., false) if backend == Backend::OpenCl => Err("no DYNAMIC_SHARED in its declaration"),
            _ => Ok(()),
        }
    }
}

/// Macros that declare a kernel.
const KERNEL_MACROS: [&str; 4] = ["KERNEL", "KERNEL_2D", "KERNEL_3D", "KERNEL_MIN_BLOCKS"];
/// Macros that declare a parameter with one or two dimensions.
const TEXTURE_MACROS: [&str; 2] = ["TEXTURE_1D", "TEXTURE_2D"];
/// Macro that declares an array in constant memory.
const CONSTANT_ARRAY_MACRO: &str = "CONSTANT_ARRAY";
/// Macro that declares shared memory whose size the host sets.
const DYNAMIC_SHARED_MACRO: &str = "DYNAMIC_SHARED";
/// Words of a parameter that do not change its type.
const QUALIFIERS: [&str; 5] = ["GLOBAL", "CONSTANT_POINTER", "RESTRICT", "const", "volatile"];

/// Declarations of a kernel file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// Kernels by name.
    pub(crate) kernels: HashMap<String, Signature>,
    /// Arrays in constant memory by name.
    pub(crate) constants: HashMap<String, ConstantArray>,
}

/// Declaration of an array in constant memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConstantArray {
    pub(crate) element: ElementType,
    /// Number of elements.
    pub(crate) len: usize,
}

/// Returns the declarations of a source. The error says which parameter of which kernel has an
/// unknown type.
pub(crate) fn find_declarations(text: &str, definitions: &[(&str, String)]) -> Result<Declarations, String> {
    let (tokens, macros) = preprocess(text, definitions)?;
    let typedefs = find_typedefs(&tokens, &macros);
    let mut declarations = Declarations::default();
    for start in 0..tokens.len() {
        if tokens[start] == CONSTANT_ARRAY_MACRO {
            let end = matching_parenthesis(&tokens, start + 1);
            let array = end.and_then(|end| parse_constant(&tokens[start + 2..end], &macros, &typedefs));
            let (name, array) = array.ok_or_else(|| {
                let text = tokens[start..].iter().take(12).map(String::as_str).collect::<Vec<_>>();
                format!("`{} ...`: expected a number type, a name and a length", text.join(" "))
            })?;
            declarations.constants.insert(name, array);
        }
        if !KERNEL_MACROS.contains(&tokens[start].as_str()) {
            continue;
        }
        // KERNEL ( threads ) name ( parameters )
        let declaration = matching_parenthesis(&tokens, start + 1).and_then(|end| {
            let name = tokens.get(end + 1)?;
            let parameters_end = matching_parenthesis(&tokens, end + 2)?;
            Some((&tokens[start + 2..end], name, &tokens[end + 3..parameters_end]))
        });
        let (threads, name, parameters) = declaration.ok_or("a KERNEL without a parameter list")?;
        let signature = parse_parameters(&expand(parameters, &macros), &typedefs);
        let mut signature = signature.map_err(|why| format!("kernel {name}: {why}"))?;
        // The second argument of KERNEL_MIN_BLOCKS is a number of blocks.
        let has_blocks = tokens[start] == "KERNEL_MIN_BLOCKS";
        signature.block_size = block_size(threads, if has_blocks { 1 } else { 3 }, &macros);
        declarations.kernels.insert(name.clone(), signature);
    }
    Ok(declarations)
}

/// Returns the product of the first `count` arguments of a macro that declares a kernel.
fn block_size(tokens: &[String], count: usize, macros: &Macros) -> Option<u32> {
    let mut depth = 0;
    let is_separator = |token: &String| {
        depth += i32::from(token == "(") - i32::from(token == ")");
        depth == 0 && token == ","
    };
    let extents = tokens.split(is_separator).take(count);
    let size = extents.map(|extent| constant_value(extent, macros)).product::<Option<i64>>()?;
    u32::try_from(size).ok().filter(|size| *size > 0)
}

/// Parses `type, name, length` of an array in constant memory.
fn parse_constant(
    tokens: &[String],
    macros: &Macros,
    typedefs: &HashMap<String, ElementType>,
) -> Option<(String, ConstantArray)> {
    let expanded = expand(tokens, macros);
    let mut parts = expanded.splitn(3, |token| token == ",");
    let (words, name, len) = (parts.next()?, parts.next()?, parts.next()?);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let [name] = name else { return None };
    let len = usize::try_from(constant_value(len, macros)?).ok().filter(|len| *len > 0)?;
    Some((name.clone(), ConstantArray { element: element_type(&words, typedefs)?, len }))
}

/// Parses the parameters of a kernel.
fn parse_parameters(
    mut tokens: &[String],
    typedefs: &HashMap<String, ElementType>,
) -> Result<Signature, String> {
    let mut signature = Signature::default();
    if let Some(start) = tokens.iter().position(|token| token == DYNAMIC_SHARED_MACRO) {
        // DYNAMIC_SHARED ( type , name ), after a parameter without a comma.
        let is_last = matching_parenthesis(tokens, start + 1) == Some(tokens.len() - 1);
        if !is_last || start == 0 || tokens[start - 1] == "," {
            return Err(format!(
                "{DYNAMIC_SHARED_MACRO}(type, name) must follow the last parameter, without a comma"
            ));
        }
        signature.has_dynamic_shared = true;
        tokens = &tokens[..start];
    }
    for parameter in tokens.split(|token| token == ",").filter(|parameter| !parameter.is_empty()) {
        let parsed = parse_parameter(parameter, typedefs);
        let unknown = || format!("the type of `{}` is unknown", parameter.join(" "));
        signature.parameters.push(parsed.ok_or_else(unknown)?);
    }
    Ok(signature)
}

/// Returns the index of the parenthesis that closes the one at `open`.
fn matching_parenthesis(tokens: &[String], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (i > open).then_some(i);
        }
    }
    None
}

/// Returns the other names of number types, as in `typedef double REAL;`.
fn find_typedefs(tokens: &[String], macros: &Macros) -> HashMap<String, ElementType> {
    let mut typedefs = HashMap::new();
    for (i, _) in tokens.iter().enumerate().filter(|(_, token)| *token == "typedef") {
        let Some(len) = tokens[i..].iter().position(|token| token == ";") else { continue };
        let Some((name, words)) = tokens[i + 1..i + len].split_last() else { continue };
        let words = expand(words, macros);
        if let Some(element) = element_type(&words.iter().map(String::as_str).collect::<Vec<_>>(), &typedefs)
        {
            typedefs.insert(name.clone(), element);
        }
    }
    typedefs
}

fn parse_parameter(
    parameter: &[String],
    typedefs: &HashMap<String, ElementType>,
) -> Option<(String, ParameterType)> {
    if let [texture, open, name, close] = parameter
        && [open.as_str(), close.as_str()] == ["(", ")"]
    {
        let dimensions = TEXTURE_MACROS.iter().position(|known| known == texture)? as u32 + 1;
        return Some((name.clone(), ParameterType::Texture(dimensions)));
    }
    let (name, words) = parameter.split_last()?;
    let mut words: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !QUALIFIERS.contains(word)).collect();
    let is_pointer = words.last() == Some(&"*");
    if is_pointer {
        words.pop();
    }
    let element = element_type(&words, typedefs)?;
    let parameter = if is_pointer { ParameterType::Buffer(element) } else { ParameterType::Scalar(element) };
    Some((name.clone(), parameter))
}

fn element_type(words: &[&str], typedefs: &HashMap<String, ElementType>) -> Option<ElementType> {
    Some(match words {
        ["float"] => ElementType::F32,
        ["double"] => ElementType::F64,
        ["uchar"] | ["unsigned", "char"] => ElementType::U8,
        ["ushort"] | ["unsigned", "short"] => ElementType::U16,
        ["int"] => ElementType::I32,
        ["uint" | "unsigned"] | ["unsigned", "int"] => ElementType::U32,
        ["long"] => ElementType::I64,
        ["ulong"] => ElementType::U64,
        ["float4"] => ElementType::F32x4,
        ["double4"] => ElementType::F64x4,
        [name] => *typedefs.get(*name)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(text: &str, definitions: &[(&str, String)], kernel: &str) -> String {
        let signatures = find_declarations(text, definitions).unwrap().kernels;
        let Signature { parameters, has_dynamic_shared, .. } = &signatures[kernel];
        let mut texts: Vec<_> = parameters.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
        texts.extend(has_dynamic_shared.then(|| "shared".to_owned()));
        texts.join(", ")
    }

    #[test]
    fn qualifiers_macros_and_typedefs_are_resolved() {
        let text = "
            typedef struct { float x; } Body;
            #if DOUBLE
            typedef double REAL; typedef double4 REAL4;
            #else
            typedef float REAL;
            #endif
            #define PARAMETERS CONSTANT_POINTER const float* parameters, unsigned int seed
            FUNCTION int helper(Body body) { return 0; }
            KERNEL_MIN_BLOCKS(BLOCK_SIZE, (2 + 1)) first(GLOBAL const REAL4* RESTRICT x, PARAMETERS, // sizes
                GLOBAL volatile uint* counts, REAL eps
            #if POTENTIAL
                , GLOBAL KEY* potential
            #endif
            )
            { helper(1); }
            KERNEL(32) second() {}
            KERNEL_2D(16, 16) third(long a, ulong b, GLOBAL uchar* c, GLOBAL ushort* d) {}
            KERNEL(32) fourth(TEXTURE_1D(line), TEXTURE_2D(plane), float x) {}
            KERNEL(32) fifth(TEXTURE_2D(plane), int n DYNAMIC_SHARED(REAL, tile)) {}";
        let define = |potential: u32| {
            [("DOUBLE", "1".to_owned()), ("POTENTIAL", potential.to_string()), ("KEY", "ulong".to_owned())]
        };
        let first = "x: a buffer of double4, parameters: a buffer of float, seed: uint, \
                     counts: a buffer of uint, eps: double";
        assert_eq!(describe(text, &define(0), "first"), first);
        assert_eq!(describe(text, &define(1), "first"), format!("{first}, potential: a buffer of ulong"));
        assert_eq!(describe(text, &define(1), "second"), "");
        assert_eq!(
            describe(text, &define(1), "third"),
            "a: long, b: ulong, c: a buffer of uchar, d: a buffer of ushort"
        );
        let fourth = "line: a 1-D texture, plane: a 2-D texture, x: float";
        assert_eq!(describe(text, &define(1), "fourth"), fourth);
        assert_eq!(describe(text, &define(1), "fifth"), "plane: a 2-D texture, n: int, shared");
        let fifth = &find_declarations(text, &define(1)).unwrap().kernels["fifth"];
        let counts = [Backend::Cuda, Backend::OpenCl].map(|backend| fifth.driver_parameters(backend));
        assert_eq!(counts, [2, 4]);
        let kernels = find_declarations(text, &define(1)).unwrap().kernels;
        let sizes = ["first", "second", "third"].map(|name| kernels[name].block_size);
        assert_eq!(sizes, [None, Some(32), Some(256)]);
        let sized = [&define(1)[..], &[("BLOCK_SIZE", "(2 * (60 + 4))".to_owned())]].concat();
        assert_eq!(find_declarations(text, &sized).unwrap().kernels["first"].block_size, Some(128));
        let kernels = find_declarations("KERNEL_3D(4, (2 + 1), 5) f() {}", &[]).unwrap().kernels;
        assert_eq!(kernels["f"].block_size, Some(60));
    }

    #[test]
    fn constant_arrays_have_a_type_and_a_length() {
        let text = "typedef float4 REAL4;
            #if MANY
            CONSTANT_ARRAY(REAL4, sources, TILE * (2 + 1));
            #else
            CONSTANT_ARRAY(uint, sources, 7u);
            #endif
            CONSTANT const float table[4] = {1.0f};";
        let constants = |many: &str| {
            let definitions = [("MANY", many.to_owned()), ("TILE", "8".to_owned())];
            find_declarations(text, &definitions).unwrap().constants
        };
        assert_eq!(constants("1")["sources"], ConstantArray { element: ElementType::F32x4, len: 24 });
        assert_eq!(constants("0")["sources"], ConstantArray { element: ElementType::U32, len: 7 });
        assert_eq!(constants("0").len(), 1);
        for wrong in ["Body, b, 4", "float, b", "float, b, N", "float, b, 0", "float, b, -1", "float, b c, 4"]
        {
            let error = find_declarations(&format!("CONSTANT_ARRAY({wrong});"), &[]).unwrap_err();
            assert!(error.ends_with("expected a number type, a name and a length"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_parameter_of_unknown_type_gives_an_error() {
        let error = find_declarations("KERNEL(32) f(int n, GLOBAL Body* bodies) {}", &[]).unwrap_err();
        assert_eq!(error, "kernel f: the type of `GLOBAL Body * bodies` is unknown");
        let error = find_declarations("KERNEL(32) f(TEXTURE_3D(t)) {}", &[]).unwrap_err();
        assert_eq!(error, "kernel f: the type of `TEXTURE_3D ( t )` is unknown");
        for parameters in [
            "DYNAMIC_SHARED(float, t)",
            "int n, DYNAMIC_SHARED(float, t)",
            "int n DYNAMIC_SHARED(float, t), int m",
        ] {
            let error = find_declarations(&format!("KERNEL(32) f({parameters}) {{}}"), &[]).unwrap_err();
            let expected =
                "kernel f: DYNAMIC_SHARED(type, name) must follow the last parameter, without a comma";
            assert_eq!(error, expected, "{parameters}");
        }
        let error = find_declarations("KERNEL(32) f", &[]).unwrap_err();
        assert_eq!(error, "a KERNEL without a parameter list");
    }
}
