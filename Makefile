# Bare `make` prints what there is. Needs Go (the version in go.mod), bash and git; everything else is built from source.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

DATA     ?= .run
ALL      ?=
REPO     ?=
DIR      ?=
REF      ?=
UP       ?=
QUICK    ?=
BENCHES  ?=
PUSH     ?=
SIGNING_KEY ?=
BIN      ?=
DOWNLOADS ?=
CI_IMAGE ?=
FUZZTIME ?= 20s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

BINARIES := bunsen machine-config-controller machine-config-server machine-config-daemon simulated-host
MODULES  := . standalone tools test/ignition test/ignition/spec2 test/monitoring test/chart test/registries test/sops test/gitea test/browser
ASSETS   := bin/assets/kube-apiserver
PARTS    := $(wildcard standalone/go.mod standalone/go.sum standalone/build.sh) \
            $(shell find standalone -name '*.go' -not -name '*_test.go' -not -path '*/hollow/*' 2>/dev/null)
HOLLOW   := bin/hollow-kubelet
KUBELET  := bin/kubelet
KUBEADM  := bin/kubeadm
# The git host of the stories about Notifications. Its SQLite needs a C compiler.
GITEA    := bin/gitea
# Packages whose values several requests share.
RACED    := ./mcs/http ./mcs ./mcs/cluster
TOOL     := go tool -modfile=$(CURDIR)/tools/go.mod
ENVTEST  := KUBEBUILDER_ASSETS=$(CURDIR)/bin/assets BUNSEN_BIN=$(CURDIR)/bin
# Programs, tests and checks are built with the same flags: with others, Go would compile every package again. What is
# compiled does not name this folder, so that each clone on a machine finds what another one compiled.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS 2>/dev/null)) -trimpath)
# The compiler collects garbage less often, which saves a quarter of its time and needs at most 0.8 GB.
COMPILE  := GOGC=400
# Tests and the API servers that they start collect garbage less often, which saves a fifth of the CPU time. The limit is for each process.
# Linking without DWARF and symbols takes less than two thirds of the time. Vet belongs to verify. The time-out is for a busy machine with a cold cache.
GOTEST   := GOGC=400 GOMEMLIMIT=2GiB go test '-ldflags=-s -w' -vet=off -timeout 30m
# Tests of programs and of folders outside of their own module run again when one of these changes.
WATCHING  = BUNSEN_INPUTS=$$(test/inputs $(1)); export BUNSEN_INPUTS
# Stories mostly wait, so more of them than there are cores run at the same time. They are in one package, which takes
# longer than any other.
STORIES  := $(GOTEST) -timeout 60m -parallel 6
ROOT     := $(filter 0,$(shell id -u))
# Packages whose tests wait for an API server leave the cores to others, so more of them run at the same time than there
# are cores. Those that take longest begin first.
PACKAGES := $(GOTEST) -p 4
LONGEST  := ./mcd/apply ./reconcile ./mcd/agent ./internal/console ./mcs/cluster ./bench/rollout
# Packages whose tests can rewrite their golden files, and fuzz targets as directory:name.
GOLDENS  = $(filter-out ./test/e2e ./test/browser,$(shell grep -rlE --include='*_test.go' 'flag\.Bool.*"update"' . | xargs -r -n1 dirname | sort -u))
FUZZERS  = $(shell grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|/[^/]+:func |:|')
# Those that read what strangers write and that link little: compiling the instrumented packages of the others takes
# minutes. make test runs each of them for SHORT, two at a time.
SHORT    := 2s
HOSTILE  := source:FuzzParseRevision reconcile/gitsource:FuzzWebhook source/oci:FuzzArchive source/git/transport:FuzzAnswers \
            source/git/objects:FuzzUnpack source/git:FuzzAddress source/verify:FuzzCommit transpile/kinds:FuzzIgnition \
            transpile/kinds:FuzzNodeFacts internal/sops:FuzzYAMLMutated internal/sops:FuzzJSONMutated api/machineconfig:FuzzTemplate \
            mcs/join:FuzzParse mcs/content:FuzzCheck internal/terminal:FuzzCut internal/lsp:FuzzAnswers

say = @echo '==> $(1)'

##@ Use
.PHONY: help run build standalone assets hollow
help: ## What people use; make help ALL=1 lists the rest: releases, single suites, measurements
	@awk -v all='$(ALL)' 'BEGIN {FS = all ? ":.*(##|#:) " : ":.*## "} \
	  /^##@/ {heading = substr($$0, 5)} \
	  /^[a-z0-9-]+:/ && NF > 1 { \
	    if (heading != "") printf "\n\033[1m%s\033[0m\n", heading; heading = ""; \
	    printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: build $(ASSETS) ## The whole path on this machine: make run [REPO=<url> [DIR=<folder in it>] [REF=<branch>]] [DATA=.run] [UP=<flags of bunsen-standalone up>]
	@exec bin/bunsen-standalone up --data '$(DATA)' --bin bin \
	  $(if $(REPO),--repo '$(REPO)') $(if $(DIR),--path '$(DIR)') $(if $(REF),--ref '$(REF)') $(UP)

# Static: a pod's daemon goes on inside of the node's root, where no libc of its own is. The go command renews the time of
# each program that it builds, changed or not. Tests of a program run again when its time changes, so bin/ gets those that
# have changed.
build: ## The project's binaries, into bin/
	$(call say,build: $(BINARIES))
	@mkdir -p bin/built
	@$(COMPILE) go build -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o bin/built/ $(addprefix ./cmd/,$(BINARIES))
	@for program in $(BINARIES); do cmp -s bin/built/$$program bin/$$program || install bin/built/$$program bin/; done
	@[ -e bin/kubectl-bunsen ] || ln -s bunsen bin/kubectl-bunsen

standalone: bin/bunsen-standalone #: The control plane in one binary, into bin/ (minutes the first time)
bin/bunsen-standalone: $(PARTS)
	$(call say,standalone: etcd and Kubernetes from source; minutes the first time and seconds after that)
	@mkdir -p bin
	@standalone/build.sh bin/bunsen-standalone

assets: $(ASSETS) #: The control plane's programs for tests, in bin/assets
hollow: $(HOLLOW) #: Kubelets without containers, for the stories about drains (minutes the first time)
$(HOLLOW): standalone/go.mod standalone/go.sum standalone/build.sh $(wildcard standalone/hollow/*.go)
	@mkdir -p bin
	@standalone/build.sh $@ ./hollow

$(KUBELET): standalone/go.mod standalone/go.sum standalone/build.sh
	@mkdir -p bin
	@standalone/build.sh $@ k8s.io/kubernetes/cmd/kubelet

$(GITEA): test/gitea/go.mod test/gitea/go.sum
	$(call say,gitea: from source; minutes the first time)
	@mkdir -p bin
	@cd test/gitea && CGO_ENABLED=1 go build -trimpath -tags 'sqlite sqlite_unlock_notify' -ldflags '-s -w' -o '$(CURDIR)/$@' code.gitea.io/gitea
	@touch $@

# kubeadm imports modules that no program of standalone/ does, so it is built with a copy of go.mod that has them.
$(KUBEADM): standalone/go.mod standalone/go.sum standalone/build.sh
	@mkdir -p bin
	@cp standalone/go.mod bin/kubeadm.mod && cp standalone/go.sum bin/kubeadm.sum
	@GOFLAGS='-trimpath -mod=mod -modfile=$(CURDIR)/bin/kubeadm.mod' standalone/build.sh $@ k8s.io/kubernetes/cmd/kubeadm

$(ASSETS): bin/bunsen-standalone
	@bin/bunsen-standalone assets bin/assets

##@ Release
.PHONY: release release-files cli pins tag images manifests chart
RELEASE = -o '$(CURDIR)/dist' -version '$(VERSION)' $(if $(PUSH),-push '$(PUSH)') $(if $(SIGNING_KEY),-key '$(abspath $(SIGNING_KEY))') $(if $(BIN),-bin '$(abspath $(BIN))') $(if $(DOWNLOADS),-downloads '$(DOWNLOADS)') $(if $(CI_IMAGE),-ci)

release: ## Everything that a release publishes, into an empty dist/: images, manifests, chart, the CLI for laptops, packages, checksums; needs mksquashfs
	$(call say,release: dist/)
	@rm -rf dist && mkdir -p dist
	@go run -C tools ./release all $(RELEASE)

cli: #: The CLI for Linux, macOS and Windows as archives and packages, into dist/; with BIN=bin for this machine alone
	$(call say,cli: dist/)
	@rm -rf dist && mkdir -p dist
	@go run -C tools ./release cli $(RELEASE)

pins: #: After make release: the digests of dist/ in what jobs of CI run, to commit: make pins VERSION=v1.2.3 SIGNING_KEY=FILE
	$(call say,pins: action/ templates/ .pre-commit-hooks.yaml)
	@go run -C tools ./release pins $(RELEASE)

tag: #: A signed tag of the commit with the pins, if these are of that version: make tag VERSION=v1.2.3
	@go run -C tools ./release tag -version '$(VERSION)'
	@git tag -s '$(VERSION)' -m '$(VERSION)'

images: #: OCI images for amd64 and arm64, into dist/images; to push them: make images PUSH=registry.example.com/bunsen [SIGNING_KEY=FILE]
	$(call say,images: dist/images)
	@go run -C tools ./release images $(RELEASE)

manifests: #: install.yaml and crds.yaml, with the images that make images pushed, into dist/
	$(call say,manifests: dist/install.yaml dist/crds.yaml)
	@go run -C tools ./release manifests -o '$(CURDIR)/dist'

chart: #: A Helm chart with the images that make images pushed, into dist/chart
	$(call say,chart: dist/chart)
	@go run -C tools ./release chart -o '$(CURDIR)/dist' -version '$(VERSION)'

release-files: #: Notices of third parties and a bill of materials (CycloneDX) for each binary, into dist/
	$(call say,release-files: dist/)
	@go run -C tools ./release files -o '$(CURDIR)/dist' -version '$(VERSION)'

##@ Change
.PHONY: generate fmt golden docs figures picture
generate: ## Deep copies, CRDs, their compact schemas and docs/api, from api/ and from openshift/api
	@$(TOOL) controller-gen object paths=./api/...
	@$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	@crds=$$(go list -m -f '{{.Dir}}' github.com/openshift/api)/payload-manifests/crds/0000_80_machine-config_01_; \
	for crd in machineconfigs:machineconfigs machineconfigpools-SelfManagedHA:machineconfigpools machineconfigurations:machineconfigurations machineconfignodes-SelfManagedHA-Default:machineconfignodes pinnedimagesets:pinnedimagesets; do \
	  install -m 0644 "$$crds$${crd%%:*}.crd.yaml" config/crd/openshift_$${crd##*:}.yaml; done
	@go test ./transpile/cluster -update >/dev/null
	@go run -C tools ./apidocs

fmt: ## Format every Go file
	@$(TOOL) gofumpt -w .

golden: $(ASSETS) $(HOLLOW) build ## Rewrite the golden files; read the diff before you commit it
	@for dir in $(GOLDENS); do (cd $$dir && $(ENVTEST) go test . -update); done
	@$(ENVTEST) go test ./test/e2e -run TestTruth -update

figures: #: What the sources measure, for people: lines, packages, files, functions; no rule depends on them
	@go run ./test/arch/figures

docs: #: Each package with its purpose, from its own comment
	@go list -f '{{if ne .Name "main"}}{{slice .ImportPath (len .Module.Path)}}	{{.Doc}}{{end}}' ./... | sed 's|^/||' | expand -t 28

picture: setup build $(ASSETS) #: The pictures of the documentation, docs/images/console*.png: the overview, a pool, a commit
	$(call say,pictures: docs/images/console*.png)
	@cd test/browser && $(ENVTEST) $(GOTEST) -count=1 . -run '^TestConsole$$/^(each_pool|a_push|a_halted)' -readme '$(CURDIR)/docs/images'

##@ Check
.PHONY: verify lint verify-fmt verify-platforms verify-deadcode verify-prose verify-generate verify-crds verify-tidy verify-licences verify-vulnerabilities test test-tour test-tools test-host test-ostree test-ignition test-install test-cluster test-standalone test-monitoring test-chart test-registries test-sops test-browser test-editor test-gitea test-skew test-race test-vm setup check soak fuzz fuzz-short e2e bench performance deps
# Two at a time: vet and staticcheck take longest, and go mod tidy mostly waits for downloads. Those that find nothing in
# the cache compile everything, or read the sources of all that is linked.
verify: ## Format, vet, staticcheck, the CLI on other platforms, dead code, prose, generated files, compatible CRDs, go.mod files, licences, known vulnerabilities; changes nothing
	@$(COMPILE) GOMEMLIMIT=6GiB $(MAKE) -j2 --output-sync=line lint verify-fmt verify-tidy verify-platforms verify-deadcode verify-prose verify-generate verify-crds verify-licences verify-vulnerabilities
	$(call say,verify: all current)

verify-fmt:
	$(call say,verify: gofumpt)
	@bad=$$($(TOOL) gofumpt -l .); [ -z "$$bad" ] || { printf 'not formatted (make fmt mends it):\n%s\n' "$$bad"; exit 1; }

# The Kubernetes parts are not ours to analyse: in standalone/ staticcheck leaves out the one package that links them.
lint: #: go vet and staticcheck
	$(call say,verify: go vet)
	@go vet ./...
	@cd standalone && go vet $$(go list ./... | grep '/standalone/' | grep -v '/hollow$$')
	@cd tools && go vet ./...
	$(call say,verify: staticcheck)
	@$(TOOL) staticcheck ./...
	@bin=$$($(TOOL) -n staticcheck); cd standalone && $$bin $$(go list ./... | grep '/standalone/' | grep -v '/hollow$$')
	@bin=$$($(TOOL) -n staticcheck); cd tools && $$bin ./...

# Types alone, which take 15 s; a release compiles the programs.
verify-platforms:
	$(call say,verify: the CLI on macOS and Windows)
	@go run -C tools ./platforms

# tools/deadcode/allowed.txt lists the functions that stay, each with the reason.
verify-deadcode:
	$(call say,verify: functions that no program can reach)
	@go run -C tools ./deadcode

# docs/writing.md is the guide. tools/prose/words.txt has the words.
verify-prose:
	$(call say,verify: words)
	@go run -C tools ./prose

# Generated once more in a copy, so that nothing here changes and a dirty git tree does not matter.
verify-generate:
	$(call say,verify: generated files)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	tar -c --exclude=./bin --exclude=./dist --exclude=./.git --exclude=./.run . | tar -x -C "$$tmp"; \
	$(MAKE) -C "$$tmp" generate; \
	for dir in api config docs/api; do diff -ru $$dir "$$tmp/$$dir" || { echo 'generated files are not current: run make generate'; exit 1; }; done

# tools/crds/baseline has the CRDs of the last release.
verify-crds:
	$(call say,verify: CRDs are compatible with the last release)
	@go run -C tools ./crds

verify-tidy:
	$(call say,verify: go mod tidy)
	@printf '%s\n' $(MODULES) | xargs -P 2 -I{} sh -c 'cd {} && go mod tidy -diff || { echo "run go mod tidy in {}"; exit 1; }'

verify-licences:
	$(call say,verify: licences of linked modules)
	@go run -C tools ./release licences

# GOVULNDB names a database (https:// or file://); without it, and where https://vuln.go.dev is not reachable, nothing is
# checked. The programs are linked with their symbols, because those without would be judged by module: 20 s the first time.
# Analysing the sources instead takes 5 GiB of memory. Test modules and tools are not published, so they are not checked.
verify-vulnerabilities:
	$(call say,verify: known vulnerabilities)
	@go run -C tools ./vulnerabilities

# Tests use programs without a version: those of an unchanged program need not run again after each commit.
test e2e soak test-tour test-tools test-host test-install test-cluster test-standalone test-ignition test-browser test-editor test-gitea: VERSION := dev

# The stories do not run beside other packages: they wait for processes, and a busy machine lets them wait too long.
test: setup build $(ASSETS) $(HOLLOW) $(if $(ROOT),$(KUBELET)) ## Every test of every module, with a real kube-apiserver; as root with real hosts and real Ignition
	$(call say,test: $(shell sed -n 's/^module //p' go.mod))
	@$(ENVTEST) $(PACKAGES) $(LONGEST) $$(go list ./... | grep -vE '/test/(e2e|tour|lab.*)$$') | grep --line-buffered -v 'no test files'
	@$(MAKE) fuzz-short
	$(call say,test: stories$(if $(ROOT), and real hosts))
	@$(if $(ROOT),BUNSEN_LAB=1) $(ENVTEST) $(STORIES) ./test/e2e $$(go list ./test/lab/... | grep -vE '/lab/(cluster|ostree)$$') | grep --line-buffered -v 'no test files'
	$(call say,test: the pages, other modules, the console in Chromium and the race detector)
	@$(MAKE) -j3 --output-sync=target test-tour $(if $(ROOT),test-install test-ignition) test-browser test-standalone test-tools test-monitoring test-chart test-registries test-sops $(if $(shell command -v gcc),test-race)
	@$(if $(shell command -v gcc),,printf '==> test-race: NOT RUN. It needs a C compiler\n')
	@printf '==> test-gitea: NOT RUN. It builds Gitea, which takes about ten minutes: run make test-gitea\n'
	@$(if $(ROOT),printf '==> test/lab/ostree: NOT RUN. The life of a machine on OSTree ran; run make test-ostree for each step of a deployment\n')
	@$(if $(ROOT),,printf '==> test-host, test-install, test-ignition: NOT RUN. Real hosts, real kubelets and real Ignition need root: run make test-host test-install test-ignition as root\n')

test-tour: setup build $(ASSETS) #: Every command of README, getting-started, the examples and the how-to pages, typed in a clone
	$(call say,test-tour: the commands of the pages)
	@$(call WATCHING); $(ENVTEST) $(GOTEST) ./test/tour

test-standalone: setup build $(ASSETS) #: The supervisor of make run
	$(call say,test: standalone)
	@$(call WATCHING,config examples); cd standalone && $(ENVTEST) $(GOTEST) $$(go list ./... | grep '/standalone/' | grep -v '/hollow$$') | grep --line-buffered -v 'no test files'

test-tools: setup build $(ASSETS) #: Licences, notices, bills of materials and the check of vulnerabilities
	$(call say,test-tools: the programs for releases)
	@$(call WATCHING); cd tools && $(ENVTEST) $(GOTEST) ./... | grep --line-buffered -v 'no test files'

test-host: setup build $(ASSETS) #: The tests of real hosts in systemd-nspawn: units, reboots, users, a whole life (root)
	$(call say,test-host: real hosts)
	@BUNSEN_LAB=1 $(ENVTEST) $(STORIES) -run '^TestLives$$' ./test/e2e
	@BUNSEN_LAB=1 $(ENVTEST) $(GOTEST) $$(go list ./test/lab/... | grep -vE '/lab/(cluster|ostree)$$') | grep --line-buffered -v 'no test files'

test-ostree: setup #: Each step of a deployment on a real OSTree host, with power cuts (root; not part of make test)
	$(call say,test-ostree: deployments)
	@BUNSEN_LAB=1 $(GOTEST) ./test/lab/ostree

CLUSTER = $(call WATCHING,config tools test); BUNSEN_LAB=1 $(ENVTEST) $(GOTEST) -v -timeout 30m ./test/lab/cluster

test-install: setup build $(ASSETS) $(KUBELET) #: Our images on three real kubelets in systemd-nspawn: install, roll out with drains and reboots, uninstall (root)
	$(call say,test-install: our images on real kubelets)
	@$(CLUSTER) -run '^TestInstall$$'

test-cluster: setup build $(ASSETS) $(KUBELET) $(KUBEADM) #: kubeadm with three control planes and two workers in systemd-nspawn: upgrade in mid-rollout, failures, gate, revert (root; not part of make test)
	$(call say,test-cluster: kubeadm)
	@export BUNSEN_LAB_KUBEADM=1; $(CLUSTER) -run '^TestKubeadm'

test-ignition: setup build $(ASSETS) #: The daemon beside real Ignition; first boots from our server by Ignition 2.27 and Debian's 2.14 (root; builds Ignition the first time)
	$(call say,test-ignition: the daemon beside Ignition)
	@$(call WATCHING,config examples test); cd test/ignition && BUNSEN_LAB=1 $(ENVTEST) $(GOTEST) ./...

test-race: #: What is shared between requests, under the race detector (needs a C compiler)
	$(call say,test-race: configs and tokens change under load)
	@CGO_ENABLED=1 $(GOTEST) -race $(RACED) | grep --line-buffered -v 'no test files'

test-monitoring: setup #: The alert rules, the dashboard and the gates that query, with Prometheus' own engine and API (builds them the first time)
	$(call say,test-monitoring: alert rules, gates)
	@$(call WATCHING,config docs reconcile); cd test/monitoring && $(GOTEST) ./...

test-vm: build $(ASSETS) #: The life of a machine in a QEMU VM, Ignition in its initramfs (root; a quarter of an hour after the image is made)
	@test/vm/run $(ARGS)

# SKEW is the version before: the last tag, or any commit. Each of its programs replaces ours in one run of these stories.
SKEW        ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
# The daemon of these stories is that of a simulated host.
SKEWED      := machine-config-controller machine-config-server simulated-host
SKEW_STORIES := commit-to-node|in-place|drain|crash|server-healthy
test-skew: setup build $(ASSETS) $(HOLLOW) #: Stories with one program of an earlier version: make test-skew SKEW=v1.2.0 (builds that version)
	$(call say,test-skew: programs of $(SKEW) beside ours)
	@[ -n '$(SKEW)' ] || { echo 'name the earlier version: make test-skew SKEW=COMMIT'; exit 1; }
	@rm -rf bin/skew && mkdir -p bin/skew/source && git archive '$(SKEW)' | tar -x -C bin/skew/source
	@cd bin/skew/source && go build -o ../ $(patsubst %,./cmd/%,$(SKEWED:simulated-host=machine-config-daemon))
	@cd bin/skew/source && if [ -d cmd/simulated-host ]; then go build -o ../ ./cmd/simulated-host; else \
	  printf '#!/bin/sh\nexec %s simulate "$$@"\n' $(CURDIR)/bin/skew/machine-config-daemon >../simulated-host; chmod +x ../simulated-host; fi
	@rm -rf bin/skew/source
	@for old in $(SKEWED); do dir=bin/skew/with-$$old; mkdir $$dir; \
	  ln -s $(CURDIR)/bin/[!s]* $(CURDIR)/bin/simulated-host $$dir/; ln -sfn ../$$old $$dir/$$old; printf '==> %s of %s\n' $$old '$(SKEW)'; \
	  KUBEBUILDER_ASSETS=$(CURDIR)/bin/assets BUNSEN_BIN=$(CURDIR)/$$dir $(STORIES) -count=1 ./test/e2e -run 'TestStories/($(SKEW_STORIES))$$' || exit 1; done

test-chart: $(ASSETS) #: The Helm chart by Helm's own code: every value, and install, upgrade and uninstall on a real API server (builds Helm the first time)
	$(call say,test-chart: the Helm chart)
	@$(call WATCHING,config tools); cd test/chart && $(ENVTEST) $(GOTEST) ./...

# The tags leave out parts of the library that need C: gpgme, and two ways to store layers.
test-registries: #: Mirrors and signature policies in the parsers of CRI-O, Podman and containerd (builds them the first time)
	$(call say,test-registries: mirrors and signature policies)
	@cd test/registries && $(GOTEST) -tags containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper ./...

test-sops: setup #: Encrypted files for keys other than age, with the key service of SOPS and a PGP key (builds SOPS the first time)
	$(call say,test-sops: the key service of SOPS)
	@cd test/sops && $(GOTEST) ./...

test-browser: setup build $(ASSETS) #: The console in Chromium: live pages, keyboard, axe-core, hostile texts; PICTURES=DIR keeps pictures of the pages
	$(call say,test-browser: the console in Chromium)
	@$(call WATCHING,config); cd test/browser && $(ENVTEST) $(GOTEST) ./... $(if $(PICTURES),-pictures '$(abspath $(PICTURES))')

# Neovim is installed with apt-get as root, else told.
test-editor: build #: bunsen lsp in Neovim: a typo, its correction, what a hover shows (installs neovim as root; not part of make test)
	$(call say,test-editor: Neovim)
	@command -v nvim > /dev/null || { [ "$$(id -u)" = 0 ] && echo 'installing neovim' && apt-get install -qq -y --no-install-recommends neovim > /dev/null; } || { echo 'no nvim: install the package neovim'; exit 1; }
	@$(ENVTEST) $(GOTEST) -count=1 -v ./test/editor -require

test-gitea: setup build $(ASSETS) $(GITEA) #: A real Gitea: webhooks, commit statuses, the outcome on a pull request (needs a C compiler; builds Gitea the first time, about ten minutes; not part of make test)
	$(call say,test-gitea: notifications)
	@GITEA='$(CURDIR)/$(GITEA)' GITEA_STATIC=$$(cd test/gitea && go list -m -f '{{.Dir}}' code.gitea.io/gitea) $(ENVTEST) $(GOTEST) ./test/e2e -run '^TestGitea$$'

# NEEDS are programs, or libraries of pkg-config, with their packages; those of LAB are for tests that need root.
NEEDS := git:git curl:curl openssl:openssl ssh-keygen:openssh-client sshd:openssh-server gpg:gnupg mksquashfs:squashfs-tools dpkg-deb:dpkg systemd-escape:systemd chromium:chromium \
         visudo:sudo logrotate:logrotate modprobe:kmod rpm:rpm ruby:ruby shellcheck:shellcheck
LAB   := systemd-nspawn:systemd-container mmdebstrap:mmdebstrap ip:iproute2 nsenter:util-linux dbus-daemon:dbus useradd:passwd \
         ostree:ostree mke2fs:e2fsprogs gcc:gcc pkg-config:pkg-config blkid.pc:libblkid-dev \
         systemd-analyze:systemd mkfs.ext4:e2fsprogs mount:mount
setup: #: What the tests need from the system: installed with apt-get as root, else told
	@missing() { for p in "$$@"; do case $$p in *.pc:*) pkg-config --exists "$${p%%.*}" 2>/dev/null ;; *) command -v "$${p%%:*}" >/dev/null ;; esac || printf ' %s' "$${p#*:}"; done; }; \
	PATH="$$PATH:/usr/sbin:/sbin"; needs=$$(missing $(NEEDS)); lab=$$(missing $(LAB)); [ -n "$$needs$$lab" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then echo "setup: installing$$needs$$lab with apt-get"; \
	  case "$$needs" in *openssh-server*) ! command -v systemctl >/dev/null || { systemctl -q mask ssh.service ssh.socket 2>/dev/null; echo "setup: the tests start sshd themselves; the SSH service of this machine is masked: systemctl unmask ssh.service"; } ;; esac; \
	  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$needs $$lab >/dev/null; exit; fi; \
	[ -z "$$lab" ] || echo "setup: tests of real hosts, which need root, also need$$lab: sudo make setup"; \
	[ -z "$$needs" ] || { echo "setup: the tests need$$needs: sudo make setup"; exit 1; }

e2e: setup build $(ASSETS) $(HOLLOW) #: The stories alone, in full
	@$(ENVTEST) $(STORIES) -count=1 -v ./test/e2e/...

# What make test plays a sample of.
soak: setup build $(ASSETS) $(if $(ROOT),$(KUBELET)) #: Random histories, forecasts and repositories in the thousands, and as root random lives of machines: an hour and a half
	$(call say,soak: long samples)
	@$(ENVTEST) $(GOTEST) -count=1 ./test/histories -histories=10000
	@$(ENVTEST) $(GOTEST) -count=1 ./test/revisions -histories=10000
	@$(ENVTEST) $(GOTEST) -count=1 ./test/forecast -pairs=20000
	@$(ENVTEST) $(GOTEST) -count=1 ./transpile/overlay -cases=1000
	@$(ENVTEST) $(GOTEST) -count=1 ./reconcile/render -run TestAMergeValidates -lists=2000
	@$(ENVTEST) $(GOTEST) -count=1 ./reconcile -run AssignedConfigsAreRevisions -revisions.histories=500
	@$(ENVTEST) $(GOTEST) -count=1 ./mcd/agent -run TestADaemonWhoseWrites -lost-writes 0
	@$(ENVTEST) $(GOTEST) -count=1 ./reconcile -run TestAControllerWhoseWrites -lost-writes 0
	@$(if $(ROOT),BUNSEN_LAB=1 $(ENVTEST) $(GOTEST) -count=1 -v -timeout 60m ./test/lab/reboots -reboots 100,printf '==> the 100 updates of a real host: NOT RUN. They need root\n')
	@$(if $(ROOT),$(subst 30m,90m,$(CLUSTER)) -run '^TestLives$$' -lives 200,printf '==> the 200 lives of real nodes: NOT RUN. They need root\n')

# BASE is the commit with which the work tree is compared.
BASE ?= $(shell [ -n "$$(git status --porcelain 2>/dev/null)" ] && echo HEAD || echo HEAD~1)
check: verify-fmt $(ASSETS) ## Format, vet and unit tests of what changed since BASE and of what depends on it (BASE=HEAD, or HEAD~1 without changes)
	@packages=$$(test/changed '$(BASE)'); [ -n "$$packages" ] || { echo 'check: no package has changed since $(BASE)'; exit 0; }; \
	printf '==> check: %s packages have changed since $(BASE), or depend on one that has\n' $$(wc -w <<<"$$packages"); \
	go vet $$packages && $(ENVTEST) $(GOTEST) -short $$packages | grep --line-buffered -v 'no test files'

fuzz: #: Each fuzz target for FUZZTIME (20s)
	@printf '%s\n' $(FUZZERS) | xargs -n 1 test/fuzz $(FUZZTIME)

fuzz-short: #: A minute of the fuzz targets that read what strangers write
	$(call say,fuzz-short: $(words $(HOSTILE)) targets for $(SHORT) each)
	@printf '%s\n' $(HOSTILE) | xargs -n 1 -P 2 test/fuzz $(SHORT)

bench: build $(ASSETS) #: What everything costs, beside its goals and what others need: make bench [QUICK=1] [BENCHES="render serve"]
	$(call say,bench: $(or $(BENCHES),every program))
	@$(ENVTEST) go run ./bench/table $(if $(QUICK),-quick) $(BENCHES)

performance: #: docs/performance.md, from what make bench measured last
	@go run ./bench/table -page docs/performance.md

deps: #: Direct dependencies, and what the daemon links
	@go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}} {{.Version}}{{end}}' all
	@printf '\n'; cat test/arch/deps.txt

##@ Clean
.PHONY: clean
clean: ## Remove bin/, dist/ and .run/ (the state of make run)
	@rm -rf bin dist .run
