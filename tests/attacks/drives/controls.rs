//! Controls: harm that is done without `sandboxd`, which would prevent or undo it.

use super::Drive;
use crate::stage::Stage;

pub(super) const DRIVES: &[(&str, Drive)] = &[("bare", bare)];

fn bare(stage: &Stage) -> Result<(), String> {
    match stage.execute_bare()? {
        said if said.trim_end().ends_with("done") => Ok(()),
        said => Err(format!("it did not say that it was done: {said}")),
    }
}
