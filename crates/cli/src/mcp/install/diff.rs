//! What changes in a file, the way `diff -u` shows it.
//!
//! One place changes, so there is one hunk: what lies between the lines that both begin and both end with.

/// Lines around the change.
const CONTEXT: usize = 3;

/// The difference between two texts. `name` is what the file is called; without `old` there was none.
pub(super) fn unified(name: &str, old: Option<&str>, new: &str) -> String {
    let before: Vec<&str> = old.unwrap_or_default().split_inclusive('\n').collect();
    let after: Vec<&str> = new.split_inclusive('\n').collect();
    let most = before.len().min(after.len());
    let head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let both = before.iter().rev().zip(after.iter().rev());
    let tail = both.take(most - head).take_while(|(a, b)| a == b).count();
    let (first, rest) = (head.saturating_sub(CONTEXT), tail.saturating_sub(CONTEXT));
    let (gone, come) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);

    let from = if old.is_some() { name } else { "/dev/null" };
    let (old_range, new_range) = (range(first, before.len() - rest), range(first, after.len() - rest));
    let mut page = format!("--- {from}\n+++ {name}\n@@ -{old_range} +{new_range} @@\n");
    for (sign, lines) in [
        (' ', &before[first..head]),
        ('-', gone),
        ('+', come),
        (' ', &after[after.len() - tail..after.len() - rest]),
    ] {
        lines.iter().for_each(|line| push(&mut page, sign, line));
    }
    page
}

fn range(first: usize, end: usize) -> String {
    let count = end - first;
    format!("{},{count}", if count == 0 { first } else { first + 1 })
}

fn push(page: &mut String, sign: char, line: &str) {
    page.push(sign);
    page.push_str(line);
    if !line.ends_with('\n') {
        page.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_all_added() {
        let diff = unified("a.json", None, "{\n}\n");
        assert_eq!(diff, "--- /dev/null\n+++ a.json\n@@ -0,0 +1,2 @@\n+{\n+}\n");
    }

    #[test]
    fn a_change_has_three_lines_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let diff = unified("f", Some(old), &old.replace("5\n", "five\nand\n"));
        assert_eq!(diff, "--- f\n+++ f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and\n 6\n 7\n 8\n");
    }

    #[test]
    fn lines_that_repeat_are_counted_once() {
        let diff = unified("f", Some("a\na\n"), "a\na\na\n");
        assert_eq!(diff, "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
    }

    #[test]
    fn a_missing_last_newline_is_told() {
        let diff = unified("f", Some("{}"), "{ }");
        assert_eq!(
            diff,
            "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-{}\n\\ No newline at end of file\n+{ }\n\\ No newline at end of file\n"
        );
    }
}
