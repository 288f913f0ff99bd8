//! Override texts are expanded: first the environment, then Go templates with sprig's functions.
//!
//! Templates are for helm. All texts of a file go through one run, in a chart of our own: they travel as values, and each is
//! evaluated by `tpl` in a line of its own, so that what one defines or leaves open does not reach another and the line says
//! whose failure it was. Results travel back as base64, so they are exact.
//!
//! Whatever the environment holds may be secret. A message shows `$NAME` where a variable's value was, and never an
//! expression of the template.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::render::{Helm, RenderError, complaint};
use crate::values::{Overrides, Values, env};
use crate::workplace::{self, PrivateDir};

const CHART: &str = "apiVersion: v2\nname: own\nversion: 0.0.0\n";
const FILE: &str = "own/templates/overrides.yaml";

/// A value shorter than this would be found in the middle of other words.
const SHORTEST_SECRET: usize = 4;

/// A text with its environment references replaced.
#[derive(Debug, Clone)]
pub struct Text {
    pub text: String,
    /// The variables that are in it, with what they held.
    variables: Vec<(String, String)>,
}

impl Text {
    pub fn expand(written: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let variables = std::cell::RefCell::new(vec![]);
        let text = env::expand(written, |name| {
            let value = lookup(name);
            variables.borrow_mut().extend(value.clone().map(|value| (name.to_owned(), value)));
            value
        });
        let mut variables = variables.into_inner();
        // The longest first: one value may be part of another.
        variables.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Text { text, variables }
    }

    pub fn needs_template(&self) -> bool {
        env::needs_template(&self.text)
    }

    fn without_secrets(&self, message: &str) -> String {
        let secrets = self.variables.iter().filter(|(_, value)| value.len() >= SHORTEST_SECRET);
        secrets.fold(message.to_owned(), |message, (name, value)| message.replace(value, &format!("${name}")))
    }
}

#[derive(Debug)]
pub enum ExpandError {
    /// The text with this index is at fault.
    Text {
        index: usize,
        reason: String,
    },
    Helm(RenderError),
}

/// Evaluates templates. The results are in the order of the texts.
pub async fn evaluate(texts: &[Text], helm: &Helm) -> Result<Vec<String>, ExpandError> {
    let chart = write_chart(texts.len()).map_err(|error| ExpandError::Helm(RenderError::Temporary(error)))?;
    let values = json!({"texts": texts.iter().map(|text| &text.text).collect::<Vec<_>>()});
    // A map with a short key always becomes values.
    let values = Values::new(Some(&values), &Overrides::default()).map(|values| values.file_json()).unwrap_or_default();
    match helm.evaluate(chart.path(), &values).await.map_err(ExpandError::Helm)? {
        Ok(output) => (0..texts.len()).map(|index| result(&output, index)).collect(),
        Err(stderr) => Err(blame(&stderr, texts)),
    }
}

fn write_chart(count: usize) -> std::io::Result<PrivateDir> {
    let dir = workplace::private_dir("overrides-")?;
    std::fs::write(dir.path().join("Chart.yaml"), CHART)?;
    std::fs::create_dir(dir.path().join("templates"))?;
    // Some versions of helm 3 insist on `Template` in what `tpl` gets. Nothing else of the chart is for the texts.
    let line = |n| format!("o{n}: {{{{ tpl (index .Values.texts {n}) (dict \"Template\" .Template) | b64enc }}}}\n");
    let template: String = (0..count).map(line).collect();
    std::fs::write(dir.path().join("templates/overrides.yaml"), template)?;
    Ok(dir)
}

fn result(output: &str, index: usize) -> Result<String, ExpandError> {
    let start = format!("o{index}:");
    let encoded = output.lines().find_map(|line| line.strip_prefix(&start)).map(str::trim);
    let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| ExpandError::Text { index, reason: "the result is not text".into() })
}

fn blame(stderr: &str, texts: &[Text]) -> ExpandError {
    let cause = complaint::cause(stderr);
    let line = stderr.split_once(FILE).and_then(|(_, rest)| rest.strip_prefix(':')?.split(':').next()?.parse().ok());
    let index = line.and_then(|line: usize| line.checked_sub(1)).filter(|index| *index < texts.len());
    match index {
        Some(index) => ExpandError::Text { index, reason: texts[index].without_secrets(&with_hint(cause)) },
        // The message is not one of ours to read, so nothing in it is known to be free of secrets but its existence.
        None => ExpandError::Helm(RenderError::Refused("helm cannot evaluate the templates of overrideValues".into())),
    }
}

/// operator-sdk offers these two functions, helm does not: a chart must not read the environment.
fn with_hint(cause: String) -> String {
    match ["\"env\" not defined", "\"expandenv\" not defined"].iter().any(|part| cause.contains(part)) {
        true => format!("{cause}; write $NAME to use a variable of the environment"),
        false => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(written: &str) -> Text {
        Text::expand(written, &|name| (name == "IMAGE").then(|| "secret:1".to_owned()))
    }

    #[test]
    fn the_failing_text_is_found_by_its_line_and_keeps_its_secrets() {
        let stderr = "Error: template: own/templates/overrides.yaml:2:7: executing \"own/templates/overrides.yaml\" at <tpl (index \
            .Values.texts 1) (dict)>: error calling tpl: cannot parse template \"{{ secret:1 }}\": template: gotpl:1: unexpected \
            <secret:1> in operand\n\nUse --debug flag to render out invalid YAML\n";
        match blame(stderr, &[text("{{ 1 }}"), text("{{ $IMAGE }}")]) {
            ExpandError::Text { index, reason } => {
                assert_eq!((index, reason.as_str()), (1, "unexpected <$IMAGE> in operand"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_function_that_only_operator_sdk_has_is_explained() {
        assert!(
            with_hint("function \"env\" not defined".into())
                .ends_with("write $NAME to use a variable of the environment")
        );
        assert_eq!(with_hint("function \"x\" not defined".into()), "function \"x\" not defined");
    }
}
