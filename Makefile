# Bare `make` prints what there is. Needs Go (the version in go.mod), bash and git; everything else is built from source.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

DATA     ?= .run
REPO     ?=
DIR      ?=
REF      ?=
FUZZTIME ?= 20s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

BINARIES := bunsen machine-config-controller machine-config-server machine-config-daemon
MODULES  := . standalone tools test/ignition test/ignition/spec2 test/monitoring
ASSETS   := bin/assets/kube-apiserver
PARTS    := $(wildcard standalone/go.mod standalone/go.sum standalone/build.sh) \
            $(shell find standalone -name '*.go' -not -name '*_test.go' -not -path '*/hollow/*' 2>/dev/null)
HOLLOW   := bin/hollow-kubelet
# Packages whose values several requests share.
RACED    := ./mcs/http ./mcs/shelf ./mcs/cache
TOOL     := go tool -modfile=$(CURDIR)/tools/go.mod
ENVTEST  := KUBEBUILDER_ASSETS=$(CURDIR)/bin/assets BUNSEN_BIN=$(CURDIR)/bin
# Linking without DWARF takes two thirds of the time. Vet belongs to verify.
GOTEST   := go test -ldflags=-w -vet=off
# Stories mostly wait, so more of them than there are cores run at the same time. Their API servers collect garbage less often.
STORIES  := GOGC=400 $(GOTEST) -timeout 30m -parallel 3
ROOT     := $(filter 0,$(shell id -u))
# The package that takes longest begins first.
LONGEST  := ./reconcile/controller
# Packages whose tests can rewrite their golden files, and fuzz targets as file:name.
GOLDENS  = $(filter-out ./test/e2e,$(shell grep -rlE --include='*_test.go' 'flag\.Bool.*"update"' . | xargs -r -n1 dirname | sort -u))
FUZZERS  = $(shell grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //')

say = @echo '==> $(1)'

##@ Use
.PHONY: help run build standalone assets hollow
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: build $(ASSETS) ## The whole path on this machine: make run [REPO=<url> [DIR=<folder in it>] [REF=<branch>]] [DATA=.run]
	@exec bin/bunsen-standalone up --data '$(DATA)' --bin bin \
	  $(if $(REPO),--repo '$(REPO)') $(if $(DIR),--path '$(DIR)') $(if $(REF),--ref '$(REF)')

# Static: a pod's daemon goes on inside of the node's root, where no libc of its own is.
build: ## The project's binaries, into bin/
	$(call say,build: $(BINARIES))
	@mkdir -p bin
	@CGO_ENABLED=0 go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ $(addprefix ./cmd/,$(BINARIES))
	@ln -sf bunsen bin/kubectl-bunsen

standalone: bin/bunsen-standalone ## The control plane in one binary, into bin/ (minutes the first time)
bin/bunsen-standalone: $(PARTS)
	$(call say,standalone: etcd and Kubernetes from source; minutes the first time and seconds after that)
	@mkdir -p bin
	@standalone/build.sh bin/bunsen-standalone

assets: $(ASSETS) ## The control plane's programs for tests, in bin/assets
hollow: $(HOLLOW) ## Kubelets without containers, for the stories about drains (minutes the first time)
$(HOLLOW): standalone/go.mod standalone/go.sum standalone/build.sh $(wildcard standalone/hollow/*.go)
	@mkdir -p bin
	@standalone/build.sh $@ ./hollow

$(ASSETS): bin/bunsen-standalone
	@bin/bunsen-standalone assets bin/assets

##@ Change
.PHONY: generate fmt golden docs
generate: ## Deep copies, CRDs and their compact schemas, from api/ and from openshift/api
	@$(TOOL) controller-gen object paths=./api/...
	@$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	@crds=$$(go list -m -f '{{.Dir}}' github.com/openshift/api)/payload-manifests/crds/0000_80_machine-config_01_; \
	for crd in machineconfigs:machineconfigs machineconfigpools-SelfManagedHA:machineconfigpools machineconfigurations:machineconfigurations machineconfignodes-SelfManagedHA-Default:machineconfignodes; do \
	  install -m 0644 "$$crds$${crd%%:*}.crd.yaml" config/crd/openshift_$${crd##*:}.yaml; done
	@go test ./transpile/schema -update >/dev/null

fmt: ## Format every Go file
	@$(TOOL) gofumpt -w .

golden: $(ASSETS) $(HOLLOW) build ## Rewrite the golden files; read the diff before you commit it
	@for dir in $(GOLDENS); do (cd $$dir && $(ENVTEST) go test . -update); done
	@$(ENVTEST) go test ./test/e2e -run TestTruth -update

docs: ## Each package with its purpose, from its own comment
	@go list -f '{{if ne .Name "main"}}{{slice .ImportPath (len .Module.Path)}}	{{.Doc}}{{end}}' ./... | sed 's|^/||' | expand -t 28

##@ Check
.PHONY: verify lint verify-fmt verify-generate verify-tidy test test-host test-ignition test-standalone test-monitoring test-race test-vm setup fuzz e2e bench deps
verify: verify-fmt lint verify-generate verify-tidy ## Format, vet, staticcheck, generated files, go.mod files; changes nothing
	$(call say,verify: all current)

verify-fmt:
	$(call say,verify: gofumpt)
	@bad=$$($(TOOL) gofumpt -l .); [ -z "$$bad" ] || { printf 'not formatted (make fmt mends it):\n%s\n' "$$bad"; exit 1; }

# The Kubernetes parts are not ours to analyse: in standalone/ staticcheck leaves out the one package that links them.
lint: ## go vet and staticcheck
	$(call say,verify: go vet)
	@go vet ./...
	@cd standalone && go vet $$(go list ./... | grep '/standalone/' | grep -v '/hollow$$')
	$(call say,verify: staticcheck)
	@$(TOOL) staticcheck ./...
	@bin=$$($(TOOL) -n staticcheck); cd standalone && $$bin $$(go list ./... | grep '/standalone/' | grep -v '/hollow$$')

# Generated once more in a copy, so that nothing here changes and a dirty git tree does not matter.
verify-generate:
	$(call say,verify: generated files)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	tar -c --exclude=./bin --exclude=./.git --exclude=./.run . | tar -x -C "$$tmp"; \
	$(MAKE) -C "$$tmp" generate; \
	for dir in api config; do diff -ru $$dir "$$tmp/$$dir" || { echo 'generated files are not current: run make generate'; exit 1; }; done

verify-tidy:
	$(call say,verify: go mod tidy)
	@for m in $(MODULES); do (cd $$m && go mod tidy -diff) || { echo "run go mod tidy in $$m"; exit 1; }; done

# The stories do not run beside other packages: they wait for processes, and a busy machine lets them wait too long.
test: setup build $(ASSETS) $(HOLLOW) ## Every test of every module, with a real kube-apiserver; as root with real hosts and real Ignition
	$(call say,test: $(shell sed -n 's/^module //p' go.mod))
	@$(ENVTEST) $(GOTEST) -timeout 30m $(LONGEST) $$(go list ./... | grep -vE '/test/(e2e|lab.*)$$|$(LONGEST:.%=%)$$') | grep --line-buffered -v 'no test files'
	$(call say,test: stories$(if $(ROOT), and real hosts))
	@$(if $(ROOT),BUNSEN_LAB=1) $(ENVTEST) $(STORIES) ./test/e2e ./test/lab/... | grep --line-buffered -v 'no test files'
	$(call say,test: other modules and the race detector)
	@$(MAKE) -j2 --output-sync=target $(if $(ROOT),test-ignition) test-standalone test-monitoring $(if $(shell command -v gcc),test-race)
	@$(if $(shell command -v gcc),,printf '==> test-race: NOT RUN. The race detector needs a C compiler\n')
	@$(if $(ROOT),,printf '==> test-host, test-ignition: NOT RUN. Real hosts and real Ignition need root: run make test-host test-ignition as root\n')

test-standalone: setup build $(ASSETS) ## The supervisor of make run
	$(call say,test: standalone)
	@cd standalone && $(ENVTEST) $(GOTEST) $$(go list ./... | grep '/standalone/' | grep -v '/hollow$$') | grep --line-buffered -v 'no test files'

test-host: setup build $(ASSETS) ## The tests of real hosts in systemd-nspawn: units, reboots, users, OSTree, a whole life (root)
	$(call say,test-host: real hosts)
	@BUNSEN_LAB=1 $(ENVTEST) $(STORIES) -run '^TestLives$$' ./test/e2e
	@BUNSEN_LAB=1 $(ENVTEST) $(GOTEST) ./test/lab/... | grep --line-buffered -v 'no test files'

test-ignition: setup ## The daemon beside real Ignition; first boots from our server by Ignition 2.27 and Debian's 2.14 (root; builds Ignition the first time)
	$(call say,test-ignition: the daemon beside Ignition)
	@cd test/ignition && BUNSEN_LAB=1 $(GOTEST) ./...

test-race: ## What is shared between requests, under the race detector (needs a C compiler)
	$(call say,test-race: configs and tokens change under load)
	@CGO_ENABLED=1 go test -race $(RACED) | grep --line-buffered -v 'no test files'

test-monitoring: setup ## The alert rules and the dashboard, in Prometheus' own rule engine (builds it the first time)
	$(call say,test-monitoring: alert rules)
	@cd test/monitoring && $(GOTEST) ./...

test-vm: build $(ASSETS) ## The life of a machine in a QEMU VM, Ignition in its initramfs (root; a quarter of an hour after the image is made)
	@test/vm/run $(ARGS)

# NEEDS are programs, or libraries of pkg-config, with their packages; those of LAB are for tests that need root.
NEEDS := git:git ssh-keygen:openssh-client gpg:gnupg
LAB   := systemd-nspawn:systemd-container mmdebstrap:mmdebstrap ip:iproute2 nsenter:util-linux dbus-daemon:dbus useradd:passwd \
         ostree:ostree mke2fs:e2fsprogs gcc:gcc pkg-config:pkg-config blkid.pc:libblkid-dev \
         systemd-analyze:systemd mkfs.ext4:e2fsprogs mount:mount
setup: ## What the tests need from the system: installed with apt-get as root, else told
	@missing() { for p in "$$@"; do case $$p in *.pc:*) pkg-config --exists "$${p%%.*}" 2>/dev/null ;; *) command -v "$${p%%:*}" >/dev/null ;; esac || printf ' %s' "$${p#*:}"; done; }; \
	PATH="$$PATH:/usr/sbin:/sbin"; needs=$$(missing $(NEEDS)); lab=$$(missing $(LAB)); [ -n "$$needs$$lab" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then echo "setup: installing$$needs$$lab with apt-get"; apt-get -qq update && apt-get -qq install -y $$needs $$lab; exit; fi; \
	[ -z "$$lab" ] || echo "setup: tests of real hosts, which need root, also need$$lab: sudo make setup"; \
	[ -z "$$needs" ] || { echo "setup: the tests need$$needs: sudo make setup"; exit 1; }

e2e: setup build $(ASSETS) $(HOLLOW) ## The stories alone, in full
	@$(ENVTEST) $(STORIES) -count=1 -v ./test/e2e/...

fuzz: ## Each fuzz target for FUZZTIME (20s)
	@for f in $(FUZZERS); do dir=$$(dirname $${f%%:*}); echo "fuzz: $$f"; (cd $$dir && go test -run '^$$' -fuzz "^$${f##*:}\$$" -fuzztime $(FUZZTIME) .); done

bench: ## What everything costs, beside its goals and what others need
	@for p in render transpile commit diff build adopt apply rollout serve; do printf '\n==> bench/%s\n' $$p; go run ./bench/$$p; done

deps: ## Direct dependencies, and what the daemon links
	@go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}} {{.Version}}{{end}}' all
	@printf '\n'; cat test/arch/deps.txt

##@ Clean
.PHONY: clean
clean: ## Remove bin/ and .run/ (the state of make run)
	@rm -rf bin .run
