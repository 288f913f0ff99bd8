# It takes the place of helm-operator, and has its flags.
CHARTWRIGHT ?= chartwright

.PHONY: helm-operator
helm-operator: ## See whether chartwright is there, which takes its place.
	@command -v $(CHARTWRIGHT) >/dev/null || { echo 'error: $(CHARTWRIGHT) is not on PATH; install it, or say where it is: make run CHARTWRIGHT=…' >&2; exit 1; }
