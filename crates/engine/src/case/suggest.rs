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
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(d, candidate)| d <= (candidate.chars().count().max(word.chars().count()) / 3).max(1))
        .min_by_key(|&(d, _)| d)
        .map(|(_, candidate)| candidate)
}

/// Returns `; did you mean 'x'?` or an empty string.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest_word(word, candidates).map_or(String::new(), |known| format!("; did you mean '{known}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
