//! The known word that is nearest to one that is not known.

/// The nearest of the candidates, if one is near enough to be what was meant.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let near = candidates.map(|candidate| (distance(word, candidate), candidate));
    near.filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How many characters have to be put in, taken out, replaced, or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Three rows of the table: the one before the last is for swaps.
    let mut before: Vec<usize> = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(!a.eq_ignore_ascii_case(b));
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["server.port", "server.host", "limits.timeout"];
        assert_eq!(nearest("server.prot", known.into_iter()), Some("server.port"));
        assert_eq!(nearest("limit.timeout", known.into_iter()), Some("limits.timeout"));
        assert_eq!(nearest("Server.Host", known.into_iter()), Some("server.host"));
        assert_eq!(nearest("colour", known.into_iter()), None);
        assert_eq!(distance("ab", "ba"), 1);
    }

    proptest! {
        #[test]
        fn it_is_a_distance(a in "[a-c]{0,6}", b in "[a-c]{0,6}") {
            prop_assert_eq!(distance(&a, &a), 0);
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert!(distance(&a, &b) <= a.len().max(b.len()));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
        }
    }
}
