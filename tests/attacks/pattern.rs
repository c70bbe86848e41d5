//! Shell globs, and the rules for what a program may report.

/// Whether a text is what a glob describes: `*` for anything, `?` for one character, `[a-z]` and `[!a-z]`.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where to go on when the last `*` has to take one character more.
    let mut again = None;
    while seen < text.len() {
        if glob.get(at) == Some(&'*') {
            again = Some((at + 1, seen));
            at += 1;
        } else if let Some(next) = one(&glob, at, text[seen]) {
            at = next;
            seen += 1;
        } else if let Some((after, from)) = again {
            again = Some((after, from + 1));
            at = after;
            seen = from + 1;
        } else {
            return false;
        }
    }
    glob[at..].iter().all(|rest| *rest == '*')
}

/// The place behind the element at `at`, if that element describes this character.
fn one(glob: &[char], at: usize, character: char) -> Option<usize> {
    match glob.get(at)? {
        '?' => Some(at + 1),
        '[' => match class(&glob[at + 1..]) {
            Some((members, length)) => holds(members, character).then_some(at + 1 + length),
            None => (character == '[').then_some(at + 1),
        },
        plain => (*plain == character).then_some(at + 1),
    }
}

/// What stands between brackets, and the length with the closing one, which does not close in first place.
fn class(rest: &[char]) -> Option<(&[char], usize)> {
    let first = usize::from(rest.first() == Some(&'!')) + 1;
    let end = first + rest.get(first..)?.iter().position(|c| *c == ']')?;
    Some((&rest[..end], end + 1))
}

fn holds(members: &[char], character: char) -> bool {
    let (negated, mut rest) = match members {
        ['!', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let mut found = false;
    while let [first, others @ ..] = rest {
        rest = match others {
            ['-', last, others @ ..] => {
                found |= (*first..=*last).contains(&character);
                others
            }
            _ => {
                found |= *first == character;
                others
            }
        };
    }
    found != negated
}

/// One line of a program: what it tried, and the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) name: String,
    pub(crate) answer: String,
}

/// The attempts in an output, and the lines that look like one but are none.
pub(crate) fn attempts(output: &str) -> (Vec<Attempt>, Vec<&str>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for line in output.lines().filter(|line| line.starts_with("attempt\t")) {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [_, name, answer] if !name.is_empty() && !answer.is_empty() => {
                good.push(Attempt { name: name.into(), answer: answer.into() });
            }
            _ => bad.push(line),
        }
    }
    (good, bad)
}

/// What is wrong with attempts by these rules: the first pattern that fits the name decides about the answer, and
/// every pattern has to fit once.
pub(crate) fn complaints(rules: &[(String, Vec<String>)], attempts: &[Attempt]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut used = vec![false; rules.len()];
    for Attempt { name, answer } in attempts {
        let Some(rule) = rules.iter().position(|(pattern, _)| matches(pattern, name)) else {
            wrong.push(format!("`{name}` answered `{answer}`, and no pattern fits it"));
            continue;
        };
        used[rule] = true;
        let allowed = &rules[rule].1;
        if !allowed.iter().any(|glob| matches(glob, answer)) {
            wrong.push(format!("`{name}` answered `{answer}`, not {}", allowed.join(" or ")));
        }
    }
    let unused = rules.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(unused.map(|((pattern, _), _)| format!("nothing was tried that fits `{pattern}`")));
    wrong
}
