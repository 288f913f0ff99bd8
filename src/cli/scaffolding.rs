//! What the commands share that write to a project: `init`, `create api`, `delete api` and `migrate`.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::Usage;
use crate::scaffold::draft::Draft;
use crate::scaffold::error::ScaffoldError;
use crate::scaffold::plan::Plan;

/// A draft of the project in the working directory.
pub fn here() -> anyhow::Result<Draft> {
    Ok(Draft::of(&std::env::current_dir().context("cannot find the working directory")?))
}

/// Writes a draft. Whoever interrupts now comes too late: the rest is a matter of milliseconds.
pub fn written(draft: &Draft, is_forced: bool) -> anyhow::Result<Plan> {
    let _held = (signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok());
    draft.commit(is_forced).map_err(sorted)
}

/// Arguments that make no sense have an exit code of their own.
pub fn sorted(error: ScaffoldError) -> anyhow::Error {
    match error.is_usage() {
        true => Usage(error.to_string()).into(),
        false => error.into(),
    }
}

/// What a person should know.
pub fn remarks(notes: &[String], plan: &Plan) -> String {
    // Only config/rbac/role.yaml is kept so: it alone is made from all charts.
    let kept = plan.kept.iter().map(|path| {
        format!(
            "{} was changed by hand and is left as it is; regenerate it with `chartwright generate rbac`",
            path.display()
        )
    });
    notes.iter().cloned().chain(kept).map(|note| format!("note: {note}\n")).collect()
}
