//! Targets that fetch a program: a variable, a rule with conditions around its recipe, and one address to fetch from.

use std::ops::Range;

use super::rules;

pub struct Tool {
    /// Of the program and of its target.
    name: &'static str,
    variable: &'static str,
    /// What the address has in it.
    address: [&'static str; 2],
}

pub const KUSTOMIZE: Tool =
    Tool { name: "kustomize", variable: "KUSTOMIZE", address: ["/kustomize/releases/download/", "kustomize_"] };
pub const HELM_OPERATOR: Tool = Tool {
    name: "helm-operator",
    variable: "HELM_OPERATOR",
    address: ["/operator-sdk/releases/download/", "helm-operator"],
};

/// What operator-sdk's recipes do beside fetching.
const STEPS: [&str; 7] = ["@{", "}", "set -e", "mkdir -p ", "mv ", "chmod +x ", "tar xzf - -C bin/"];
const FETCHERS: [&str; 3] = ["curl ", "wget ", "go install "];
const CONDITIONS: [&str; 4] = ["ifeq", "ifneq", "else", "endif"];

impl Tool {
    /// The lines that fetch it. None where no target does.
    ///
    /// # Errors
    /// The target does something else, in words.
    pub fn find(&self, lines: &[String]) -> Result<Option<Range<usize>>, String> {
        let Some(head) = rules::head(lines, self.name) else { return Ok(None) };
        let above = lines[..head].iter().rev();
        let start = head - above.take_while(|line| self.is_above(line)).count();
        let (mut end, mut depth, mut fetches) = (head + 1, 0, false);
        let mut strange = None;
        while let Some(line) = lines.get(end) {
            let is_condition = CONDITIONS.iter().any(|word| line.starts_with(word));
            if depth == 0 && !is_condition && !line.starts_with('\t') {
                break;
            }
            if line.starts_with("if") {
                depth += 1;
            }
            if line.starts_with("endif") {
                depth -= 1;
            }
            fetches |= FETCHERS.iter().any(|word| line.contains(word)) || self.is_called(line);
            let is_known = is_condition || self.is_assigned(line) || self.fetches(line) || is_step(line);
            if !is_known {
                strange = strange.or(Some(line.trim()));
            }
            end += 1;
        }
        match strange.filter(|_| fetches) {
            Some(line) => Err(format!("{} was changed by somebody (`{line}`)", self.name)),
            None => Ok(fetches.then_some(start..end)),
        }
    }

    /// Whether neither these lines nor others that they include say where it comes from.
    pub fn is_nowhere(&self, lines: &[String]) -> bool {
        let is_said = |line: &String| {
            self.is_assigned(line) || ["include ", "-include ", "sinclude "].iter().any(|word| line.starts_with(word))
        };
        rules::head(lines, self.name).is_none() && !lines.iter().any(is_said)
    }

    fn is_above(&self, line: &str) -> bool {
        rules::is_phony(line, self.name) || self.is_assigned(line)
    }

    fn is_assigned(&self, line: &str) -> bool {
        let rest = line.strip_prefix(self.variable).map(str::trim_start);
        rest.is_some_and(|rest| [":=", "?=", "="].iter().any(|sign| rest.starts_with(sign)))
    }

    fn fetches(&self, line: &str) -> bool {
        line.trim_start().starts_with("curl ") && self.address.iter().all(|part| line.contains(part))
    }

    /// Whether a line uses the program by its variable.
    pub fn is_called(&self, line: &str) -> bool {
        let variable = self.variable;
        !line.starts_with('#')
            && (line.contains(&format!("$({variable})")) || line.contains(&format!("${{{variable}}}")))
    }

    /// The targets that need it, outside of some lines.
    pub fn users(&self, lines: &[String], outside: &Range<usize>) -> Vec<String> {
        let (mut users, mut target): (Vec<String>, &str) = (vec![], "a variable");
        let others = lines.iter().enumerate().filter(|(at, _)| !outside.contains(at)).map(|(_, line)| line);
        for line in others {
            let mut needs = self.is_called(line);
            if let Some(found) = rules::target_of(line) {
                target = found;
                needs |= rules::prerequisites(line).contains(&self.name);
            } else if !line.starts_with('\t') && needs {
                target = "a variable";
            }
            if needs && users.last().is_none_or(|last| last != target) {
                users.push(target.to_owned());
            }
        }
        users
    }
}

fn is_step(line: &str) -> bool {
    let body = line.trim().trim_end_matches('\\').trim_end().trim_end_matches(';').trim_end();
    line.starts_with('\t')
        && STEPS.iter().any(|step| body == step.trim_end() || (step.ends_with(' ') && body.starts_with(step)))
}
