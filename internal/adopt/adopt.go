package adopt

import (
	"errors"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// Input is one text with objects: YAML of one or more documents, or JSON. Import splits a List into its objects.
type Input struct {
	// Name is shown in findings, such as `dump.yaml`.
	Name string
	// Data is the text.
	Data []byte
}

// Options select which objects Import takes and how it writes them. Most users need the zero value.
type Options struct {
	// If Generated is true, Import also takes the MachineConfigs that a controller generated (annotation
	// generated-by-controller-version): the templates 00-worker, 01-worker-kubelet and others. Each release of that
	// controller changes these generated MachineConfigs.
	Generated bool
	// Pools are the roles of the MachineConfigs that Import takes; nil means all roles.
	Pools []string
	// If Exact is true, Import does not change a data: URL that Butane would encode in another way, so that the
	// rendered configs keep their names. Users cannot read such contents.
	Exact bool
	// Secrets are the paths and units that the user names as secret. Import writes their contents to files of their
	// own, as it does with contents that only their owner may read, and with unmistakable credentials.
	Secrets secretmask.Paths
	// InDocument keeps secret texts in the document instead of a file of their own. The caller shows the document to
	// the user who asked for it, and writes no file.
	InDocument bool
	// MaxInline is the largest number of bytes of a text inside a document. Import writes a longer text to a file
	// beside it. The value 0 means 4096.
	MaxInline int
	// Upgrade converts a spec with Ignition version 2 to version 3, and returns any other spec unchanged. A nil Upgrade
	// means kinds.UpgradeSpec.
	Upgrade func(mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error)
}

const defaultMaxInline = 4096

// Repository is the result of an import.
type Repository struct {
	// Files by slash-separated path from the repository's root.
	Files map[string][]byte
	// Objects is every object of the inputs, in their order, each with its result.
	Objects []Object
	// Secrets are the paths of those Files that contain secrets, in lexical order. Such a file may be a document with a
	// user's password hash.
	Secrets []string
	// Kept are the MachineConfigs that the repository contains, in the order of the inputs. These MachineConfigs are
	// unchanged, except that Ignition version 2 is converted. The files of the repository must render to the same
	// content as the MachineConfigs in Kept.
	Kept []*mcfgv1.MachineConfig
}

// Object is the result for one object: either it has Files, or Skipped has a reason.
type Object struct {
	// Kind and Name are those in the object; empty if the object has none.
	Kind, Name string
	// Pool is the role of a MachineConfig that was written, else "".
	Pool string
	// At is where the object begins.
	At Position
	// Files of the repository that contain the object, documents first.
	Files []string
	// Skipped is the reason why the repository does not contain the object, or "".
	Skipped string
	// Aside is the file below unsupported/ that contains a skipped object for a user to check, or "".
	Aside string
}

// String returns kind and name.
func (o Object) String() string {
	if o.Kind == "" {
		return "an object without a kind"
	}
	return strings.TrimSpace(o.Kind + " " + o.Name)
}

// Import creates a repository from the objects of the inputs. One invalid object does not fail the import: Import skips
// it with a reason. If a user has to decide about an object, Import also stores it below unsupported/. The error lists
// inputs whose text is invalid, so that their objects are unknown; with an error, there is no repository. Equal inputs
// give equal bytes.
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
		return Repository{}, nil, errors.New("there is no object in the input: give MachineConfigs as YAML or JSON, " +
			"such as what `oc get machineconfigs,machineconfigpools -o yaml` prints")
	}
	a := newAdoption(objects, opts)
	for i := range a.objects {
		addObject(a, i)
	}
	addAllSettings(a)
	addAllRegistries(a)
	summarizeRendered(a)
	writeDocuments(a)
	SortFindings(a.findings)
	return a.out, a.findings, nil
}

// adoption is the state of one import.
type adoption struct {
	opts     Options
	objects  []object
	out      Repository
	findings []Finding
	// names are the names of all MachineConfigs in the inputs, also of those that are skipped.
	names map[string]bool
	// first maps a kind and a name to the index of the first object with this kind and name.
	first map[string]int
	// documents by pool, in the order of the inputs.
	documents map[string][]document
	// growth is the number of bytes by which unpacked contents enlarge each pool.
	growth map[string]int
	// pools are the MachineConfigPools of the inputs by name.
	pools map[string]mcfgv1.MachineConfigPool
	// stems are file names, as pool/name without extension, for documents that take their names from their files.
	// exacts are the file names of documents that name themselves.
	stems, exacts map[string]bool
	// rendered counts the rendered configs in the inputs. A repository contains none.
	rendered int
}

func newAdoption(objects []object, opts Options) *adoption {
	if opts.Upgrade == nil {
		opts.Upgrade = kinds.UpgradeSpec
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

// addObject imports or skips one object.
func addObject(a *adoption, i int) {
	o := a.objects[i]
	switch {
	case o.bad != nil:
		a.skip(i, "unreadable", "%v", o.bad)
	case a.first[o.id()] != i && o.kind != "" && o.name != "":
		skipDuplicate(a, i)
	case o.is(mcfgv1.GroupName, machineConfigKind):
		addMachineConfig(a, i)
	case o.is(mcfgv1.GroupName, poolKind):
		addPool(a, i)
	case o.is(mcfgv1.GroupName, imagesKind):
		addImageSet(a, i)
	case o.is(operatorGroup, policyKind):
		addDisruptionPolicy(a, i)
	case o.apiVersion == v1alpha1.GroupVersion.String() && o.kind == driftKind:
		addDriftPolicy(a, i)
	case o.apiVersion == v1alpha1.GroupVersion.String() && o.kind == rolloutKind:
		addRolloutPolicy(a, i)
	case o.isSettings(), o.isAboutRegistries(): // addAllSettings and addAllRegistries import these objects later.
	default:
		a.skip(i, "other-kind", "it is not part of a config repository, which holds MachineConfigs, KubeletConfigs, "+
			"ContainerRuntimeConfigs, mirror sets, MachineConfigPools, DriftPolicies, RolloutPolicies, "+
			"PinnedImageSets and the MachineConfiguration")
	}
}

// skipDuplicate skips an object whose name an earlier object already has.
func skipDuplicate(a *adoption, i int) {
	o := a.objects[i]
	first := a.objects[a.first[o.id()]]
	if first.bad == nil && isSame(first.content, o.content) {
		a.skip(i, "twice", "the same object stands at %s already", first.at)
		return
	}
	a.setAside(i, fmt.Sprintf("another object of that name stands at %s and is imported; keep the right one and "+
		"import again", first.at))
}

// skip records why an object is not in the repository.
func (a *adoption) skip(i int, rule, format string, args ...any) {
	a.out.Objects[i].Skipped = safetext.OneLine(fmt.Sprintf(format, args...))
	a.note(i, rule, "skipped: %s", a.out.Objects[i].Skipped)
	a.findings[len(a.findings)-1].Warning = rule == "unreadable"
}

// summarizeRendered adds one finding for all rendered configs, because a cluster has dozens of them.
func summarizeRendered(a *adoption) {
	if a.rendered == 0 {
		return
	}
	what := "1 rendered config is"
	if a.rendered > 1 {
		what = fmt.Sprintf("%d rendered configs are", a.rendered)
	}
	a.findings = append(a.findings, Finding{Rule: "rendered", Message: what + " left out: the repository holds what " +
		"pools are rendered from"})
}

// setAside skips an object that a user has to check, and stores it below unsupported/, where no pool reads it.
func (a *adoption) setAside(i int, why string) {
	why = safetext.OneLine(strings.ReplaceAll(why, "\n", "; "))
	file := a.freePath(asideDir, FileName(a.objects[i].kind+"-"+a.objects[i].name), ".yaml")
	a.out.Files[file] = setAsideText(a.objects[i], why)
	a.out.Objects[i].Skipped, a.out.Objects[i].Aside = why, file
	a.out.Secrets = append(a.out.Secrets, file) // nobody has read it
	a.findings = append(a.findings, Finding{
		Warning: true, Rule: "unsupported", Object: a.out.Objects[i].String(), At: a.objects[i].at, Path: file,
		Message: fmt.Sprintf("not imported, kept in %s: %s", file, why),
	})
}

// note adds a finding about an object.
func (a *adoption) note(i int, rule, format string, args ...any) {
	a.findings = append(a.findings, Finding{
		Rule: rule, Message: safetext.OneLine(fmt.Sprintf(format, args...)), Object: a.out.Objects[i].String(),
		At: a.objects[i].at,
	})
}

// warn adds a warning about an object.
func (a *adoption) warn(i int, rule, format string, args ...any) {
	a.note(i, rule, format, args...)
	a.findings[len(a.findings)-1].Warning = true
}
