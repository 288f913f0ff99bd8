//! The recipes that call kustomize, and what calls kubectl in its place.

use super::{Lines, rules};

/// What operator-sdk's Makefiles build, and what becomes of it there.
const TARGETS: [&str; 5] = ["install", "uninstall", "deploy", "undeploy", "bundle"];
const DIRECTORIES: [&str; 3] = ["config/crd", "config/default", "config/manifests"];
const SET_IMAGE: &str = "cd config/manager && $(KUSTOMIZE) edit set image controller=$(IMG)";

const NOT_ONE_IMAGE: &str = "is left as it is: it sets the operator's image, and which of those in config/manager/manager.yaml that is cannot be told";

/// What was done.
#[derive(Debug, Default)]
pub struct Changed {
    pub count: usize,
    /// Whether a recipe calls `WITH_IMAGE` now.
    pub puts_image: bool,
    /// Targets that stay as they are, and why.
    pub left: Vec<(&'static str, String)>,
}

pub fn with_kubectl(lines: &mut Lines, has_one_image: bool) -> Changed {
    let mut changed = Changed::default();
    for target in TARGETS {
        let Some(head) = rules::head(lines, target) else { continue };
        let range = rules::recipe(lines, head);
        let before = &lines[range.clone()];
        if !before.iter().any(|line| line.contains("KUSTOMIZE")) {
            continue;
        }
        let puts_image = before.iter().any(|line| plain(line) == SET_IMAGE);
        if puts_image && !has_one_image {
            changed.left.push((target, NOT_ONE_IMAGE.to_owned()));
            continue;
        }
        match before.iter().map(|line| translated(line, puts_image)).collect::<Result<Vec<String>, String>>() {
            Ok(recipe) => {
                lines.splice(range, recipe.into_iter().filter(|line| !line.is_empty()));
                lines[head] = rules::without(&lines[head], "kustomize");
                changed.count += 1;
                changed.puts_image |= puts_image;
            }
            Err(line) => {
                changed.left.push((target, format!("was changed by somebody (`{line}`), and is left as it is")))
            }
        }
    }
    changed
}

/// One line for kubectl, or nothing where it is not needed. What does not call kustomize stays.
fn translated(line: &str, puts_image: bool) -> Result<String, String> {
    let body = plain(line);
    if body == SET_IMAGE {
        return Ok(String::new());
    }
    if !body.contains("KUSTOMIZE") {
        return Ok(line.to_owned());
    }
    let unknown = || body.clone();
    let (dir, rest) =
        body.strip_prefix("$(KUSTOMIZE) build ").and_then(|all| all.split_once(" | ")).ok_or_else(unknown)?;
    if !DIRECTORIES.contains(&dir) || rest.contains("KUSTOMIZE") {
        return Err(body.clone());
    }
    let (kubectl, rest) = match rest.split_once(' ') {
        Some((kubectl @ ("kubectl" | "$(KUBECTL)"), "apply -f -")) => {
            (kubectl, format!("{kubectl} apply --server-side --force-conflicts -f -"))
        }
        Some((kubectl @ ("kubectl" | "$(KUBECTL)"), words)) if words.starts_with("delete ") => {
            (kubectl, rest.to_owned())
        }
        Some(("operator-sdk" | "$(OPERATOR_SDK)", words)) if words.starts_with("generate bundle ") => {
            ("kubectl", rest.to_owned())
        }
        _ => return Err(body.clone()),
    };
    let with_image = if puts_image { " | $(WITH_IMAGE)" } else { "" };
    Ok(format!("\t{kubectl} kustomize {dir}{with_image} | {rest}\n"))
}

/// Without the tab, and with one way to write variables.
fn plain(line: &str) -> String {
    let mut plain = line.trim().to_owned();
    for name in ["KUSTOMIZE", "IMG", "KUBECTL", "OPERATOR_SDK"] {
        plain = plain.replace(&format!("${{{name}}}"), &format!("$({name})"));
    }
    plain
}
