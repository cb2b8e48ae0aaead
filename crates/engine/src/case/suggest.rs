//! "Did you mean": the known word that is closest to a misspelt one.
//!
//! The distance is the optimal string alignment distance: insertions, deletions, substitutions and
//! swaps of two neighbouring letters each cost 1.

/// Returns the candidate nearest to `word`, if their distance is at most a third of the letters.
/// Upper and lower case are equal.
pub fn nearest_word<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(d, candidate)| d <= (candidate.chars().count().max(word.chars().count()) / 3).max(1))
        .min_by_key(|&(d, _)| d)
        .map(|(_, candidate)| candidate)
}

/// Returns `; did you mean 'x'?` or an empty string.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest_word(word, candidates).map_or(String::new(), |known| format!("; did you mean '{known}'?"))
}

fn edit_distance(a: &str, b: &str) -> usize {
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
    fn edit_distance_counts_insertions_swaps_and_substitutions() {
        for (a, b, expected) in
            [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("theta", "thtea", 1), ("ä", "a", 1)]
        {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
            assert_eq!(edit_distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["softening", "solver", "theta"];
        assert_eq!(nearest_word("sofening", known), Some("softening"));
        assert_eq!(nearest_word("Theta", known), Some("theta"));
        assert_eq!(nearest_word("hteta", known), Some("theta"));
        assert_eq!(nearest_word("colour", known), None);
        assert_eq!(nearest_word("", known), None);
    }
}
