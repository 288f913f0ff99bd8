//! Whether a chart's files mention something in a template action (`{{ … }}`).
//!
//! Read from the text, since what a template does shows only when it runs. Values and other files count too, because they may
//! be given to `tpl`; only Markdown is taken for documentation.

use std::io::Read;
use std::path::Path;

use super::archive;

/// Looks into a file of a chart, and into a packed subchart.
pub fn any_in_file(path: &Path, content: &[u8], is_meant: fn(&str) -> bool) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => false,
        Some("tgz") if path.parent().is_some_and(|parent| parent.ends_with("charts")) => {
            any_in_archive(content, is_meant)
        }
        _ => std::str::from_utf8(content).is_ok_and(|text| any_in_text(text, is_meant)),
    }
}

/// A subchart that cannot be read is helm's to complain about.
fn any_in_archive(packed: &[u8], is_meant: fn(&str) -> bool) -> bool {
    let mut found = false;
    let _ = archive::each_file(packed, |path, entry| {
        let mut content = vec![];
        entry.take(super::MOST_BYTES).read_to_end(&mut content).map_err(|_| ())?;
        found |= any_in_file(path, &content, is_meant);
        // The end of the search, as an error, ends the reading.
        if found { Err(()) } else { Ok(()) }
    });
    found
}

/// Whether an action outside of comments is meant.
pub fn any_in_text(text: &str, is_meant: fn(&str) -> bool) -> bool {
    let actions = text.split("{{").skip(1);
    actions
        .filter(|action| !action.trim_start_matches(['-', ' ', '\n']).starts_with("/*"))
        .any(|action| is_meant(action.split_once("}}").map_or(action, |(inside, _)| inside)))
}
