//! "Did you mean": the known word nearest to the one written.
//!
//! Distance is the optimal string alignment: insertions, deletions, substitutions and swaps of two
//! neighbouring letters each cost 1.

/// The candidate nearest to `word`, if any is near enough to be what was meant: at most a third of the
/// letters apart, not counting upper and lower case.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(d, candidate)| d <= (candidate.chars().count().max(word.chars().count()) / 3).max(1))
        .min_by_key(|&(d, _)| d)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean 'x'?`, or nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or(String::new(), |known| format!("; did you mean '{known}'?"))
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substituted.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("theta", "thtea", 1), ("ä", "a", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["softening", "solver", "theta"];
        assert_eq!(nearest("sofening", known), Some("softening"));
        assert_eq!(nearest("Theta", known), Some("theta"));
        assert_eq!(nearest("hteta", known), Some("theta"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
    }
}
