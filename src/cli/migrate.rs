//! `chartwright migrate`: a project of operator-sdk's helm plugin becomes one of Chartwright.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::asking::is_agreed;
use super::output::{Colour, Format, print, print_coloured, tell};
use super::scaffolding::{here, sorted, written};
use crate::preview::unified::{coloured, of_texts};
use crate::printable::escaped;
use crate::render::Helm;
use crate::scaffold::generated::Options;
use crate::scaffold::migrate::{Change, Migration, Wanted, base_image, migration};

/// Move a project of operator-sdk's helm plugin to Chartwright
///
/// Run it in the directory of the project. It shows a diff with the reasons: the Dockerfile builds on another image, the Makefile calls
/// chartwright and kubectl, the manager gets more memory, and its role gets what is used beside. Then it asks, and makes all of these changes
/// or, on an error, none.
///
/// Lines that operator-sdk wrote are known by their text. What somebody has changed is left and named. PROJECT, watches.yaml, the charts and
/// the samples stay as they are, and so do bundles: operator-sdk's tools still work. A second time there is nothing to do.
///
/// Nothing needs a cluster. Custom resources and releases that are there are taken over by the new image, and given back by the old one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright migrate
  chartwright migrate --dry-run
  chartwright migrate --yes --image registry.example.com/chartwright:1.0.0
  chartwright migrate --typed-crds -o json")]
pub struct Args {
    /// The image to build on [default: chartwright in the version of this program]
    #[arg(long, value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub image: Option<String>,
    /// Give open CRDs the fields of their charts' values
    #[arg(long)]
    pub typed_crds: bool,
    /// Have these CRDs enforce the types of values.yaml, where the chart has no schema
    #[arg(long, requires = "typed_crds")]
    pub strict_types: bool,
    /// Make config/rbac/role.yaml anew from the charts, with the rights that are needed and no others
    #[arg(long)]
    pub rbac: bool,
    /// The helm program for --rbac, version 3 or 4 [default: `helm` on PATH]
    #[arg(long, value_name = "PATH", env = "CHARTWRIGHT_HELM")]
    pub helm: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Only show what would change
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Print data for scripts
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// When to colour the diff
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut draft = here()?;
    let wanted = Wanted {
        image: args.image.clone().unwrap_or_else(base_image),
        definitions: args.typed_crds.then_some(Options { strict_types: args.strict_types, ..Options::default() }),
    };
    let helm = if args.rbac { Some(Helm::find(args.helm.as_deref()).await?) } else { None };
    let found = migration(&draft, &wanted, helm.as_ref()).await.map_err(sorted)?;
    if args.output.is_none() {
        print_coloured(&shown(&found, args.color.is_on()))?;
    }
    let is_made = !found.changes.is_empty() && is_wanted(&args)?;
    if is_made {
        // Somebody may have worked on a file while the question stood there.
        if migration(&draft, &wanted, helm.as_ref()).await.map_err(sorted)? != found {
            bail!("something changed here in the meantime, and nothing was written; run it again");
        }
        found.put_into(&mut draft);
        written(&draft, false)?;
    }
    match args.output {
        Some(format) => print(&format.text(&data(&found, is_made))?)?,
        None if is_made => print(&done(&found))?,
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks, if there is somebody to ask.
fn is_wanted(args: &Args) -> anyhow::Result<bool> {
    let agreed = match (args.yes, args.dry_run || args.output.is_some()) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => is_agreed("Make these changes?")?,
    };
    if agreed.is_none() && args.output.is_none() {
        tell("nothing was changed; make these changes with --yes");
    }
    Ok(agreed.unwrap_or(false))
}

fn shown(found: &Migration, is_coloured: bool) -> String {
    if found.changes.is_empty() {
        return format!("nothing to do: this project has moved to Chartwright\n{}", notes(found));
    }
    let change = |change: &Change| format!("# {}: {}\n{}", change.path, change.why.join("; "), difference(change));
    let diff: String = found.changes.iter().map(change).collect();
    format!("{}{}", if is_coloured { coloured(&diff) } else { escaped(&diff).into_owned() }, notes(found))
}

fn difference(Change { path, before, after, .. }: &Change) -> String {
    let from = if before.is_empty() { "/dev/null".to_owned() } else { format!("a/{path}") };
    of_texts((&from, before), (&format!("b/{path}"), after))
}

fn notes(found: &Migration) -> String {
    found.notes.iter().map(|note| format!("note: {note}\n")).collect()
}

fn done(found: &Migration) -> String {
    let files = match found.changes.len() {
        1 => "1 file was changed".to_owned(),
        count => format!("{count} files were changed"),
    };
    format!("{files}\nnext:\n  make docker-build docker-push IMG=<image>\n  make deploy IMG=<image>\n")
}

fn data(found: &Migration, is_made: bool) -> Value {
    let change = |change: &Change| json!({"path": change.path, "reasons": change.why, "diff": difference(change)});
    let changes: Vec<Value> = found.changes.iter().map(change).collect();
    json!({"project": found.project, "changes": changes, "notes": found.notes, "made": is_made})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Migration {
        let change = Change {
            path: "Dockerfile".into(),
            before: "FROM a\n".into(),
            after: "FROM b\n".into(),
            why: vec!["one".into(), "two".into()],
        };
        Migration { project: "shop".into(), changes: vec![change], notes: vec!["look".into()] }
    }

    #[test]
    fn each_file_has_a_line_that_says_why_and_a_diff() {
        let expected =
            "# Dockerfile: one; two\n--- a/Dockerfile\n+++ b/Dockerfile\n@@ -1 +1 @@\n-FROM a\n+FROM b\nnote: look\n";
        assert_eq!(shown(&found(), false), expected);
        assert!(shown(&found(), true).contains("\u{1b}[32m+FROM b\u{1b}[0m\n"));
        assert!(done(&found()).starts_with("1 file was changed\n"));
    }

    #[test]
    fn where_nothing_is_to_do_that_is_said_with_what_to_look_at() {
        let found = Migration { changes: vec![], ..found() };
        assert_eq!(shown(&found, true), "nothing to do: this project has moved to Chartwright\nnote: look\n");
    }

    #[test]
    fn scripts_get_the_same_as_data() {
        let data = data(&found(), false);
        assert_eq!(
            (&data["project"], &data["made"], &data["notes"][0]),
            (&json!("shop"), &json!(false), &json!("look"))
        );
        assert_eq!(
            (&data["changes"][0]["path"], &data["changes"][0]["reasons"]),
            (&json!("Dockerfile"), &json!(["one", "two"]))
        );
    }
}
