//! Makefiles of three ages, with what the edits look for and little else.

use super::*;

/// As with 1.0 to 1.3.
const OLD: &str = include_str!("../../../../tests/data/operator-sdk/1.0/Makefile");
/// As with 1.6 to 1.29.
const MIDDLE: &str = include_str!("../../../../tests/data/operator-sdk/1.20/Makefile");
/// As with 1.40 and later.
const NEW: &str = include_str!("../../../../tests/data/operator-sdk/1.42/Makefile");

const AGES: [&str; 3] = [OLD, MIDDLE, NEW];

fn edited(text: &str) -> Edited {
    edit(text, true)
}

/// The recipe of a target.
fn recipe(text: &str, target: &str) -> Vec<String> {
    let lines: Lines = text.split_inclusive('\n').map(str::to_owned).collect();
    let head = rules::head(&lines, target).unwrap_or_else(|| panic!("no {target} in {text}"));
    lines[rules::recipe(&lines, head)].iter().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_makefile_of_any_age_calls_chartwright_and_kubectl() {
    for text in AGES {
        let Edited { text, notes, .. } = edited(text);
        assert!(notes.is_empty(), "{notes:?} in {text}");
        assert_eq!(recipe(&text, "run"), ["$(CHARTWRIGHT) run"]);
        let apply = "kubectl apply --server-side --force-conflicts -f -";
        assert_eq!(recipe(&text, "install"), [format!("kubectl kustomize config/crd | {apply}")]);
        assert_eq!(recipe(&text, "uninstall"), ["kubectl kustomize config/crd | kubectl delete -f -"]);
        assert_eq!(recipe(&text, "deploy"), [format!("kubectl kustomize config/default | $(WITH_IMAGE) | {apply}")]);
        assert_eq!(recipe(&text, "undeploy"), ["kubectl kustomize config/default | kubectl delete -f -"]);
        for gone in ["KUSTOMIZE", "HELM_OPERATOR", "kustomize:", "s390x"] {
            assert!(!text.contains(gone), "{gone} is in {text}");
        }
        assert_eq!(text.matches("WITH_IMAGE =").count(), 1, "{text}");
    }
}

#[test]
fn bundles_stay_with_operator_sdk_and_catalogs_with_opm() {
    let Edited { text, .. } = edited(NEW);
    let bundle = recipe(&text, "bundle");
    assert_eq!(bundle[0], "$(OPERATOR_SDK) generate kustomize manifests --interactive=false -q");
    assert_eq!(
        bundle[1],
        "kubectl kustomize config/manifests | $(WITH_IMAGE) | $(OPERATOR_SDK) generate bundle $(BUNDLE_GEN_FLAGS)"
    );
    let head = |target: &str| text.lines().find(|line| line.starts_with(&format!("{target}:"))).unwrap().to_owned();
    assert_eq!(rules::prerequisites(&head("bundle")), ["operator-sdk"]);
    assert_eq!(rules::prerequisites(&head("catalog-build")), ["opm"]);
    let rest = |text: &str| text[text.find(".PHONY: opm").unwrap()..].to_owned();
    assert_eq!(rest(&text), rest(NEW));
}

#[test]
fn a_second_time_nothing_is_left_to_do() {
    for text in AGES {
        let once = edited(text).text;
        assert_eq!(edited(&once), Edited { text: once, ..Edited::default() });
    }
    let ours = include_str!("../../templates/project/Makefile");
    assert_eq!(edited(ours), Edited { text: ours.to_owned(), ..Edited::default() });
}

#[test]
fn what_a_person_added_stays() {
    let own = NEW.replace("install: kustomize", "install: kustomize lint").replace(
        "\t$(KUSTOMIZE) build config/crd | kubectl apply -f -\n",
        "\t$(KUSTOMIZE) build config/crd | kubectl apply -f -\n\tkubectl wait --for=condition=Established crd --all\n",
    ) + "\n.PHONY: lint\nlint: ## Ours.\n\thelm lint helm-charts/*\n";
    let Edited { text, notes, .. } = edited(&own);
    assert_eq!(recipe(&text, "install")[1], "kubectl wait --for=condition=Established crd --all");
    assert!(text.contains("install: lint ## ") && text.ends_with("\thelm lint helm-charts/*\n"));
    assert_eq!(notes.len(), 0);
}

#[test]
fn a_recipe_that_somebody_changed_is_left_and_what_it_needs_too() {
    let own = NEW.replace(
        "$(KUSTOMIZE) build config/default | kubectl apply -f -",
        "$(KUSTOMIZE) build config/default | ./ours.sh",
    ) + "\ndeploy-dev: kustomize\n\t$(KUSTOMIZE) build config/dev | kubectl apply -f -\n";
    let Edited { text, notes, .. } = edited(&own);
    assert_eq!(recipe(&text, "deploy"), recipe(&own, "deploy"));
    assert!(text.contains("\nKUSTOMIZE = "), "{text}");
    assert_eq!(
        notes,
        [
            "Makefile: deploy was changed by somebody (`$(KUSTOMIZE) build config/default | ./ours.sh`), and is left as it is",
            "Makefile: kustomize is still downloaded, for deploy, deploy-dev",
        ]
    );
    assert_eq!(recipe(&text, "undeploy"), ["kubectl kustomize config/default | kubectl delete -f -"]);
}

#[test]
fn flags_that_somebody_gives_to_helm_operator_go_to_chartwright() {
    let own = NEW.replace("\t$(HELM_OPERATOR) run\n", "\tWATCH_NAMESPACE=dev ${HELM_OPERATOR} run --zap-devel\n");
    let Edited { text, .. } = edited(&own);
    assert!(text.contains("CHARTWRIGHT ?= chartwright\nHELM_OPERATOR = $(CHARTWRIGHT)\n"), "{text}");
    assert_eq!(recipe(&text, "run"), ["WATCH_NAMESPACE=dev ${HELM_OPERATOR} run --zap-devel"]);
}

#[test]
fn a_download_from_elsewhere_is_somebodys_own() {
    let own = NEW.replace("https://github.com/operator-framework/", "https://mirror.example.com/");
    let own = own.replace("/operator-sdk/releases/download/", "/sdk/");
    let Edited { text, notes, .. } = edited(&own);
    assert!(
        notes[0].starts_with("Makefile: helm-operator was changed by somebody (`curl")
            && notes[0].contains("`chartwright run`"),
        "{notes:?}"
    );
    assert_eq!(recipe(&text, "run"), ["$(HELM_OPERATOR) run"]);
}

#[test]
fn a_run_without_a_download_starts_chartwright_too() {
    let own = "all: docker-build\n\nrun: helm-operator\n\t$(HELM_OPERATOR) run";
    let Edited { text, why, notes } = edited(own);
    assert_eq!((recipe(&text, "run"), notes.len()), (vec!["$(CHARTWRIGHT) run".to_owned()], 0), "{text}");
    assert!(text.starts_with("all: ") && has_moved(&text) && recipe(&text, "helm-operator").len() == 1, "{text}");
    assert_eq!(why, ["`make run` starts chartwright"]);
    assert_eq!(edited(&text), Edited { text, ..Edited::default() });
}

#[test]
fn a_run_of_a_helm_operator_from_elsewhere_is_left_and_named() {
    for elsewhere in ["HELM_OPERATOR ?= tools/helm-operator\n", "include tools.mk\n"] {
        let own = format!("{elsewhere}run:\n\t$(HELM_OPERATOR) run\n");
        let Edited { text, notes, .. } = edited(&own);
        assert_eq!((text, notes.len()), (own, 1));
        assert!(notes[0].contains("run starts `$(HELM_OPERATOR) run`") && notes[0].contains("`chartwright run`"));
    }
}

#[test]
fn an_image_is_set_only_where_there_is_one() {
    let Edited { text, notes, .. } = edit(NEW, false);
    assert_eq!(recipe(&text, "deploy"), recipe(NEW, "deploy"));
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        notes[0].starts_with("Makefile: deploy is left as it is: it sets the operator's image")
            && !text.contains("WITH_IMAGE")
    );
}
