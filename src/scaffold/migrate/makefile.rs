//! The Makefile of a project: `chartwright` and `kubectl` take the place of programs that are downloaded.
//!
//! Pure. A line that operator-sdk wrote is known by its text, in the forms that its releases 1.0 to 1.42 have. What a person wrote stays. A
//! recipe that needs a change and is not known is left as it is and named. What makes bundles and catalogs stays with operator-sdk and opm:
//! they read the project as before.
//!
//! | module | what is in it |
//! |---|---|
//! | [`rules`] | where a target's lines are |
//! | [`recipe`] | the recipes that call kustomize |
//! | [`download`] | targets that fetch a program |

mod download;
mod recipe;
mod rules;

use super::Edited;
use download::{HELM_OPERATOR, KUSTOMIZE};

const CHARTWRIGHT: &str = include_str!("../templates/migrate/chartwright.mk");
const STILL_USED: &str = "HELM_OPERATOR = $(CHARTWRIGHT)\n";
const WITH_IMAGE: &str = include_str!("../templates/migrate/with_image.mk");

/// For which platforms there is a base image.
const PLATFORMS: (&str, &str) =
    ("PLATFORMS ?= linux/arm64,linux/amd64,linux/s390x,linux/ppc64le", "PLATFORMS ?= linux/arm64,linux/amd64");

/// Operator-sdk's recipe of `make run`.
const RUN: &str = "\t$(HELM_OPERATOR) run";

type Lines = Vec<String>;

/// `has_one_image` says whether config/manager has one container, whose image can be replaced without looking at more.
pub fn edit(text: &str, has_one_image: bool) -> Edited {
    let mut lines: Lines = text.split_inclusive('\n').map(str::to_owned).collect();
    let mut edited = Edited::default();
    run(&mut lines, &mut edited);
    kustomize(&mut lines, has_one_image, &mut edited);
    platforms(&mut lines, &mut edited);
    edited.text = lines.concat();
    edited
}

/// Whether this was done before.
pub fn has_moved(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("CHARTWRIGHT ?="))
}

fn run(lines: &mut Lines, edited: &mut Edited) {
    const REMEDY: &str = "let `make run` start `chartwright run`, which has its flags";
    match HELM_OPERATOR.find(lines) {
        Ok(Some(block)) => {
            lines.splice(block, CHARTWRIGHT.split_inclusive('\n').map(str::to_owned));
        }
        Ok(None) if !lines.iter().any(|line| line.trim_end() == RUN) => return,
        // At the end: the first target is what `make` makes.
        Ok(None) if HELM_OPERATOR.is_nowhere(lines) => {
            if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
                last.push('\n');
            }
            lines.extend(std::iter::once("\n").chain(CHARTWRIGHT.split_inclusive('\n')).map(str::to_owned));
        }
        Ok(None) => {
            edited.notes.push(format!("Makefile: run starts `$(HELM_OPERATOR) run`, and is left as it is; {REMEDY}"));
            return;
        }
        Err(why) => {
            edited.notes.push(format!("Makefile: {why}; {REMEDY}"));
            return;
        }
    }
    for line in lines.iter_mut().filter(|line| line.trim_end() == RUN) {
        *line = line.replacen("$(HELM_OPERATOR)", "$(CHARTWRIGHT)", 1);
    }
    if lines.iter().any(|line| HELM_OPERATOR.is_called(line)) {
        let at = lines.iter().position(|line| line.starts_with("CHARTWRIGHT ?=")).map_or(0, |at| at + 1);
        lines.insert(at, STILL_USED.to_owned());
    }
    edited.why.push("`make run` starts chartwright".to_owned());
}

fn kustomize(lines: &mut Lines, has_one_image: bool, edited: &mut Edited) {
    let changed = recipe::with_kubectl(lines, has_one_image);
    edited.notes.extend(changed.left.iter().map(|(target, why)| format!("Makefile: {target} {why}")));
    if changed.puts_image
        && let Some(at) = ["deploy", "bundle"].iter().find_map(|target| rules::start(lines, target))
    {
        lines.splice(at..at, WITH_IMAGE.split_inclusive('\n').map(str::to_owned));
        edited.why.push("`make deploy` puts IMG into what it applies, and no longer into config/manager".to_owned());
    }
    if changed.count > 0 {
        edited
            .why
            .push("kubectl builds the manifests, and applies them on the server, where a large CRD fits".to_owned());
    }
    match KUSTOMIZE.find(lines) {
        Ok(None) => {}
        Err(why) => edited.notes.push(format!("Makefile: {why}, and is left as it is")),
        Ok(Some(block)) => {
            let users = KUSTOMIZE.users(lines, &block);
            if !users.is_empty() {
                edited.notes.push(format!("Makefile: kustomize is still downloaded, for {}", users.join(", ")));
                return;
            }
            let is_blank = |at: usize| lines.get(at).is_some_and(|line| line.trim().is_empty());
            let end = if is_blank(block.end) { block.end + 1 } else { block.end };
            lines.drain(block.start..end);
            edited.why.push("kustomize is not downloaded any more".to_owned());
        }
    }
}

fn platforms(lines: &mut Lines, edited: &mut Edited) {
    let (many, ours) = PLATFORMS;
    for line in lines.iter_mut().filter(|line| line.trim_end() == many) {
        *line = line.replacen(many, ours, 1);
        edited.why.push("the platforms are those of the base image".to_owned());
    }
}

#[cfg(test)]
mod tests;
