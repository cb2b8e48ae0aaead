//! A small preprocessor for kernel files: just enough to find the declarations of kernels.
//!
//! It evaluates `#if`, `#ifdef`, `#ifndef`, `#elif`, `#else` and `#endif`, collects macros without
//! parameters, and removes comments. Macros with parameters stay as they are: a declaration does
//! not use them, apart from `KERNEL` and its variants. As in C, a name that is not defined counts
//! as 0 in a condition.

use std::collections::HashMap;

/// Object-like macros: name and tokens.
pub(crate) type Macros = HashMap<String, Vec<String>>;

/// Splits C source into names, numbers and operators. Removes comments and white space.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut i = 0;
    while i < characters.len() {
        let (c, next) = (characters[i], characters.get(i + 1).copied().unwrap_or(' '));
        if c == '/' && next == '/' {
            i += characters[i..].iter().take_while(|&&c| c != '\n').count();
        } else if c == '/' && next == '*' {
            let rest = &characters[i + 2..];
            let end = rest.windows(2).position(|pair| pair == ['*', '/']);
            i = end.map_or(characters.len(), |end| i + 2 + end + 2);
        } else if c.is_whitespace() {
            i += 1;
        } else {
            let len = if is_word(c) {
                characters[i..].iter().take_while(|&&c| is_word(c)).count()
            } else {
                let pair: String = [c, next].iter().collect();
                if ["&&", "||", "==", "!=", "<=", ">="].contains(&pair.as_str()) { 2 } else { 1 }
            };
            found.push(characters[i..i + len].iter().collect());
            i += len;
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the tokens that remain for the compiler, and the macros at the end of the text.
/// `definitions` are defined before the text.
pub(crate) fn preprocess(
    text: &str,
    definitions: &[(&str, String)],
) -> Result<(Vec<String>, Macros), String> {
    let mut macros: Macros =
        definitions.iter().map(|(name, value)| ((*name).to_owned(), tokens(value))).collect();
    let mut remaining = Vec::new();
    // For each open #if: whether this branch is compiled, and whether a branch was taken already.
    let mut branches: Vec<(bool, bool)> = Vec::new();
    let joined = remove_block_comments(text).replace("\\\n", " ");
    for line in joined.lines() {
        let is_compiled = branches.iter().all(|branch| branch.0);
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            if is_compiled {
                remaining.extend(tokens(line));
            }
            continue;
        };
        let words = tokens(directive);
        let Some((name, rest)) = words.split_first() else { continue };
        let is_defined = |rest: &[String]| rest.first().is_some_and(|name| macros.contains_key(name));
        match name.as_str() {
            "if" | "ifdef" | "ifndef" => {
                // A condition inside a branch that is not compiled may contain anything.
                let is_true = is_compiled
                    && match name.as_str() {
                        "if" => evaluate(rest, &macros)?,
                        "ifdef" => is_defined(rest),
                        _ => !is_defined(rest),
                    };
                branches.push((is_true, is_true));
            }
            "elif" | "else" => {
                let (_, was_taken) = branches.pop().ok_or_else(|| format!("#{name} without #if"))?;
                let is_reached = !was_taken && branches.iter().all(|branch| branch.0);
                let is_true = is_reached && (name == "else" || evaluate(rest, &macros)?);
                branches.push((is_true, was_taken || is_true));
            }
            "endif" => {
                branches.pop().ok_or("#endif without #if")?;
            }
            "define" if is_compiled => {
                if let Some((name, value)) = rest.split_first()
                    && !has_parameters(directive, name)
                {
                    macros.insert(name.clone(), value.to_vec());
                }
            }
            "undef" if is_compiled => {
                rest.first().map(|name| macros.remove(name));
            }
            _ => {}
        }
    }
    Ok((remaining, macros))
}

fn remove_block_comments(text: &str) -> String {
    let mut without = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        let end = rest[start..].find("*/").map_or(rest.len(), |end| start + end + 2);
        without.push_str(&rest[..start]);
        without.push(' ');
        rest = &rest[end..];
    }
    without + rest
}

/// Returns whether `#define name` is followed by a parenthesis without a space in between.
fn has_parameters(directive: &str, name: &str) -> bool {
    directive.find(name).is_some_and(|start| directive[start + name.len()..].starts_with('('))
}

/// Replaces macros without parameters by their values, also within the values.
pub(crate) fn expand(tokens: &[String], macros: &Macros) -> Vec<String> {
    // A macro that contains itself is not expanded again, as in C.
    fn expand_into(tokens: &[String], macros: &Macros, active: &mut Vec<String>, to: &mut Vec<String>) {
        for token in tokens {
            match macros.get(token) {
                Some(value) if !active.contains(token) => {
                    active.push(token.clone());
                    expand_into(value, macros, active, to);
                    active.pop();
                }
                _ => to.push(token.clone()),
            }
        }
    }
    let mut expanded = Vec::new();
    expand_into(tokens, macros, &mut Vec::new(), &mut expanded);
    expanded
}

/// Evaluates the condition of an `#if`.
fn evaluate(condition: &[String], macros: &Macros) -> Result<bool, String> {
    let mut resolved = Vec::new();
    let mut i = 0;
    while i < condition.len() {
        if condition[i] == "defined" {
            let has_parenthesis = condition.get(i + 1).is_some_and(|token| token == "(");
            let name = condition.get(i + 1 + usize::from(has_parenthesis));
            let is_defined = name.is_some_and(|name| macros.contains_key(name));
            resolved.push(u8::from(is_defined).to_string());
            i += if has_parenthesis { 4 } else { 2 };
        } else {
            resolved.push(condition[i].clone());
            i += 1;
        }
    }
    let value = constant_value(&resolved, macros);
    value.map(|value| value != 0).ok_or_else(|| format!("#if {}: unknown expression", condition.join(" ")))
}

/// Returns the value of a constant expression, or None if it is not understood.
pub(crate) fn constant_value(tokens: &[String], macros: &Macros) -> Option<i64> {
    let mut expression = Expression { tokens: &expand(tokens, macros), next: 0 };
    let value = expression.binary(0)?;
    (expression.next == expression.tokens.len()).then_some(value)
}

/// A recursive-descent parser of integer expressions.
struct Expression<'a> {
    tokens: &'a [String],
    next: usize,
}

/// Binary operators by precedence, loosest first.
const OPERATORS: [&[&str]; 6] =
    [&["||"], &["&&"], &["==", "!="], &["<", ">", "<=", ">="], &["+", "-"], &["*", "/", "%"]];

impl Expression<'_> {
    fn binary(&mut self, level: usize) -> Option<i64> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.tokens.get(self.next).filter(|t| operators.contains(&t.as_str())) {
            self.next += 1;
            let right = self.binary(level + 1)?;
            left = match operator.as_str() {
                "||" => i64::from(left != 0 || right != 0),
                "&&" => i64::from(left != 0 && right != 0),
                "==" => i64::from(left == right),
                "!=" => i64::from(left != right),
                "<" => i64::from(left < right),
                ">" => i64::from(left > right),
                "<=" => i64::from(left <= right),
                ">=" => i64::from(left >= right),
                "+" => left.checked_add(right)?,
                "-" => left.checked_sub(right)?,
                "*" => left.checked_mul(right)?,
                "/" => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<i64> {
        let token = self.tokens.get(self.next)?.as_str();
        self.next += 1;
        match token {
            "!" => Some(i64::from(self.unary()? == 0)),
            "-" => self.unary()?.checked_neg(),
            "(" => {
                let value = self.binary(0)?;
                self.next += 1;
                (self.tokens.get(self.next - 1)? == ")").then_some(value)
            }
            number if number.starts_with(|c: char| c.is_ascii_digit()) => {
                number.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()
            }
            name => name.starts_with(is_word).then_some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining(text: &str, definitions: &[(&str, String)]) -> String {
        preprocess(text, definitions).unwrap().0.join(" ")
    }

    #[test]
    fn conditions_select_branches_as_in_c() {
        let choose = |condition: &str| {
            let text = format!("#define TWO 2\n#if {condition}\nyes\n#else\nno\n#endif\n");
            remaining(&text, &[("RUNG", "3u".to_owned()), ("EMPTY", String::new())]) == "yes"
        };
        let table = [
            ("RUNG == 3", true),
            ("RUNG < TWO", false),
            ("RUNG > TWO && !(RUNG == 4)", true),
            ("defined(RUNG) && defined EMPTY", true),
            ("defined(NO_SUCH_NAME) || NO_SUCH_NAME", false),
            ("1 + 2 * TWO - 5", false),
            ("(1 + 2) * TWO == 6", true),
            ("RUNG >= 3 && RUNG <= 3 && RUNG % 2 != 0", true),
            ("-1 < 0", true),
        ];
        for (condition, expected) in table {
            assert_eq!(choose(condition), expected, "{condition}");
        }
    }

    #[test]
    fn branches_nest_and_only_one_is_taken() {
        let text = "#if A == 1\none\n#elif A == 2\ntwo\n#ifdef B\nb\n#else\nnot_b\n#endif\n#elif A == 2\n\
                    again\n#else\nother\n#endif\n";
        let with_a = |a: &str| remaining(text, &[("A", a.to_owned())]);
        assert_eq!([with_a("1"), with_a("2"), with_a("3")], ["one", "two not_b", "other"]);
        assert_eq!(remaining("#ifndef A\nx\n#endif\n#if 0\n#if nonsense (\n#endif\n#endif\ny", &[]), "x y");
    }

    #[test]
    fn macros_without_parameters_are_collected_and_expanded() {
        let text = "#define REAL FLOAT\n#define FLOAT float // comment\n#define F(x) x\n#define LOOP LOOP\n\
                    #define PARAMETERS REAL a, \\\n    int b\n#undef GONE\n";
        let (tokens_left, macros) = preprocess(text, &[("GONE", "1".to_owned())]).unwrap();
        assert!(tokens_left.is_empty() && !macros.contains_key("F") && !macros.contains_key("GONE"));
        let expanded = expand(&tokens("PARAMETERS LOOP"), &macros);
        assert_eq!(expanded.join(" "), "float a , int b LOOP");
    }

    #[test]
    fn comments_are_removed() {
        assert_eq!(remaining("a /* b\n#if 0\n */ c // d\ne", &[]), "a c e");
    }

    #[test]
    fn an_expression_that_is_not_understood_gives_an_error() {
        let error = preprocess("#if A ? 1 : 2\n#endif", &[]).unwrap_err();
        assert_eq!(error, "#if A ? 1 : 2: unknown expression");
        assert_eq!(preprocess("#endif", &[]).unwrap_err(), "#endif without #if");
    }
}
