package adopt

import (
	"errors"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/transpile/ignition"
)

// Input is one text with objects: YAML of one or more documents, or JSON; a List is taken apart.
type Input struct {
	// Name is shown in findings, such as `dump.yaml`.
	Name string
	// Data is the text.
	Data []byte
}

// Options say what to take and how to write it. The zero value is what most people want.
type Options struct {
	// Generated takes the MachineConfigs that a controller generated too (annotation generated-by-controller-version): the
	// templates 00-worker, 01-worker-kubelet and the like. They change with every release of what generates them.
	Generated bool
	// Pools are the roles to take; nil is all.
	Pools []string
	// Exact keeps every data: URL that Butane would encode otherwise as it is, so that the rendered configs keep their names.
	// Such contents cannot be read.
	Exact bool
	// MaxInline is the most bytes of text that stand in a document; longer text becomes a file beside it. 0 is 4096.
	MaxInline int
	// Upgrade returns a spec with its Ignition as version 3 where it is of version 2, and any other as it is. Nil is
	// ignition.UpgradeSpec.
	Upgrade func(mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error)
}

const defaultMaxInline = 4096

func (o Options) maxInline() int {
	if o.MaxInline == 0 {
		return defaultMaxInline
	}
	return o.MaxInline
}

// Repository is what an import makes.
type Repository struct {
	// Files by slash-separated path from the repository's root.
	Files map[string][]byte
	// Objects is every object of the inputs, in their order, each with what became of it.
	Objects []Object
	// Secrets are those of Files that hold what few people should read, in lexical order. Some are documents whose users
	// have a password's hash.
	Secrets []string
	// Kept are the MachineConfigs that the repository holds, as they were but for Ignition of version 2, in the order of
	// the inputs: rendering them must give what rendering the repository gives.
	Kept []*mcfgv1.MachineConfig
}

// Object is what became of one object: either it has Files, or a reason why it was Skipped.
type Object struct {
	// Kind and Name as the object says; empty where it does not.
	Kind, Name string
	// Pool is the role of a MachineConfig that was written, else "".
	Pool string
	// At is where the object begins.
	At Position
	// Files of the repository that hold it, documents first.
	Files []string
	// Skipped is why the repository does not have it, or "".
	Skipped string
	// Aside is the file below unsupported/ that keeps a skipped object for a person to look at, or "".
	Aside string
}

// String returns kind and name.
func (o Object) String() string {
	if o.Kind == "" {
		return "an object without a kind"
	}
	return strings.TrimSpace(o.Kind + " " + o.Name)
}

// Import makes a repository of what the inputs hold. No object can fail the whole: what cannot be written is skipped with
// a reason, and kept aside where a person has to decide. The error joins what is wrong with inputs that cannot be read
// at all, where nobody could tell what is lost; there is no repository then. Equal inputs give equal bytes.
func Import(inputs []Input, opts Options) (Repository, []Finding, error) {
	var objects []object
	var bad []error
	for _, in := range inputs {
		found, err := read(in)
		if err != nil {
			bad = append(bad, err)
		}
		objects = append(objects, found...)
	}
	if len(bad) > 0 {
		return Repository{}, nil, errors.Join(bad...)
	}
	if len(objects) == 0 {
		return Repository{}, nil, errors.New("there is no object in the input: give MachineConfigs as YAML or JSON, such as what `oc get machineconfigs,machineconfigpools -o yaml` prints")
	}
	a := newAdoption(objects, opts)
	for i := range a.objects {
		a.take(i)
	}
	a.takeSettings()
	a.summarizeRendered()
	placer{a}.write()
	sortFindings(a.findings)
	return a.out, a.findings, nil
}

// adoption is one import under way.
type adoption struct {
	opts     Options
	objects  []object
	out      Repository
	findings []Finding
	// names are those of all MachineConfigs of the inputs, taken or not.
	names map[string]bool
	// first is the index of the object that has a kind and name first.
	first map[string]int
	// documents by pool, in the order of the inputs.
	documents map[string][]document
	// growth is how many bytes a pool's contents have grown by unpacking them.
	growth map[string]int
	// pools are the MachineConfigPools of the inputs by name.
	pools map[string]mcfgv1.MachineConfigPool
	// stems are the files, as pool/name without extension, that documents need for their names; exacts are those that
	// documents with a name of their own were given.
	stems, exacts map[string]bool
	// rendered counts the rendered configs, which no repository holds.
	rendered int
}

func newAdoption(objects []object, opts Options) *adoption {
	if opts.Upgrade == nil {
		opts.Upgrade = ignition.UpgradeSpec
	}
	a := &adoption{
		opts: opts, objects: objects, names: map[string]bool{}, first: map[string]int{},
		documents: map[string][]document{}, growth: map[string]int{}, pools: map[string]mcfgv1.MachineConfigPool{},
		stems: map[string]bool{}, exacts: map[string]bool{},
	}
	a.out.Files = map[string][]byte{}
	for i, o := range objects {
		a.out.Objects = append(a.out.Objects, Object{Kind: o.kind, Name: o.name, At: o.at})
		if o.kind == machineConfigKind {
			a.names[o.name] = true
			if role := roleOf(o); role != "" {
				if stem, ok := stemOf(o.name, role); ok {
					a.stems[role+"/"+stem] = true
				}
			}
		}
		if _, twice := a.first[o.id()]; !twice {
			a.first[o.id()] = i
		}
	}
	return a
}

// take decides on one object.
func (a *adoption) take(i int) {
	o := a.objects[i]
	switch {
	case o.bad != nil:
		a.skip(i, "unreadable", "%v", o.bad)
	case a.first[o.id()] != i && o.kind != "" && o.name != "":
		a.twice(i)
	case o.is(mcfgv1.GroupName, machineConfigKind):
		judge{a}.machineConfig(i)
	case o.is(mcfgv1.GroupName, poolKind):
		keeper{a}.pool(i)
	case o.is(operatorGroup, policyKind):
		keeper{a}.policy(i)
	case o.apiVersion == v1alpha1.GroupVersion.String() && o.kind == driftKind:
		keeper{a}.drift(i)
	case o.apiVersion == v1alpha1.GroupVersion.String() && o.kind == rolloutKind:
		keeper{a}.rollout(i)
	case o.isSettings(): // see takeSettings
	default:
		a.skip(i, "other-kind", "it is not part of a config repository, which holds MachineConfigs, KubeletConfigs, ContainerRuntimeConfigs, MachineConfigPools, DriftPolicies, RolloutPolicies and the MachineConfiguration")
	}
}

// twice skips an object whose name another one has already.
func (a *adoption) twice(i int) {
	o := a.objects[i]
	first := a.objects[a.first[o.id()]]
	if first.bad == nil && same(first.content, o.content) {
		a.skip(i, "twice", "the same object stands at %s already", first.at)
		return
	}
	a.setAside(i, fmt.Sprintf("another object of that name stands at %s and was taken; keep the right one and import again", first.at))
}

// skip notes why an object is not in the repository.
func (a *adoption) skip(i int, rule, format string, args ...any) {
	a.out.Objects[i].Skipped = safetext.OneLine(fmt.Sprintf(format, args...))
	a.find(i, rule == "unreadable", rule, "skipped: %s", a.out.Objects[i].Skipped)
}

// summarizeRendered adds one finding for all rendered configs: a cluster has dozens of them.
func (a *adoption) summarizeRendered() {
	if a.rendered == 0 {
		return
	}
	what := "1 rendered config is"
	if a.rendered > 1 {
		what = fmt.Sprintf("%d rendered configs are", a.rendered)
	}
	a.findings = append(a.findings, Finding{Rule: "rendered", Message: what + " left out: the repository holds what pools are rendered from"})
}

// setAside skips an object that a person has to look at, and keeps it where no pool reads it.
func (a *adoption) setAside(i int, why string) {
	why = safetext.OneLine(strings.ReplaceAll(why, "\n", "; "))
	file := a.free(asideDir, slug(a.objects[i].kind+"-"+a.objects[i].name), ".yaml")
	a.out.Files[file] = aside(a.objects[i], why)
	a.out.Objects[i].Skipped, a.out.Objects[i].Aside = why, file
	if secret.Is("", string(a.out.Files[file])) {
		a.out.Secrets = append(a.out.Secrets, file)
	}
	a.findings = append(a.findings, Finding{
		Warning: true, Rule: "unsupported", Object: a.out.Objects[i].String(), At: a.objects[i].at, Path: file,
		Message: fmt.Sprintf("not imported, kept in %s: %s", file, why),
	})
}

// find adds a finding about an object.
func (a *adoption) find(i int, warning bool, rule, format string, args ...any) {
	a.findings = append(a.findings, Finding{
		Warning: warning, Rule: rule, Message: safetext.OneLine(fmt.Sprintf(format, args...)), Object: a.out.Objects[i].String(), At: a.objects[i].at,
	})
}
