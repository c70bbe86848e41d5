//! KS-19 and KS-20: with any one layer off, the others still stop what they are there for.
//!
//! Layers can be left out only in a build made for it, never in the one that is shipped. `tests/attacks/mutants` leaves
//! it in `target/mutants/debug`; `SANDBOXD_MUTANTS` names another place. It obeys `SANDBOXD_MUTANT`.

use crate::pattern;
use crate::seen::Seen;
use crate::stage::Stage;
use crate::support::{install, repository};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Without each of the layers that `args` names, in turn.
pub(super) fn off(stage: &Stage) -> Result<(), String> {
    let mut wrong = String::new();
    for layer in &stage.run.args {
        let seen = without(stage, layer, "ks_19_layers.c", &[], &[])?;
        let text = String::from_utf8_lossy(&seen.stdout);
        let all = pattern::attempts(&text).0;
        let fact = all.iter().find(|attempt| attempt.name == format!("fact: {layer}"));
        let outcome = match fact.map(|attempt| attempt.answer.as_str()) {
            Some("off") => stage.judge(&seen),
            // A build that obeys nobody would prove nothing.
            other => Err(format!("it was not off: {other:?}")),
        };
        let complaints = outcome.err().unwrap_or_default();
        wrong.extend(complaints.lines().map(|line| format!("without {layer}: {line}\n")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// With the root of the host left in place, where only Landlock guards it.
pub(super) fn landlock_alone(stage: &Stage) -> Result<(), String> {
    // Not in `/tmp`, which is covered while a sandbox is built.
    let ground = tempfile::Builder::new().prefix("sandboxd-attacks-alone-").tempdir_in("/var/tmp");
    let ground = ground.map_err(|e| format!("/var/tmp: {e}"))?;
    let canary = stage.person.write(&ground.path().join("canary"), "seen\n");
    stage.person.give(ground.path());
    // Everybody may do everything, so that nothing else refuses.
    for (path, mode) in [(ground.path(), 0o777), (&*canary, 0o666)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|e| e.to_string())?;
    }
    let facts = [
        format!("ATTACK_CANARY_FILE={}", canary.display()),
        format!("ATTACK_STATE_DIR={}", ground.path().display()),
        "ATTACK_EXECUTABLE=/usr/bin/true".to_owned(),
        "ATTACK_ABSTRACT=nobody".to_owned(),
    ];
    let seen = without(stage, "old-root", "ks_20_landlock.c", &facts, &["/root"])?;
    if std::fs::read_to_string(&canary).ok().as_deref() != Some("seen\n") {
        return Err("the file of the host was changed".into());
    }
    stage.judge(&seen)
}

/// Runs a program without a layer, with these variables and words.
fn without(
    stage: &Stage,
    layer: &str,
    program: &str,
    facts: &[String],
    words: &[&str],
) -> Result<Seen, String> {
    let given = std::env::var_os("SANDBOXD_MUTANTS").map(PathBuf::from);
    let binaries = given.unwrap_or_else(|| repository().join("target/mutants/debug"));
    let folder = stage.folder();
    for name in ["sandboxd", "sandbox-executor"] {
        let binary = binaries.join(name);
        if !binary.is_file() {
            return Err(format!("`{}` is missing: run `tests/attacks/mutants`", binary.display()));
        }
        install(&binary, &folder.join(name));
    }
    for name in [program, "attack.h"] {
        let source = repository().join("tests/attacks/programs").join(name);
        let content = std::fs::read(source).map_err(|e| format!("{name}: {e}"))?;
        stage.person.write(&folder.join(name), content);
    }
    let person = stage.person.clone().installed_in(folder).with("SANDBOXD_MUTANT", layer);
    let library = format!("attack.h={}", folder.join("attack.h").display());
    let mut run = person.run_file(&folder.join(program)).flag("--json").arg("--file", library);
    for fact in facts {
        run = run.arg("--env", fact);
    }
    Ok(stage.notice(&run.words(words.iter().copied()).out()))
}
