//! The generated values of a preview: those of the Secret, or else of a record. Stand-ins take the place of what the operator would generate, since
//! nobody but the operator writes the Secret.

use super::{PreviewError, Scene};
use crate::error::Category;
use crate::generate::plan::{Fate, Held, Plan};
use crate::generate::{self, GenerateError, Texts, make, placed, seed};
use crate::identity::Identity;
use crate::reconcile::is_of_chart;
use crate::redaction::Redactor;
use crate::release::History;
use crate::sources::{self, WantedError};
use crate::values::{Placed, Values};

pub(super) async fn values(
    scene: &Scene<'_>,
    identity: &Identity,
    history: &History,
) -> Result<Vec<Placed>, PreviewError> {
    let generators = &scene.watch.generate;
    if generators.is_empty() {
        return Ok(vec![]);
    }
    let held = held(scene, identity).await.map_err(WantedError::from)?;
    let adopts = scene.watch.adopt.allows_releases();
    let record = seed::values(history, |release| adopts && is_of_chart(release, &scene.watch.chart));
    let plan = Plan::of(generators, &held, &identity.wishes.rotation, record.as_ref().map(|(_, values)| values));
    let mut texts: Texts = held.texts.clone();
    for texts_of_record in plan.fates.iter().filter_map(|(_, fate)| match fate {
        Fate::Restore(texts) => Some(texts.clone()),
        _ => None,
    }) {
        texts.extend(texts_of_record);
    }
    let new = plan.names(|fate| matches!(fate, Fate::Generate | Fate::Rotate));
    if !new.is_empty() {
        (scene.warn)(&format!(
            "placeholders stand for values that are not known, and that the operator generates if its Secret lacks them: {}",
            new.join(", ")
        ));
        let stand_ins = make::stand_in_texts(generators);
        let of_new = generators.iter().filter(|it| new.contains(&it.name.as_str())).flat_map(|it| it.keys());
        texts.extend(of_new.filter_map(|key| Some((key.clone(), stand_ins.get(&key)?.clone()))));
    }
    Ok(placed(generators, &texts))
}

/// What the Secret holds. Nothing of one that may not be read.
async fn held(scene: &Scene<'_>, identity: &Identity) -> Result<Held, GenerateError> {
    let (holder, keys) = (identity.holder(), generate::keys(&scene.watch.generate));
    match sources::read_generated(scene.calls, &identity.namespace, &holder.name(), &keys).await {
        Ok((seen, _)) => holder.held(&seen, &identity.wishes.rotation),
        Err(error) if error.category() == Category::Forbidden => {
            (scene.warn)(&error.to_string());
            Ok(Held::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Knows the generated values of now and those of earlier revisions.
pub(super) fn redactor(scene: &Scene<'_>, values: &Values, history: &History) -> Redactor {
    let paths = scene.watch.generate.iter().flat_map(|it| &it.paths);
    let pointers: Vec<String> = paths.map(|(_, path)| path.pointer()).collect();
    let mut redactor = Redactor::default();
    if !pointers.is_empty() {
        redactor.learn(values.json(), values.sourced().iter().filter(|it| pointers.contains(it)));
        history.iter().for_each(|release| redactor.learn(&release.config.value(), &pointers));
    }
    redactor
}
