//! The lists of all values beside the samples, regenerated from the charts.
//!
//! Only files that we wrote are regenerated, which their first line says. The samples themselves belong to the user.

use std::path::Path;

use super::api::Api;
use super::definitions::Renewed;
use super::draft::Draft;
use super::entries;
use super::error::ScaffoldError;
use super::layout;
use super::sample;
use super::values::ChartValues;
use crate::yaml;

/// The lists of the kinds in watches.yaml. Nothing is written, here or in the draft.
///
/// # Errors
/// A chart or a list cannot be read.
pub fn renewed(draft: &Draft) -> Result<Vec<Renewed>, ScaffoldError> {
    let entries = entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default());
    let files = std::fs::read_dir(draft.root().join(layout::FULL_SAMPLES)).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "yaml"));
    names.sort();
    let mut all = vec![];
    for name in names {
        let path = format!("{}/{name}", layout::FULL_SAMPLES);
        let before = draft.read(&path)?.unwrap_or_default();
        let known = before.starts_with(sample::FULL).then(|| kind_of(&before)).flatten();
        let Some((api, resource)) = known else { continue };
        let mut of_kind = entries.iter().filter(|entry| entry.is_of(&api.group, &api.kind));
        let entry = of_kind.clone().find(|entry| entry.version == api.version).or_else(|| of_kind.next());
        let Some(entry) = entry else { continue };
        let wrong = |error: String| ScaffoldError::Generated { file: path.clone().into(), reason: error };
        let chart = ChartValues::read(&draft.root().join(&entry.chart)).map_err(|error| wrong(error.to_string()))?;
        let after = sample::full(&api, &resource, &chart);
        all.push(Renewed { path, before, after });
    }
    Ok(all)
}

/// The API and the name of a resource. The API's names for commands do not matter here.
fn kind_of(text: &str) -> Option<(Api, String)> {
    let resource = yaml::parse(text).ok()?;
    let (group, version) = resource["apiVersion"].as_str()?.split_once('/')?;
    let api = Api::new(group, version, resource["kind"].as_str()?, true).ok()?;
    Some((api, resource["metadata"]["name"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &tempfile::TempDir, path: &str, text: &str) {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_list_follows_its_chart_and_files_of_others_are_left() {
        let dir = tempfile::tempdir().unwrap();
        put(&dir, "watches.yaml", "- {group: example.com, version: v1, kind: Shop, chart: helm-charts/shop}\n");
        put(&dir, "helm-charts/shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 0.1.0\n");
        put(&dir, "helm-charts/shop/values.yaml", "colour: blue\n");
        let api = Api::new("example.com", "v1", "Shop", true).unwrap();
        let old = sample::full(&api, "shop-sample", &ChartValues::from_text("shop", "colour: red\n", None).unwrap());
        put(&dir, "config/samples/full/a_v1_shop.yaml", &old);
        put(&dir, "config/samples/full/gone.yaml", &old.replace("Shop", "Gone"));
        put(&dir, "config/samples/full/mine.yaml", "kind: Shop\n");
        let all = renewed(&Draft::of(dir.path())).unwrap();
        let [Renewed { path, before, after }] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((path.as_str(), before), ("config/samples/full/a_v1_shop.yaml", &old));
        assert_eq!(*after, old.replace("colour: red", "colour: blue"));
    }
}
