//! The executor as a program of its own. The role is the first argument; the control stream is descriptor 0.

use jail::sys;
use std::process::ExitCode;

fn main() -> ExitCode {
    executor::end_on_panic();
    let args: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let control = || sys::inherited(0).ok_or_else(|| "no control stream".to_owned());
    let outcome = match words.as_slice() {
        [_, "spawner"] => control().and_then(|socket| executor::spawner(socket, None, true)),
        [_, "spawner", "--nothing-ahead"] => {
            control().and_then(|socket| executor::spawner(socket, None, false))
        }
        [_, "plain", spec] => control().and_then(|control| executor::plain(spec, control)),
        [_, "--version" | "-V"] => {
            println!("sandbox-executor {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => Err("this program is started by `sandboxd`; run `sandboxd --help`".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("sandbox-executor: {reason}");
            ExitCode::from(125)
        }
    }
}
