##@ Cluster (the one of your kubeconfig)
# config/crd is created with the first API.
define NEEDS_API
@test -f config/crd/kustomization.yaml || { echo 'error: there is no API yet: chartwright create api --helm-chart CHART' >&2; exit 1; }
endef

# Everything.
MANIFESTS = $(KUBECTL) kustomize config/default
# IMG replaces the image of the container `manager`, whatever config/manager names. The default of IMG replaces nothing.
ifneq ($(IMG),controller:latest)
MANIFESTS_OF_IMG = image=$$($(MANIFESTS) | awk '/^ +(- )?image: / {image = $$NF} /^ +name: manager$$/ {print image}'); \
	$(MANIFESTS) | sed "s|image: $${image:?no container is called manager}$$|image: $(IMG)|"
SHOWN_IMG = the image $(IMG)
else
MANIFESTS_OF_IMG = $(MANIFESTS)
SHOWN_IMG = the image that config/manager names
endif

# Server-side: a CRD with a schema may exceed the size of the annotation that client-side apply writes.
APPLY = $(KUBECTL) apply --server-side --force-conflicts -f -

.PHONY: install
install: ## Install the CRDs
	$(NEEDS_API)
	$(KUBECTL) kustomize config/crd | $(APPLY)
	@$(KUBECTL) kustomize config/crd | $(KUBECTL) wait --for=condition=Established --timeout=60s -f - >/dev/null

# What identifies a hook's object, its run, and the custom resource that it was created for.
HOOK_COLUMNS = custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name,RUN:.metadata.annotations.chartwright\\.dev/hook-run,OF:.metadata.annotations.operator-sdk/primary-resource-type

# Custom resources are deleted while the operator runs: each of them stays until the operator has deleted its release.
define DELETE_RESOURCES
@kinds=$$($(KUBECTL) kustomize config/crd | $(KUBECTL) get --ignore-not-found -o name -f - | cut -d/ -f2); \
for kind in $$kinds; do \
	found=$$($(KUBECTL) get "$$kind" --all-namespaces --ignore-not-found -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name); \
	test -n "$$found" || continue; \
	echo "Deleting these $$kind with their objects:"; \
	sed 's/^/  /' <<<"$$found"; \
	$(KUBECTL) delete "$$kind" --all --all-namespaces --timeout=$(TIMEOUT) >/dev/null || { \
		echo "error: some $$kind still exist after $(TIMEOUT); start the operator (make run, or make deploy) and try again, or leave their objects behind: kubectl patch $$kind NAME -n NAMESPACE --type=merge -p '{\"metadata\":{\"finalizers\":null}}'" >&2; \
		exit 1; \
	}; \
done; \
hooks=$$($(KUBECTL) get jobs,pods,configmaps,secrets,serviceaccounts -A -l chartwright.dev/release --no-headers -o $(HOOK_COLUMNS) 2>/dev/null \
	| awk -v kinds="$$(echo $$kinds)" 'BEGIN {split(kinds, all); for (i in all) {sub(/^[^.]*\./, "", all[i]); groups[all[i]]}} \
		$$4 != "<none>" && substr($$5, index($$5, ".") + 1) in groups {print "  " $$1 " " $$2 "/" $$3}') || true; \
test -z "$$hooks" || printf 'These hook objects stay, as with helm uninstall. Delete them if they are not needed:\n%s\n' "$$hooks"
endef

.PHONY: uninstall
uninstall: ## Delete the custom resources, then the CRDs, while the operator runs
	$(NEEDS_API)
	$(DELETE_RESOURCES)
	$(KUBECTL) kustomize config/crd | $(KUBECTL) delete --ignore-not-found --timeout=$(TIMEOUT) -f -

.PHONY: deploy
deploy: ## Deploy the operator with the image IMG, and the CRDs
	$(NEEDS_API)
	@echo 'Deploying the operator with $(SHOWN_IMG)'
	@$(MANIFESTS_OF_IMG) | $(APPLY)

.PHONY: undeploy
undeploy: ## Delete the custom resources, then the operator and the CRDs
	$(NEEDS_API)
	$(DELETE_RESOURCES)
	$(MANIFESTS) | $(KUBECTL) delete --ignore-not-found --timeout=$(TIMEOUT) -f -

.PHONY: build-installer
build-installer: ## Write all manifests to dist/install.yaml, with the image IMG
	$(NEEDS_API)
	@mkdir -p dist
	@$(MANIFESTS_OF_IMG) > dist/.install.yaml || { rm -f dist/.install.yaml; exit 1; }
	@mv dist/.install.yaml dist/install.yaml
	@echo 'dist/install.yaml deploys the operator with $(SHOWN_IMG): kubectl apply --server-side -f dist/install.yaml'

.PHONY: kind-load
kind-load: ## Load the image IMG into the nodes of a kind cluster
	$(KIND) load docker-image $(IMG) --name $(KIND_CLUSTER)

##@ Base image (Chartwright and helm, which the image IMG is built on)
.PHONY: docker-build-base
docker-build-base: ## Build the image BASE_IMG from CHARTWRIGHT_SOURCE, compiling in containers only
	@test -n '$(CHARTWRIGHT_SOURCE)' || { echo 'error: name a checkout of Chartwright, or the address of its Git repository: make docker-build-base CHARTWRIGHT_SOURCE=../chartwright' >&2; exit 1; }
	$(CONTAINER_TOOL) build --target operator -t $(BASE_IMG) $(CHARTWRIGHT_SOURCE)
