//! KS-19: with any one layer off, the others still stop what they are there for.
//!
//! Layers can be switched off only in a build made for it, never in the one that is shipped. The suite finds it in
//! `target/mutants`, or where `SANDBOXD_MUTANTS` says, and switches by `SANDBOXD_MUTANT`.

use crate::pattern;
use crate::stage::Stage;
use crate::support::{install, repository};
use std::path::PathBuf;

pub(super) fn off(stage: &Stage) -> Result<(), String> {
    let layer = stage.run.args.first().ok_or("the run names no layer in `args`")?;
    let given = std::env::var_os("SANDBOXD_MUTANTS").map(PathBuf::from);
    let binaries = given.unwrap_or_else(|| repository().join("target/mutants"));
    let folder = stage.folder();
    for name in ["sandboxd", "sandbox-executor"] {
        let binary = binaries.join(name);
        if !binary.is_file() {
            return Err(format!(
                "`{}` is missing: a build whose layers can be switched off",
                binary.display()
            ));
        }
        install(&binary, &folder.join(name));
    }
    let programs = repository().join("tests/attacks/programs");
    let (program, library) = (folder.join("ks_19_layers.c"), folder.join("attack.h"));
    for path in [&program, &library] {
        let name = path.file_name().ok_or("no name")?;
        stage.person.write(path, std::fs::read(programs.join(name)).map_err(|e| e.to_string())?);
    }
    let person = stage.person.clone().installed_in(folder).with("SANDBOXD_MUTANT", layer);
    let library = format!("attack.h={}", library.display());
    let seen = stage.notice(&person.run_file(&program).flag("--json").arg("--file", library).out());
    // Otherwise this would be the ordinary build, and prove nothing.
    let text = String::from_utf8_lossy(&seen.stdout);
    let fact =
        pattern::attempts(&text).0.into_iter().find(|attempt| attempt.name == format!("fact: {layer}"));
    match fact {
        Some(attempt) if attempt.answer == "off" => stage.judge(&seen),
        _ => Err(format!("{layer} was not off: {:?}", fact.map(|attempt| attempt.answer))),
    }
}
