use super::*;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("charts/a")).unwrap();
    std::fs::write(dir.path().join("charts/a/Chart.yaml"), "apiVersion: v2\nname: a\nversion: 1.0.0\n").unwrap();
    dir
}

/// helm, as far as these tests need it: a template becomes what is in it, in upper case, and `bad` fails.
async fn fake(texts: &[Text]) -> Result<Vec<String>, ExpandError> {
    match texts.iter().position(|text| text.text.contains("bad")) {
        Some(index) => Err(ExpandError::Text { index, reason: "it is bad".into() }),
        None => Ok(texts.iter().map(|text| text.text.trim_matches(['{', ' ', '}']).to_uppercase()).collect()),
    }
}

fn check_text(text: &str) -> Result<Checked, WatchesError> {
    let dir = project();
    let file = File { path: Path::new("watches.yaml"), base: dir.path(), lines: Lines::of(text) };
    let env = |name: &str| (name == "TAG").then(|| "1.2".to_owned());
    let drafts = file.drafts(text, &env)?;
    block_on(file.finish(drafts, async |texts: &[Text]| fake(texts).await))
}

fn one(fields: &str) -> Result<Watch, WatchesError> {
    let text = format!("- group: g.io\n  version: v1\n  kind: A\n  chart: charts/a\n{fields}");
    check_text(&text).unwrap().entries.remove(0)
}

fn message(fields: &str) -> String {
    one(fields).unwrap_err().to_string()
}

const GOOD: &str = "- {group: g.io, version: v1, kind: A, chart: charts/a}\n";

#[test]
fn an_entry_without_options_has_the_defaults() {
    let checked = check_text(GOOD).unwrap();
    assert!(checked.warnings.is_empty());
    let watch = checked.entries[0].as_ref().unwrap();
    assert_eq!(watch.gvk, GroupVersionKind::gvk("g.io", "v1", "A"));
    assert_eq!(watch.chart.name, "a");
    assert!(watch.watch_dependents && watch.lookup == Lookup::Release && !watch.allow_empty);
    assert_eq!((watch.prune, watch.reconcile_period, watch.max_concurrent), (Prune::Safe, None, None));
    assert_eq!(watch.crds, Crds::Create);
    assert_eq!((&watch.selector, &watch.release_namespace, &watch.overrides), (&None, &None, &Overrides::default()));
    assert_eq!((watch.max_history, watch.on_failure, watch.retries), (10, OnFailure::Stop, 3));
    assert_eq!((watch.progress_deadline, &watch.release_name), (None, &NameTemplate::default()));
    assert_eq!(watch.log_tail, 0, "no logs are read");
}

#[test]
fn every_option_is_read() {
    let watch = one("  watchDependentResources: false
  overrideValues: {image.tag: $TAG, replicas: 3, debug: true}
  selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}
  reconcilePeriod: 1m30s
  dryRunOption: server
  maxConcurrentReconciles: 7
  releaseNamespace: apps
  prune: all
  crds: createreplace
  allowEmpty: true
  maxHistory: 0
  onFailure: rollback
  retries: 5
  progressDeadline: 10m
  hookTimeout: 30m
  logTail: 20
  releaseName: '{{ .kind }}-{{ .metadata.name }}'
")
    .unwrap();
    assert!(!watch.watch_dependents && watch.lookup == Lookup::Cluster && watch.allow_empty);
    let overrides: Vec<String> = watch.overrides.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(overrides, ["debug=true", "image.tag=\"1.2\"", "replicas=3"]);
    assert_eq!(watch.selector.as_deref(), Some("a=b,c"));
    assert_eq!(watch.reconcile_period, Some(Duration::from_secs(90)));
    assert_eq!((watch.max_concurrent, watch.prune, watch.crds), (Some(7), Prune::All, Crds::CreateReplace));
    assert_eq!(watch.release_namespace.as_deref(), Some("apps"));
    assert_eq!((watch.max_history, watch.on_failure, watch.retries), (0, OnFailure::Rollback, 5));
    assert_eq!(watch.progress_deadline, Some(Duration::from_secs(600)));
    assert_eq!((watch.hook_timeout, watch.log_tail), (Some(Duration::from_secs(1800)), 20));
    assert_eq!(watch.release_name.name("A", None, "web"), "a-web");
}

#[test]
fn lookup_reaches_as_far_as_one_of_two_fields_says() {
    let reach = |fields: &str| one(fields).map(|watch| watch.lookup);
    for (text, expected) in [
        ("none", Lookup::None),
        ("release", Lookup::Release),
        ("namespace", Lookup::Namespace),
        ("cluster", Lookup::Cluster),
    ] {
        assert_eq!(reach(&format!("  lookup: {text}\n")).unwrap(), expected);
    }
    assert_eq!(reach("  lookup: cluster\n  dryRunOption: server\n").unwrap(), Lookup::Cluster);
    let complaint = |fields: &str| reach(fields).unwrap_err().to_string();
    for default in ["client", "none"] {
        assert_eq!(reach(&format!("  dryRunOption: {default}\n")).unwrap(), Lookup::Release, "operator-sdk's default");
    }
    let both = complaint("  dryRunOption: server\n  lookup: none\n");
    assert!(both.contains("`lookup: none` and `dryRunOption: server` say different things"), "{both}");
    let unknown = complaint("  lookup: all\n");
    assert!(unknown.contains("write `release`, `namespace`, `cluster` or `none`"), "{unknown}");
}

#[test]
fn nothing_is_adopted_unless_the_entry_says_so() {
    let adopt = |fields: &str| one(fields).map(|watch| watch.adopt);
    for (text, expected, objects, releases) in [
        ("none", Adopt::None, false, false),
        ("objects", Adopt::Objects, true, false),
        ("releases", Adopt::Releases, true, true),
    ] {
        let read = adopt(&format!("  adopt: {text}\n")).unwrap();
        assert_eq!((read, read.as_str()), (expected, text));
        assert_eq!((read.allows_objects(), read.allows_releases()), (objects, releases));
    }
    for absent in ["", "  adopt:\n", "  adopt: ''\n"] {
        assert_eq!(adopt(absent).unwrap(), Adopt::None);
    }
    let unknown = adopt("  adopt: all\n").unwrap_err().to_string();
    assert!(unknown.contains("write `none`, `objects` or `releases`"), "{unknown}");
    assert!(adopt("  adopt: true\n").unwrap_err().to_string().contains("`adopt` must be text"));
}

#[test]
fn a_field_that_is_null_or_empty_is_absent() {
    let watch = one("  reconcilePeriod:\n  dryRunOption: ''\n  selector:\n  overrideValues:\n  prune: ''\n").unwrap();
    assert_eq!((watch.reconcile_period, watch.lookup), (None, Lookup::Release));
    assert_eq!(one("  reconcilePeriod: 0\n").unwrap().reconcile_period, Some(Duration::ZERO));
    let watch = one("  maxHistory:\n  onFailure: ''\n  retries:\n  progressDeadline:\n  releaseName: ''\n").unwrap();
    assert_eq!((watch.max_history, watch.on_failure, watch.retries), (10, OnFailure::Stop, 3));
    assert!(watch.progress_deadline.is_none() && watch.release_name.is_plain());
}

#[test]
fn a_deadline_of_zero_is_none() {
    for zero in ["0", "'0'", "0s"] {
        assert_eq!(one(&format!("  progressDeadline: {zero}\n")).unwrap().progress_deadline, None, "{zero}");
    }
    assert_eq!(one("  retries: 0\n").unwrap().retries, 0);
}

#[test]
fn a_group_may_be_empty() {
    let checked = check_text("- {version: v1, kind: A, chart: charts/a}").unwrap();
    assert_eq!(checked.entries[0].as_ref().unwrap().gvk.group, "");
}

#[test]
fn an_error_names_file_line_entry_kind_and_field() {
    assert_eq!(
        message("  reconcilePeriod: 90\n"),
        "watches.yaml:5: entry 1 (g.io/v1 A): `reconcilePeriod`: `90` has no unit: write for example `90s` or `90m`"
    );
    let cases = [
        ("  dryRunOption: serve\n", "watches.yaml:5: entry 1 (g.io/v1 A): `dryRunOption`: `serve` is not known"),
        ("  prune: some\n", "`prune`: `some` is not known: write `safe` or `all`"),
        ("  crds: Replace\n", "`crds`: `Replace` is not known: write `Create`, `CreateReplace` or `Skip`"),
        ("  watchDependentResources: maybe\n", "`watchDependentResources` must be true or false, but is text"),
        ("  maxConcurrentReconciles: 0\n", "`maxConcurrentReconciles`: `0` is not a whole number from 1 on"),
        (
            "  maxHistory: -1\n",
            "watches.yaml:5: entry 1 (g.io/v1 A): `maxHistory`: `-1` is not a whole number from 0 on; 0",
        ),
        ("  maxHistory: many\n", "`maxHistory`: `\"many\"` is not a whole number from 0 on; 0 keeps all revisions"),
        ("  retries: 1.5\n", "`retries`: `1.5` is not a whole number from 0 on; 0 is one try and no more"),
        ("  retries: 5000000000\n", "`retries`: `5000000000` is not a whole number"),
        ("  onFailure: undo\n", "`onFailure`: `undo` is not known: write `stop` or `rollback`"),
        ("  onFailure: true\n", "`onFailure` must be text (write it in quotes), but is a boolean"),
        ("  progressDeadline: 5\n", "`progressDeadline`: `5` has no unit: write for example `5s` or `5m`"),
        ("  progressDeadline: [5m]\n", "`progressDeadline` must be a duration such as `1m30s`, but is a list"),
        (
            "  a: b\n  releaseName: shop\n",
            "watches.yaml:6: entry 1 (g.io/v1 A): `releaseName`: `shop` is without {{ .metadata",
        ),
        ("  releaseName: '{{ .x }}'\n", "`releaseName`: `{{ .x }}` is not known: write {{ .metadata.name }}, {{"),
        ("  releaseNamespace: A_b\n", "`releaseNamespace`: `A_b` is not the name of a namespace"),
        ("  selector: {matchExpressions: [{key: a, operator: Is}]}\n", "`selector`: matchExpressions[0]: `Is` is not"),
        ("  overrideValues: [a]\n", "`overrideValues` must be a map of keys and values, but is a list"),
        (
            "  overrideValues:\n    a: b\n    c: {d: e}\n",
            "watches.yaml:7: entry 1 (g.io/v1 A): `overrideValues`: `c` in",
        ),
    ];
    for (fields, expected) in cases {
        let message = message(fields);
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
    }
}

#[test]
fn a_bad_entry_does_not_hide_another() {
    let entries = [
        ("{kind: B, chart: charts/a}", "watches.yaml:2: entry 2: `version` is missing"),
        ("{version: v1, chart: charts/a}", "entry 3: `kind` is missing"),
        ("{version: v1, kind: B}", "entry 4 (v1 B): `chart` is missing"),
        ("{version: 1, kind: B, chart: charts/a}", "entry 5: `version` must be text"),
        ("{version: v1, kind: C, chart: charts/b}", "watches.yaml:6: entry 6 (v1 C): `chart`: "),
        ("{group: g.io, version: v1, kind: A, chart: charts/a}", "g.io/v1 A is already in entry 1"),
        ("just text", "entry 8: it must be a map with version, kind and chart, but is text"),
    ];
    let text: String = [GOOD.to_owned()].into_iter().chain(entries.map(|(entry, _)| format!("- {entry}\n"))).collect();
    let results = check_text(&text).unwrap().entries;
    assert!(results[0].is_ok());
    for (result, (_, expected)) in results[1..].iter().zip(entries) {
        let message = result.as_ref().unwrap_err().to_string();
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
    }
}

#[test]
fn a_period_that_nobody_can_keep_is_warned_of() {
    let text = |period| format!("- {{version: v1, kind: A, group: g.io, chart: charts/a, reconcilePeriod: {period}}}");
    let warnings = check_text(&text("10ms")).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("less than a second counts as `1s`"), "{warnings:?}");
    assert!(check_text(&text("1s")).unwrap().warnings.is_empty());
}

#[test]
fn a_file_that_is_no_list_is_refused() {
    for (text, expected) in [
        ("version: v1\nkind: A\n", "watches.yaml is not a list of watches: it is a map"),
        ("- [", "watches.yaml is not a list of watches"),
        ("[]", "watches.yaml has no entries"),
        ("# nothing\n", "watches.yaml has no entries"),
    ] {
        let message = check_text(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{message:?} should contain {expected:?}");
    }
}

#[test]
fn an_unknown_field_is_named_with_the_one_that_was_meant() {
    let text = "- {version: v1, kind: A, chart: charts/a,\n   selectr: {}, owner: me, selector: {matchLabel: {}}}";
    assert_eq!(
        check_text(text).unwrap().warnings,
        [
            "watches.yaml:2: entry 1 (v1 A): `owner` is not a known field and is ignored",
            "watches.yaml:2: entry 1 (v1 A): `selectr` is not a known field and is ignored; did you mean `selector`?",
            "watches.yaml:2: entry 1 (v1 A): `selector.matchLabel` is not a known field and is ignored; did you mean \
             `selector.matchLabels`?",
        ]
    );
}

#[test]
fn templates_are_evaluated_and_other_texts_are_not() {
    let watch = one("  overrideValues: {a: '{{ $TAG x }}', b: plain}\n").unwrap();
    let overrides: Vec<(&str, &Value)> = watch.overrides.iter().collect();
    assert_eq!(overrides, [("a", &"1.2 X".into()), ("b", &"plain".into())]);
}

#[test]
fn a_template_that_fails_is_named_and_the_others_are_evaluated() {
    let text = "- {version: v1, kind: A, chart: charts/a, overrideValues: {a: '{{ x }}',\n   b: '{{ bad }}'}}
- {version: v1, kind: B, chart: charts/a, overrideValues: {a: '{{ y }}'}}\n";
    let results = check_text(text).unwrap().entries;
    assert_eq!(
        results[0].as_ref().unwrap_err().to_string(),
        "watches.yaml:2: entry 1 (v1 A): `overrideValues`: `b` does not expand: it is bad"
    );
    assert_eq!(results[1].as_ref().unwrap().overrides.iter().next(), Some(("a", &"Y".into())));
}

#[test]
fn what_a_release_may_write_is_read() {
    let allow = |text: &str| one(&format!("  allow: {text}\n")).unwrap().allow.map(|reach| reach.to_string());
    assert_eq!(allow("[]").as_deref(), Some(""));
    assert_eq!(allow("[cluster, other-namespaces, cluster]").as_deref(), Some("other-namespaces, cluster"));
    assert!(message("  allow: [all]\n").contains("`allow`: `all` is not known: write a list of"));
    assert!(
        message("  allow: cluster\n").contains(
            "`allow` must be a list of `other-namespaces`, `cluster`, `operator-namespace` and `watched-kinds`"
        )
    );
    assert!(message("  allow: [{cluster: true}]\n").contains("`allow`: `{\"cluster\":true}` is not known"));
}

#[test]
fn an_account_is_read_and_what_others_call_it_is_refused() {
    assert_eq!(one("  serviceAccountName: deployer\n").unwrap().service_account.as_deref(), Some("deployer"));
    assert_eq!(one("").unwrap().service_account, None);
    for wrong in ["''", "a/b", "'a:b'", "A"] {
        assert!(message(&format!("  serviceAccountName: {wrong}\n")).contains("is not the name of a ServiceAccount"));
    }
    for field in ["serviceAccount", "impersonate"] {
        assert!(message(&format!("  {field}: a\n")).contains("write `serviceAccountName`"));
    }
    for (line, meant) in
        [("serviceAccountname: a", "serviceAccountName"), ("allows: []", "allow"), ("Allow: []", "allow")]
    {
        assert!(message(&format!("  {line}\n")).contains(&format!("write `{meant}`")), "{line}");
    }
    for field in ["serviceAccountName", "allow"] {
        assert!(message(&format!("  {field}:\n")).contains("says nothing"), "{field}");
    }
}
