//! Commands in sessions. What the caller wrote never becomes part of a script: the script is always the same, and gets
//! everything as arguments.

use crate::Problem;
use engine::control::{Mode, Program};

/// A line for the shell, with arguments that the shell leaves alone.
const LINE: &str =
    "/bin/rm -f -- \"$0\"; line=$1; shift; [ $# = 0 ] || line=\"$line \\\"\\$@\\\"\"; eval \"$line\"\n";
/// A command and its arguments, without a shell, in some directory.
const WORDS: &str = "/bin/rm -f -- \"$0\"; cd -- \"$1\" || exit 126; shift; exec -- \"$@\"\n";
/// Where the script is until it begins, and removes itself.
const FILE: &str = ".command.sh";

/// How directories begin in which values of variables are left, while their program runs.
pub(crate) const OUTPUTS: &str = ".outputs-";

/// Whether a file is one of ours.
pub(crate) fn is_ours(path: &str) -> bool {
    path == FILE || path.starts_with(OUTPUTS)
}

/// What a line of shell does, with more arguments behind it.
pub(crate) fn line(command: String, args: Vec<String>) -> Result<Program, Problem> {
    if command.trim().is_empty() {
        return Err(Problem::invalid_field("command", "is empty"));
    }
    script(LINE, std::iter::once(command).chain(args).collect())
}

/// What a command does in a directory. Without arguments of its own it is taken apart at its spaces, as quotes say.
pub(crate) fn words(command: String, args: Vec<String>, directory: Option<&str>) -> Result<Program, Problem> {
    let command = match args.is_empty() {
        true => split(&command).map_err(|why| Problem::invalid_field("command", why))?,
        false => vec![command],
    };
    if command.first().is_none_or(String::is_empty) {
        return Err(Problem::invalid_field("command", "is empty"));
    }
    let directory = match directory {
        None | Some("" | "." | "/workspace") => "/workspace".to_owned(),
        Some(path) if path.starts_with('/') => path.to_owned(),
        Some(path) => format!("/workspace/{path}"),
    };
    script(WORDS, std::iter::once(directory).chain(command).chain(args).collect())
}

fn script(text: &str, args: Vec<String>) -> Result<Program, Problem> {
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err(Problem::invalid_field("command", "has a NUL in it"));
    }
    Ok(Program {
        language: "bash".into(),
        code: text.into(),
        mode: Mode::Shell,
        filename: Some(FILE.into()),
        args,
        ..Program::default()
    })
}

/// Words, apart at spaces that neither quotes nor `\` protect. Nothing else means anything.
fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', Some('"')) if rest.peek().is_some_and(|&next| matches!(next, '"' | '\\')) => {
                word.get_or_insert_default().extend(rest.next());
            }
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None) => match rest.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("ends in a `\\`"),
            },
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    match quote {
        Some(_) => Err("has a quote that is not closed"),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_apart_at_spaces_that_nothing_protects() {
        for (text, words) in [
            ("ls -la /tmp", &["ls", "-la", "/tmp"][..]),
            ("  a\t b\n", &["a", "b"]),
            ("echo 'a b' \"c d\"", &["echo", "a b", "c d"]),
            ("echo a\\ b '\\' \"\\\"\\x\"", &["echo", "a b", "\\", "\"\\x"]),
            ("echo '' $HOME;ls|wc", &["echo", "", "$HOME;ls|wc"]),
            ("", &[]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
        for text in ["'a", "a \"b", "a\\"] {
            assert!(split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_callers_write_is_never_part_of_the_script() {
        let program = line("echo $(id)".into(), vec!["; rm -rf /".into()]).unwrap();
        assert_eq!((program.code.as_str(), program.args.len()), (LINE, 2));
        let program = words("cat".into(), vec!["$(id)".into()], Some("a/b")).unwrap();
        assert_eq!(program.code, WORDS);
        assert_eq!(program.args, ["/workspace/a/b", "cat", "$(id)"]);
        assert!(words(" ".into(), vec![], None).is_err() && line("\t".into(), vec![]).is_err());
        assert!(words("a\0b".into(), vec![], None).is_err());
    }
}
