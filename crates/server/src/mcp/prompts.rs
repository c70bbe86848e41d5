//! Words for agents: how to use this well.

use rmcp::model::{
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage,
    Role,
};

/// What every client is told first.
pub(super) const INSTRUCTIONS: &str = "Runs code in isolated sandboxes. Use `execute_code` for anything that a program \
answers better than a guess: arithmetic, parsing, data, checking code you wrote. Each call starts fresh unless you give a \
`session_id`, which keeps files between calls. There is no network inside. Print what you want to see; files that the code \
writes to its working directory come back as well. A time limit applies: give `timeout` in seconds for long work.";

/// A prompt: its name, title, what it is for, its arguments (name, what it is, whether it is needed), and its text.
struct Entry {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    arguments: &'static [(&'static str, &'static str, bool)],
    text: &'static str,
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "solve_with_code",
        title: "Solve it with code",
        description: "Answer a question by writing a program, running it and checking what it says",
        arguments: &[
            ("question", "What shall be answered", true),
            ("language", "Language of the program", false),
        ],
        text: "Answer this by writing a small program in {language} and running it with `execute_code`: {question}\n\nPrint \
the intermediate results that convince you. If it fails, read the error, change the program and run it again. Then answer in \
one or two sentences, with the figures that the program printed.",
    },
    Entry {
        name: "analyse_data",
        title: "Analyse a file",
        description: "Look at a file step by step in a session that keeps it",
        arguments: &[
            ("path", "The file, in the workspace of the session", true),
            ("session_id", "The session", true),
            ("goal", "What to find out", false),
        ],
        text: "Analyse the file {path} with Python in session {session_id}: {goal}\n\nFirst look at its size, columns and a \
few rows. Then compute what answers the question, and save any picture as a PNG in the working directory: it comes back with \
the result. Use `execute_code` with `session_id` {session_id} for every step, so that files stay.",
    },
    Entry {
        name: "fix_code",
        title: "Fix code",
        description: "Find out why code fails, and prove that the mended code works",
        arguments: &[("code", "The code", true), ("language", "Its language", true)],
        text: "This {language} code does not do what it should:\n\n{code}\n\nCheck it with `validate_code`, run it with \
`execute_code`, and read what it says. Change as little as possible, run it again, and show the mended code with the output \
that proves it.",
    },
];

pub(super) fn all() -> Vec<Prompt> {
    let made = |entry: &Entry| {
        let arguments = entry.arguments.iter().map(|(name, about, needed)| {
            PromptArgument::new(*name).with_description(*about).with_required(*needed)
        });
        Prompt::new(entry.name, Some(entry.description), Some(arguments.collect())).with_title(entry.title)
    };
    ENTRIES.iter().map(made).collect()
}

pub(super) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let Some(entry) = ENTRIES.iter().find(|entry| entry.name == request.name) else {
        return Err(ErrorData::new(
            ErrorCode::INVALID_PARAMS,
            format!("Unknown prompt: {}", request.name),
            None,
        ));
    };
    let mut text = entry.text.to_owned();
    for (name, _, needed) in entry.arguments {
        let given = request.arguments.as_ref().and_then(|given| given.get(*name)?.as_str());
        let value = match (given, *needed, *name) {
            (Some(value), _, _) => value,
            (None, true, _) => {
                return Err(ErrorData::invalid_params(format!("`{name}` is missing"), None));
            }
            (None, false, "language") => "Python",
            (None, false, _) => "what is worth knowing about it",
        };
        text = text.replace(&format!("{{{name}}}"), value);
    }
    let message = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![message]).with_description(entry.description))
}
