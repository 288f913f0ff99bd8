//! Environment references in override texts, as Go's `os.ExpandEnv` reads them: `$VAR`, `${VAR}`.
//!
//! operator-sdk expands with that function, so existing projects depend on what it does with odd input:
//!
//! - an unset variable is an empty text;
//! - after `$`, one of `*#$@!?-` or a digit is a name of one character: `$10` is the variable `1` and a `0`, and `$$` is
//!   the variable `$`, which is not set, so both dollars vanish;
//! - between braces everything up to the first `}` is the name: `${a b}`, `${HOME:-x}` are (unset) variables;
//! - `${}` and a `${` that is never closed vanish, and reading goes on behind them;
//! - a `$` before anything else, or at the end, stays.
//!
//! There is no way to escape a dollar. Nothing is read here: the caller passes the lookup in. And nothing is expanded twice:
//! what a variable holds is taken as it is.

/// Replaces the references in `text` by what `lookup` knows.
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (reference, behind) = reference(after);
        match reference {
            Reference::Name(name) => out.push_str(&lookup(name).unwrap_or_default()),
            Reference::Broken => {}
            Reference::None => out.push('$'),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Whether an override, once expanded, is a Go template for Helm to evaluate. Text without `{{` passes through one unchanged.
pub fn needs_template(text: &str) -> bool {
    text.contains("{{")
}

/// What follows a dollar.
enum Reference<'a> {
    Name(&'a str),
    /// Braces without a name, or never closed: dropped.
    Broken,
    /// No reference at all: the dollar is text.
    None,
}

/// Splits what follows a dollar into the reference and the text behind it.
fn reference(after: &str) -> (Reference<'_>, &str) {
    if let Some(inner) = after.strip_prefix('{') {
        return match inner.split_once('}') {
            None => (Reference::Broken, inner),
            Some(("", behind)) => (Reference::Broken, behind),
            Some((name, behind)) => (Reference::Name(name), behind),
        };
    }
    let length = match after.chars().next() {
        Some('*' | '#' | '$' | '@' | '!' | '?' | '-' | '0'..='9') => 1,
        _ => after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
    };
    match after.split_at(length) {
        ("", behind) => (Reference::None, behind),
        (name, behind) => (Reference::Name(name), behind),
    }
}

#[cfg(test)]
mod tests;
