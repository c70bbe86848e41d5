//! Landlock: a second wall around files, independent of mounts.
//!
//! Reading and executing is allowed below the directories that the box is meant to have, writing only below the
//! ones that are meant for it, listing everywhere; and nothing may signal or connect to an abstract socket
//! outside.

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use ::landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::io::Errno;
use std::path::PathBuf;

/// The newest interface whose rights we handle; what an older kernel lacks is left out.
const NEWEST: ABI = ABI::V6;

/// A ruleset that was made ahead and can be applied to many processes.
#[derive(Debug)]
pub struct Fence {
    ruleset: RulesetCreated,
    abi: u32,
}

impl Fence {
    /// Builds the rules. Call it inside the box, after its root is in place.
    pub fn new(readable: &[PathBuf], writable: &[PathBuf]) -> Result<Fence, JailError> {
        let abi = crate::sys::landlock_abi().at(Step::Landlock, "version")?;
        let read = AccessFs::from_read(NEWEST);
        // Device ioctls stay forbidden even where writing is allowed.
        let all = AccessFs::from_all(NEWEST) & !AccessFs::IoctlDev;
        let build = || -> Result<RulesetCreated, Box<dyn std::error::Error>> {
            let mut ruleset = Ruleset::default()
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(NEWEST))?
                .scope(Scope::AbstractUnixSocket | Scope::Signal)?
                .create()?
                .add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::ReadDir))?;
            for path in readable {
                ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(path)?, read))?;
            }
            for path in writable {
                ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(path)?, all))?;
            }
            // Programs write to these as a matter of course.
            for device in ["/dev/null", "/dev/zero", "/dev/full"] {
                let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
                ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(device)?, access))?;
            }
            Ok(ruleset)
        };
        build()
            .map(|ruleset| Fence { ruleset, abi })
            .map_err(|e| JailError::new(Step::Landlock, e.to_string(), Errno::INVAL))
    }

    /// Puts this process behind one more wall, which those that stand where it stood do not stand behind: it can
    /// neither look at them nor signal them any more. Older kernels have no such wall.
    pub fn step_inside() -> Result<(), JailError> {
        let inside = || -> Result<(), Box<dyn std::error::Error>> {
            // Every wall keeps files from other directories, unless it says that it does not.
            let ruleset = Ruleset::default()
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::Refer)?
                .scope(Scope::Signal)?
                .create()?;
            ruleset.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?.restrict_self()?;
            Ok(())
        };
        inside().map_err(|e| JailError::new(Step::Landlock, e.to_string(), Errno::INVAL))
    }

    /// The interface version in force; 0 on a kernel that has none.
    pub fn abi(&self) -> u32 {
        self.abi
    }

    /// Restricts this process and all it will start.
    pub fn restrict(&self) -> Result<(), JailError> {
        if lacks(Mutant::Landlock) {
            return Ok(());
        }
        let failed = |e: &dyn std::fmt::Display| JailError::new(Step::Landlock, e.to_string(), Errno::INVAL);
        let status =
            self.ruleset.try_clone().map_err(|e| failed(&e))?.restrict_self().map_err(|e| failed(&e))?;
        // On a kernel without Landlock the status says so, and so does the receipt, by ABI 0.
        if status.ruleset == RulesetStatus::NotEnforced && self.abi > 0 {
            return Err(failed(&"not enforced"));
        }
        Ok(())
    }
}
