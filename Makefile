# What a person types. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

IMG ?= controller:latest
CONTAINER_TOOL ?= docker
# What a statically linked binary is compiled for. With musl installed: x86_64-unknown-linux-musl.
STATIC_TARGET ?= $(shell rustc -vV | sed -n 's/^host: //p')
# One test, or all whose name contains it.
T ?=
# A phase, or one of its calls, or that before or after it was done.
CASE ?=
# What the moments are made of at which leaders end. Without it, by the time.
SEED ?=
# An earlier build of the operator.
FROM ?=
# Custom resources in the benchmark. With several, as in 1000,5000, memory is compared too.
N ?= 1000
# text or json.
O ?= text
# A chart for a proof, with its values and those of the upgrade, or the chart of the upgrade.
CHART ?=
VALUES ?=
UPGRADE_VALUES ?=
UPGRADE_CHART ?=

TOOLS := $(CURDIR)/target/tools
HELM ?= $(if $(shell command -v helm),helm,$(TOOLS)/helm)
KUBECTL ?= $(if $(shell command -v kubectl),kubectl,$(TOOLS)/kubectl)
# Only where the PATH has none.
NEEDED_TOOLS := $(if $(and $(shell command -v kubectl),$(shell command -v helm)),,tools)
# A killed make leaves its children running; what holds a control plane looks whether this process still lives.
export LAB_OWNER ?= $(shell echo $$PPID)

##@ Start here
.PHONY: demo
demo: tools build ## Show the operator at work on a local control plane
	target/debug/lab demo

.PHONY: test
test: ## Run all tests (one: make test T=part-of-its-name)
	@lab/tools.sh tests
	cargo build --quiet --workspace
	@lab/test.sh $(T)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-19s %s\n", $$1, $$2}' Makefile

##@ Develop
.PHONY: build
build: ## Compile everything
	cargo build --workspace

.PHONY: lint
lint: ## Check formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --package chartwright --features otel -- -D warnings

.PHONY: docs
docs: ## Write the page of all commands and flags anew
	cargo run --quiet -- reference > target/cli-reference.md
	mv target/cli-reference.md docs/cli-reference.md

.PHONY: deny
deny: ## Check advisories, licences, bans and sources of dependencies with cargo-deny; fails where it cannot
	@lab/deny.sh

.PHONY: deny-offline
deny-offline: ## The same without advisories, on a machine that reaches package registries only
	@lab/deny.sh offline

.PHONY: pin-images
pin-images: ## Write the digests of today's base images into the Dockerfile
	@lab/pin-images.sh

.PHONY: crash-matrix
crash-matrix: tools ## Kill the operator at each of its calls (some: make crash-matrix CASE=upgrade,7,after)
	cargo build --quiet --workspace
	CASE=$(CASE) target/debug/lab guard cargo test --test cluster -- --ignored --nocapture whatever_is_killed_at_any_call

.PHONY: hooks-proof
hooks-proof: tools ## Kill the operator while hooks run, and have a hundred hooks hang
	cargo build --quiet --workspace
	target/debug/lab guard cargo test --test cluster -- --ignored --nocapture --test-threads=1 hooks

.PHONY: forgery-proof
forgery-proof: tools ## Forge 200 release records at random, and see what the operator writes (again: make forgery-proof SEED=n)
	cargo build --quiet --workspace
	SEED=$(SEED) target/debug/lab guard cargo test --test cluster -- --ignored --nocapture two_hundred_forged_records

.PHONY: upgrade-proof
upgrade-proof: tools ## Take over what an earlier build deployed, without a change to its objects (make upgrade-proof FROM=path)
	@test -x "$(FROM)" || { echo 'error: name an earlier build, as in: make upgrade-proof FROM=/tmp/chartwright-0.1.0' >&2; exit 2; }
	cargo build --quiet --workspace
	FROM='$(FROM)' target/debug/lab guard cargo test --test cluster -- --ignored --nocapture releases_of_an_earlier_build

.PHONY: leader-proof
leader-proof: tools ## End the leader of two operators 20 times during 200 upgrades (again: make leader-proof SEED=n)
	cargo build --quiet --workspace
	SEED=$(SEED) target/debug/lab guard cargo test --test cluster -- --ignored --nocapture proof_of_two_replicas

.PHONY: faults-proof
faults-proof: tools ## Make 200 releases each while the API server is slow, fails or is restarted (one: CASE=failing)
	cargo build --quiet --workspace
	CASE=$(CASE) target/debug/lab guard cargo test --test cluster -- --ignored --nocapture two_hundred_installs_bear

.PHONY: traces-proof
traces-proof: tools ## Build with traces, and see that a collector gets them
	cargo build --quiet --workspace
	target/debug/lab guard cargo test --features otel --test cluster -- traces_reach_a_collector

.PHONY: image-proof
image-proof: dist ## Build the base image and the image of a new project with buildah, and look into them
	@lab/image-proof.sh

.PHONY: project-proof
project-proof: tools ## Make a project of each chart, and run it under its generated rights (yours: make project-proof CHART=dir)
	cargo build --quiet --workspace
	CHART='$(CHART)' target/debug/lab guard cargo test --quiet --test cluster -- --ignored --nocapture every_chart_becomes_a_project

.PHONY: node-proof
node-proof: dist ## Walk through a real node with real containers, as root on Debian, and end with a table of what was seen
	@lab/tools.sh node
	cargo build --quiet --package lab
	@target/debug/lab guard lab/node/proof.sh

.PHONY: bench
bench: tools ## Measure the operator with N custom resources (figures as JSON: make -s bench O=json)
	cargo build --quiet --release --workspace
	target/release/bench -n $(N) -o $(O)

.PHONY: fidelity
fidelity: tools ## Compare helm and Chartwright on a chart, field by field (make fidelity CHART=dir VALUES=file)
	@test -n "$(CHART)" || { echo 'error: name a chart, as in: make fidelity CHART=helm-charts/nginx' >&2; exit 2; }
	cargo build --quiet --workspace
	target/debug/fidelity -o $(O) --chart $(CHART) $(if $(VALUES),--values $(VALUES)) $(if $(UPGRADE_VALUES),--upgrade-values $(UPGRADE_VALUES)) $(if $(UPGRADE_CHART),--upgrade-chart $(UPGRADE_CHART))

.PHONY: fidelity-all
fidelity-all: tools ## The same with all charts of fidelity/cases
	cargo build --quiet --workspace
	target/debug/fidelity -o $(O) --all

.PHONY: tools
tools: ## Get helm, kubectl and the parts of the control plane
	@lab/tools.sh

.PHONY: tools-path
tools-path: ## Print the directory that holds them
	@lab/tools.sh path

.PHONY: lab-up lab-down lab-status lab-env
lab-up: tools build ## Start a local control plane that stays
	target/debug/lab up
lab-down: ## End it
	target/debug/lab down
lab-status: ## Say whether it is up
	@target/debug/lab status
lab-env: ## Print its environment: eval "$(make -s lab-env)"
	@target/debug/lab env

##@ Use a cluster (the one of your kubeconfig)
.PHONY: install
install: $(NEEDED_TOOLS) ## Install the CRDs
	$(KUBECTL) apply -k config/crd

# With a CRD go its resources, and each of those waits for the operator to remove its release.
DELETE_CRDS = $(KUBECTL) delete --ignore-not-found --timeout=120s -k config/crd || { echo 'error: the resources of the CRDs do not go; is the operator running? Start it (make run) and try again.' >&2; exit 1; }

.PHONY: uninstall
uninstall: $(NEEDED_TOOLS) ## Remove the CRDs and all their resources, while the operator runs
	@$(DELETE_CRDS)

.PHONY: run
run: $(NEEDED_TOOLS) ## Run the operator on this machine
	cargo run -- run --helm $(HELM)

.PHONY: docker-build
docker-build: ## Build the image IMG
	$(CONTAINER_TOOL) build -t $(IMG) .

.PHONY: docker-build-ready
docker-build-ready: dist ## Build the image IMG from binaries made here, pulling nothing
	$(CONTAINER_TOOL) build --target ready -t $(IMG) .

.PHONY: docker-build-base
docker-build-base: dist ## Build the image IMG that the images of other projects are built on
	$(CONTAINER_TOOL) build --target base -t $(IMG) .

.PHONY: dist
dist: tools ## Put static binaries and an empty /tmp for the image into dist/
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --package chartwright --target $(STATIC_TARGET)
	mkdir -p dist/root/tmp && chmod 1777 dist/root/tmp
	install target/$(STATIC_TARGET)/release/chartwright "$$(lab/tools.sh path)/helm" dist/

.PHONY: docker-push
docker-push: ## Push the image IMG
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: deploy
deploy: $(NEEDED_TOOLS) ## Deploy the operator with the image IMG
	$(KUBECTL) kustomize config/default | sed 's|image: controller:latest|image: $(IMG)|' | $(KUBECTL) apply -f -

.PHONY: undeploy
undeploy: $(NEEDED_TOOLS) ## Remove the CRDs and all their resources, then the operator
	@$(DELETE_CRDS)
	$(KUBECTL) delete --ignore-not-found -k config/default
