//! Telling the language of code from what is in it, and how sure that is.

use super::languages::Language;

/// Below this nobody should rely on it.
pub(super) const LEAST: f64 = 0.3;

/// What shows a language, and how strongly: a word that occurs nowhere else counts 3, one that others have too 1.
const SIGNS: &[(&str, &[(&str, u32)])] = &[
    (
        "python",
        &[
            ("def ", 2),
            ("import ", 1),
            ("print(", 2),
            ("elif ", 3),
            ("self", 1),
            ("__name__", 3),
            ("None", 1),
            ("lambda ", 2),
            ("    return ", 1),
            (":\n    ", 2),
        ],
    ),
    (
        "typescript",
        &[
            (": string", 3),
            (": number", 3),
            (": boolean", 3),
            ("interface ", 2),
            ("console.log(", 2),
            ("export ", 1),
            (" as const", 3),
            ("enum ", 1),
        ],
    ),
    (
        "javascript",
        &[
            ("console.log(", 3),
            ("const ", 1),
            ("let ", 1),
            ("=> ", 1),
            ("function ", 1),
            ("require(", 2),
            ("===", 2),
            ("async ", 1),
            ("document.", 2),
        ],
    ),
    ("go", &[("package main", 6), ("func ", 2), ("fmt.", 3), (":= ", 1), ("import (", 2)]),
    (
        "rust",
        &[("fn main()", 5), ("println!(", 4), ("let mut ", 3), ("impl ", 2), ("use std::", 4), ("-> ", 1)],
    ),
    (
        "java",
        &[
            ("public class ", 4),
            ("public static void main", 6),
            ("System.out.print", 5),
            ("import java.", 5),
            ("private ", 1),
        ],
    ),
    ("csharp", &[("using System", 6), ("Console.Write", 5), ("namespace ", 2), ("static void Main", 3)]),
    (
        "cpp",
        &[
            ("#include <iostream>", 6),
            ("std::", 3),
            ("cout <<", 3),
            ("using namespace", 4),
            ("#include <", 1),
            ("template <", 3),
            ("int main(", 1),
        ],
    ),
    ("c", &[("#include <stdio.h>", 6), ("printf(", 1), ("int main(", 2), ("malloc(", 3), ("#include <", 1)]),
    ("php", &[("<?php", 9), ("$this->", 4), ("echo $", 2)]),
    ("ruby", &[("puts ", 3), ("end\n", 2), (".each do", 4), ("require '", 2), ("def ", 1), ("#{", 1)]),
    ("perl", &[("use strict", 5), ("my $", 4), ("print \"", 1), ("=~ ", 2), ("sub ", 1)]),
    ("lua", &[("local ", 3), ("function ", 1), ("then\n", 2), (" .. ", 2), ("end\n", 1), ("nil", 1)]),
    ("r", &[("<- ", 3), ("library(", 4), ("cat(", 2), ("c(", 1), ("data.frame", 4)]),
    (
        "bash",
        &[
            ("echo ", 2),
            ("fi\n", 3),
            ("done\n", 2),
            ("$(", 2),
            ("#!/bin/", 4),
            ("then\n", 1),
            ("esac", 4),
            ("grep ", 2),
            ("| ", 1),
            ("export ", 1),
        ],
    ),
];

/// The likeliest language of a host for code, and how likely from 0 to 1. A first line that names an interpreter settles it.
pub(super) fn detect<'a>(code: &str, languages: &'a [Language]) -> Option<(&'a Language, f64)> {
    if let Some(line) = code.lines().next().and_then(|line| line.strip_prefix("#!")) {
        let word = line
            .split(['/', ' '])
            .rfind(|word| !word.is_empty() && !word.starts_with('-'))
            .unwrap_or_default();
        let named = languages.iter().find(|language| language.is(word.trim_end_matches(char::is_numeric)));
        if let Some(language) = named {
            return Some((language, 1.0));
        }
    }
    let code = format!("{}\n", code.trim_end());
    let score = |signs: &[(&str, u32)]| -> u32 {
        signs.iter().map(|(sign, weight)| if code.contains(sign) { *weight } else { 0 }).sum()
    };
    let mut scores: Vec<(u32, &Language)> = SIGNS
        .iter()
        .filter_map(|(name, signs)| {
            Some((score(signs), languages.iter().find(|language| language.name == *name)?))
        })
        .collect();
    // Of those that are as likely the first in the list above is meant.
    scores.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let (best, language) = *scores.first()?;
    let second = scores.get(1).map_or(0, |(score, _)| *score);
    if best == 0 {
        return None;
    }
    // Few signs prove little, and so do signs that others have as well.
    let (best, second) = (f64::from(best), f64::from(second));
    Some((language, (best / (best + 2.0)) * (1.0 - second / (best + second) * 0.8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages() -> Vec<Language> {
        let of = |(name, _): &(&str, _)| Language {
            name: name.to_string(),
            title: name.to_string(),
            aliases: if *name == "javascript" { vec!["node".into()] } else { Vec::new() },
            mime: String::new(),
            extension: String::new(),
            source: String::new(),
        };
        SIGNS.iter().map(of).collect()
    }

    #[test]
    fn usual_programs_are_known() {
        let languages = languages();
        for (code, name) in [
            ("def f(x):\n    return x\nprint(f(2))", "python"),
            ("print('hi')", "python"),
            ("const a = [1,2].map(x => x * 2);\nconsole.log(a);", "javascript"),
            ("interface A { n: number }\nconst a: A = {n: 1};\nconsole.log(a.n)", "typescript"),
            ("package main\nimport \"fmt\"\nfunc main() { fmt.Println(1) }", "go"),
            ("fn main() { println!(\"hi\"); }", "rust"),
            ("public class Main { public static void main(String[] a) { System.out.println(1); } }", "java"),
            ("using System; class P { static void Main() { Console.WriteLine(1); } }", "csharp"),
            ("#include <iostream>\nint main() { std::cout << 1; }", "cpp"),
            ("#include <stdio.h>\nint main() { printf(\"hi\"); }", "c"),
            ("<?php echo 1;", "php"),
            ("for i in 1 2 3; do\n  echo $i\ndone", "bash"),
            ("#!/usr/bin/env node\n1", "javascript"),
            ("[1, 2].each do |x|\n  puts x\nend", "ruby"),
        ] {
            let (found, sure) = detect(code, &languages).unwrap();
            assert_eq!(found.name, name, "{code}");
            assert!(sure >= LEAST, "{code}: {sure}");
        }
        assert!(detect("hello world", &languages).is_none_or(|(_, sure)| sure < LEAST));
        assert!(detect("", &languages).is_none());
    }
}
