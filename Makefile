# The two commands that matter: `make demo` shows the operator at work, `make test` runs every test.

CARGO ?= cargo
KUBECTL ?= kubectl
# The operator's image in `make deploy` and `make build-installer`: the released one, or a build of your own.
IMG ?= $(shell sed -n 's/^ *image: //p' config/manager/manager.yaml)

.PHONY: all
all: build

##@ Development

.PHONY: build
build: ## Build the release binary, target/release/llmscaler
	$(CARGO) build --release --locked -p llmscaler

.PHONY: demo
demo: ## Watch the operator scale simulated fleets; DEMO="--scenario outage" plays another scenario, DEMO=--list tells them all
	$(CARGO) run --locked -p llmscaler -- demo $(DEMO)

.PHONY: run
run: ## Run the operator from source against the cluster of the current kubeconfig
	$(CARGO) run --locked -p llmscaler -- operator

.PHONY: test
test: test-unit test-e2e ## Run every test; the first time this builds a control plane from source, some minutes

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Rust, and with chromium and chromedriver those of the dashboard in a browser
	$(CARGO) test --locked --workspace --exclude llmscaler-e2e --exclude llmscaler-operator
	$(CARGO) test --locked -p llmscaler-operator # by itself, as the browser's driver asks for other features of shared crates

.PHONY: test-browser
test-browser: ## Run the dashboard in chromium, which has to be there with chromedriver
	LLMSCALER_BROWSER=require $(CARGO) test --locked -p llmscaler-operator --test dashboard

.PHONY: test-e2e
test-e2e: control-plane helm ## Run the tests on a real API server, controllers and Prometheus
	$(CARGO) build --locked -p llmscaler
	LLMSCALER_E2E=require LLMSCALER_BIN=$(CURDIR)/target/debug/llmscaler RUST_TEST_THREADS=8 $(CARGO) test --locked -p llmscaler-e2e

.PHONY: e2e-full
e2e-full: control-plane ## Run the guides' objects with the guides' own windows and print their timelines; some twenty minutes
	$(CARGO) build --locked -p llmscaler
	LLMSCALER_E2E=require LLMSCALER_E2E_FULL=1 LLMSCALER_BIN=$(CURDIR)/target/debug/llmscaler $(CARGO) test --locked -p llmscaler-e2e --test operator full:: -- --nocapture

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver, kube-controller-manager and Prometheus into .cache (needs Go)
	hack/build.sh control-plane

.PHONY: helm
helm: ## Build Helm 3, Helm 4 and kubectl into .cache, for the tests of the chart (needs Go)
	@hack/build.sh helm

.PHONY: bench
bench: ## Measure what a decision costs and how fast the simulator is
	$(CARGO) bench --locked -p llmscaler-engine -p llmscaler-simulator

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: lint
lint: ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: deny
deny: ## Check licences, sources and banned crates of the dependencies
	$(CARGO) deny --locked check bans licenses sources

.PHONY: manifests
manifests: ## Write the files that are generated from code
	$(CARGO) run --locked -p xtask -- generate

.PHONY: verify-manifests
verify-manifests: ## Check that the generated files are current
	$(CARGO) run --locked -p xtask -- check

##@ Images and releases

CONTAINER_TOOL ?= docker
PLATFORMS ?= linux/amd64,linux/arm64
# The Dockerfile's build arguments, such as BUILD_ARGS="--build-arg RUST_IMAGE=MIRROR/rust:1.95.0-bookworm".
BUILD_ARGS ?=

.PHONY: check-img
# By the environment, as an IMG with quotes would end those around it in a command.
check-img: export IMG := $(IMG)
check-img:
	@LC_ALL=C; case "$$IMG" in \
	  '' | [!A-Za-z0-9]* | *[!A-Za-z0-9._/:@-]*) \
	    echo "IMG is '$$IMG', which is no image; write IMG=REGISTRY/NAME:TAG" >&2; exit 2 ;; \
	esac

.PHONY: docker-build
docker-build: check-img ## Build the image for this machine, as IMG=REGISTRY/NAME:TAG
	$(CONTAINER_TOOL) build $(BUILD_ARGS) --tag $(IMG) .

.PHONY: docker-push
docker-push: check-img ## Push the image, IMG=REGISTRY/NAME:TAG
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: docker-buildx
docker-buildx: check-img ## Build the image for every one of PLATFORMS and push it, IMG=REGISTRY/NAME:TAG
	$(CONTAINER_TOOL) buildx build $(BUILD_ARGS) --platform $(PLATFORMS) --push --tag $(IMG) .

.PHONY: check-image
check-image: ## Build the image's binary without a container engine; check that it is static, small and runs
	hack/release/check-image.sh

.PHONY: lint-release
lint-release: ## Lint the workflows and the shell scripts (needs Go and shellcheck)
	hack/release/lint.sh

##@ Installation

# dist/install.yaml with the image that is asked for.
INSTALLER = sed 's|^          image: .*|          image: $(IMG)|' dist/install.yaml

.PHONY: install
install: ## Install LLMScaler, and no operator, in the cluster of the current kubeconfig
	$(KUBECTL) apply --server-side -k config/crd

.PHONY: uninstall
uninstall: ## Remove LLMScaler, and with it every scaler
	$(KUBECTL) delete --ignore-not-found -k config/crd

.PHONY: deploy
deploy: check-img ## Install or upgrade LLMScaler and the operator, from IMG=REGISTRY/NAME:TAG
	manifest=$$($(INSTALLER)) && printf '%s\n' "$$manifest" | $(KUBECTL) apply --server-side -f -

.PHONY: undeploy
undeploy: ## Remove the operator and its namespace, and keep LLMScaler with every scaler
	$(KUBECTL) delete --ignore-not-found -f dist/install.yaml -l app.kubernetes.io/name=llmscaleoperator

.PHONY: build-installer
build-installer: check-img manifests ## Write dist/install.yaml anew, with IMG=REGISTRY/NAME:TAG
	$(INSTALLER) >dist/install.yaml.new && mv dist/install.yaml.new dist/install.yaml

.PHONY: helm-lint
helm-lint: helm ## Lint the charts with Helm 3 and Helm 4
	.cache/helm/bin/helm-v3 lint --strict dist/chart test/charts/vllm-mock
	.cache/helm/bin/helm-v4 lint --strict dist/chart test/charts/vllm-mock

.PHONY: helm-template
helm-template: helm ## Render the chart with its defaults
	@.cache/helm/bin/helm-v4 template llmscaleoperator dist/chart --namespace llmscaleoperator-system --kube-version 1.36.3

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*##"} /^[a-zA-Z0-9_-]+:.*##/ {printf "  %-18s %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
