package adopt

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	operatorv1 "github.com/openshift/api/operator/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Input is one text with objects: YAML of one or more documents, or JSON. Import splits a List into its objects.
type Input struct {
	// Name is shown in findings, such as `dump.yaml`.
	Name string
	Data []byte
}

// Options select which objects Import takes and how it writes them. Most users need the zero value.
type Options struct {
	// Generated also takes the MachineConfigs that a controller generated (annotation generated-by-controller-version):
	// the templates 00-worker, 01-worker-kubelet and others, which each release of that controller changes.
	Generated bool
	// Pools are the roles of the MachineConfigs that Import takes; nil means all roles.
	Pools []string
	// Exact leaves a data: URL unchanged that Butane would encode in another way, so that the rendered configs keep
	// their names. Users cannot read such contents.
	Exact bool
	// Secrets are the paths and units that the user names as secret. Their contents get files of their own, as do
	// contents that only their owner may read and unmistakable credentials.
	Secrets secretmask.Paths
	// InDocument keeps secret texts in the document instead of a file of their own. The caller shows the document to
	// the user who asked for it, and writes no file.
	InDocument bool
	// MaxInline is the largest number of bytes of a text inside a document; a longer one gets a file beside it. 0 means
	// 4096.
	MaxInline int
	// Upgrade converts a spec with Ignition version 2 to version 3, and returns any other unchanged. Nil means
	// kinds.UpgradeSpec.
	Upgrade func(mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error)
}

const defaultMaxInline = 4096

// Repository is the result of an import.
type Repository struct {
	// Files by slash-separated path from the repository's root.
	Files   map[string][]byte
	Objects []Object
	// Secrets are the paths of those Files that contain secrets, in lexical order. Such a file may be a document with a
	// user's password hash.
	Secrets []string
	// Kept are the MachineConfigs that the repository contains, in the order of the inputs, unchanged except that
	// Ignition version 2 is converted. The files of the repository must render to the same content.
	Kept []*mcfgv1.MachineConfig
}

// Object is the result for one object: either it has Files, or Skipped has a reason.
type Object struct {
	// Kind and Name are those in the object; empty if the object has none.
	Kind, Name string
	// Pool is the role of a MachineConfig that was written, else "".
	Pool string
	At   Position
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
		a.addObject(i)
	}
	a.addAllSettings()
	a.addAllRegistries()
	a.summarizeRendered()
	a.writeDocuments()
	SortFindings(a.findings)
	return a.out, a.findings, nil
}

// addAllSettings imports the KubeletConfigs and ContainerRuntimeConfigs, once all pools and MachineConfigs are known.
func (a *adoption) addAllSettings() {
	var all []int
	for i, o := range a.objects {
		if out := a.out.Objects[i]; o.isSettings() && out.Skipped == "" && o.bad == nil {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(i, j int) int { return cmp.Compare(a.objects[i].suffix(), a.objects[j].suffix()) })
	for _, i := range all {
		a.addSettings(i)
	}
}

// addSettings writes one object into the directory of each pool that its selector selects.
func (a *adoption) addSettings(i int) {
	o := a.objects[i]
	pools, err := a.selectedPools(o)
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	wanted := slices.DeleteFunc(slices.Clone(pools), func(p string) bool {
		return a.opts.Pools != nil && !slices.Contains(a.opts.Pools, p)
	})
	if len(wanted) == 0 {
		a.skip(i, "other-pool", "it is for %s, and --pool selects only %s", strings.Join(pools, ", "),
			strings.Join(a.opts.Pools, ", "))
		return
	}
	var documents []document
	var kept []*mcfgv1.MachineConfig
	for _, pool := range wanted {
		d, mc, err := a.settingsDocument(i, pool)
		if err != nil {
			a.setAside(i, fmt.Sprintf("pool %s: %v", pool, err))
			return
		}
		documents, kept = append(documents, d), append(kept, mc)
	}
	for n, pool := range wanted {
		a.documents[pool] = append(a.documents[pool], documents[n])
	}
	a.out.Kept = append(a.out.Kept, kept...)
	if slices.ContainsFunc(documents[0].config.spec.Ignition.Storage.Files, func(f ign.File) bool {
		return strings.HasPrefix(f.Path, kubeletDropIns)
	}) {
		a.note(i, "kubelet", "it holds only what it says, without the settings that OpenShift adds: start the "+
			"kubelet with --config-dir=%s, or change the annotation %s", strings.TrimSuffix(kubeletDropIns, "/"),
			kinds.KubeletPathAnnotation)
	}
}

// addAllRegistries imports the objects about registries, once all pools and MachineConfigs are known. On OpenShift they
// apply to every pool, so they become documents of each pool that does not take worker's documents.
func (a *adoption) addAllRegistries() {
	var all []int
	for i, o := range a.objects {
		if a.out.Objects[i].Skipped == "" && o.bad == nil && o.isAboutRegistries() {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return
	}
	var pools []string
	for _, pool := range slices.Sorted(maps.Keys(a.poolLabels())) {
		wanted := a.opts.Pools == nil || slices.Contains(a.opts.Pools, pool)
		if wanted && (pool == workerPool || !a.takesWorkerDocuments(pool)) {
			pools = append(pools, pool)
		}
	}
	taken := a.validRegistries(all)
	for _, pool := range pools {
		a.addRegistries(pool, taken)
	}
}

func (a *adoption) addRegistries(pool string, taken []document) {
	var docs []kinds.RegistriesDocument
	for _, d := range taken {
		docs = append(docs, kinds.RegistriesDocument{
			Kind:        a.objects[d.config.index].kind,
			ObjectInput: kinds.ObjectInput{Pool: pool, Source: d.body},
		})
	}
	out, findings := kinds.TranslateRegistries(docs)
	spec, err := out.Config.Spec()
	if len(taken) == 0 || origin.Fatal(findings) || err != nil {
		return // validRegistries has set aside each object that is not valid
	}
	for _, d := range taken {
		d.config.name, d.config.pool, d.config.spec = kinds.FragmentName(pool), pool, out.Config
		a.documents[pool] = append(a.documents[pool], d)
	}
	a.out.Kept = append(a.out.Kept, &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name:   kinds.FragmentName(pool),
			Labels: map[string]string{v1alpha1.RoleLabel: pool},
		}, Spec: spec,
	})
}

// adoption is the state of one import.
type adoption struct {
	opts     Options
	objects  []object
	out      Repository
	findings []Finding
	// all MachineConfigs in the inputs, also those that are skipped
	names map[string]bool
	// the index of the first object, by kind and name
	first map[string]int
	// by pool, in the order of the inputs
	documents map[string][]document
	// how many bytes unpacked contents add to each pool
	growth map[string]int
	// by name
	pools map[string]mcfgv1.MachineConfigPool
	// stems are file names, as pool/name without extension, for documents that take their names from their files.
	// exacts are the file names of documents that name themselves.
	stems, exacts map[string]bool
	// how many rendered configs the inputs have; a repository contains none
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
func (a *adoption) addObject(i int) {
	o := a.objects[i]
	switch {
	case o.bad != nil:
		a.skip(i, "unreadable", "%v", o.bad)
	case a.first[o.id()] != i && o.kind != "" && o.name != "":
		a.skipDuplicate(i)
	case o.is(mcfgv1.GroupName, machineConfigKind):
		a.addMachineConfig(i)
	case o.is(mcfgv1.GroupName, poolKind):
		a.addPool(i)
	case o.is(mcfgv1.GroupName, imagesKind):
		a.addImageSet(i)
	case o.is(operatorGroup, policyKind):
		a.addDisruptionPolicy(i)
	case o.apiVersion == v1alpha1.GroupVersion.String() && o.kind == driftKind:
		a.addDriftPolicy(i)
	case o.apiVersion == v1alpha1.GroupVersion.String() && o.kind == rolloutKind:
		a.addRolloutPolicy(i)
	case o.isSettings(), o.isAboutRegistries(): // addAllSettings and addAllRegistries import these objects later.
	default:
		a.skip(i, "other-kind", "it is not part of a config repository, which holds MachineConfigs, KubeletConfigs, "+
			"ContainerRuntimeConfigs, mirror sets, MachineConfigPools, DriftPolicies, RolloutPolicies, "+
			"PinnedImageSets and the MachineConfiguration")
	}
}

// addRolloutPolicy imports a RolloutPolicy that is valid in a repository.
func (a *adoption) addRolloutPolicy(i int) {
	var p v1alpha1.RolloutPolicy
	err := strictly(a.objects[i], &p)
	if problems := schedule.CheckPolicy(&p); err == nil && len(problems) > 0 {
		err = errors.New(problems[0].Path + ": " + problems[0].Text)
	}
	a.addChecked(i, "rollout-", err)
}

// addPool imports a MachineConfigPool without the fields that the cluster writes. The original writes
// spec.pinnedImageSets from the labels of the sets.
func (a *adoption) addPool(i int) {
	o := a.objects[i]
	var p mcfgv1.MachineConfigPool
	err := strictly(o, &p)
	if err == nil {
		err = errors.Join(checkSelector("machineConfigSelector", p.Spec.MachineConfigSelector),
			checkSelector("nodeSelector", p.Spec.NodeSelector))
	}
	if bad := validation.IsDNS1123Label(o.name); err == nil && len(bad) > 0 {
		err = fmt.Errorf("%q is no name for a pool: use lower-case letters, digits and -", o.name)
	}
	switch {
	case err != nil:
		a.setAside(i, err.Error())
		return
	case a.opts.Pools != nil && !slices.Contains(a.opts.Pools, o.name):
		a.skip(i, "other-pool", "--pool selects only %s", strings.Join(a.opts.Pools, ", "))
		return
	case p.Spec.Paused:
		a.warn(i, "paused", "the pool is paused; the repository does not say so, as pausing is the cluster's affair: "+
			"it stays as it is there")
	}
	a.pools[o.name] = p
	spec, _ := o.content["spec"].(map[string]any)
	a.addClusterObject(i, a.freePath(clusterDir, o.name, ".yaml"), without(spec, "configuration", "paused",
		"pinnedImageSets"))
}

func (a *adoption) addMachineConfig(i int) {
	o := a.objects[i]
	mc, unknown, err := decode(o)
	role := mc.Labels[v1alpha1.RoleLabel]
	_, generated := mc.Annotations[v1alpha1.GeneratedByAnnotation]
	switch {
	case strings.HasPrefix(o.name, "rendered-"):
		a.out.Objects[i].Skipped = "it is what a pool was rendered to; the repository holds what it was rendered from"
		a.rendered++
		return
	case generated && !a.opts.Generated:
		a.skip(i, "generated", "a controller wrote this object and replaces it with each of its releases. To import "+
			"its present content, use `--generated`; the content then no longer follows those releases")
		return
	case mc.Labels[v1alpha1.NodeTableLabel] != "":
		a.skip(i, "single-nodes", "an import does not read the documents of single nodes back; copy `nodes.yaml` and "+
			"`nodes/` from the repository of the pool")
		return
	case a.opts.Pools != nil && !slices.Contains(a.opts.Pools, role) && err == nil:
		a.skip(i, "other-pool", "its role is %q, and --pool selects only %s", role, strings.Join(a.opts.Pools, ", "))
		return
	case err == nil:
		err = refused(o, role)
	}
	if err == nil {
		mc.Spec, err = a.opts.Upgrade(mc.Spec)
	}
	c := config{index: i, name: o.name, pool: role}
	if err == nil {
		c.spec, err = machineconfig.Parse(mc.Spec)
	}
	if err == nil {
		err = machineconfig.Check(c.spec).Err()
	}
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	a.reportLeftOut(i, mc, unknown)
	a.out.Kept = append(a.out.Kept, mc.DeepCopy())
	if generated {
		c.spec.OSImageURL, c.spec.ExtensionsImage = "", ""
	}
	a.out.Objects[i].Pool = role
	a.documents[role] = append(a.documents[role], a.documentsOf(c)...)
}

// documentsOf writes a MachineConfig in the most readable form with the same content. The forms, most readable first: a
// Butane document that takes its name from its file; a Butane document that names itself; a Butane document for the
// contents with a MachineConfig for the rest; a MachineConfig.
func (a *adoption) documentsOf(c config) []document {
	stem, named := stemOf(c.name, c.pool)
	needs := beyondFcos(c.spec)
	switch {
	case named && len(needs) == 0:
		return []document{a.fcosDocument(c, stem)}
	case len(beyondOpenshift(c.spec)) == 0:
		why := "Its name, kept for the order of merging, is not one that a file of this pool gives, so that it " +
			"stands in the document."
		if named {
			why = "Variant openshift, which names itself, for: " + strings.Join(needs, ", ") + "."
		}
		return []document{a.openshiftDocument(c, why)}
	case named && hasContents(c.spec) && a.objectBetween(c) == "":
		return a.splitDocuments(c, stem, needs)
	}
	why := fmt.Sprintf("A MachineConfig as it is, for Butane cannot say: %s.", strings.Join(needs, ", "))
	switch {
	case !named:
		why = fmt.Sprintf("A MachineConfig as it is. Its name, kept for the order of merging, is not like 50-%s-…; "+
			"only variant openshift would keep it, and cannot say: %s.", c.pool, strings.Join(beyondOpenshift(c.spec),
			", "))
	case hasContents(c.spec):
		why += fmt.Sprintf(" It is not parted from the rest, for %s would be merged between the two.",
			a.objectBetween(c))
	}
	a.note(c.index, "raw", "%s", why)
	return []document{a.rawDocument(c, c.name, why)}
}

// hasContents reports whether a config has files, directories, links, units or users, which are more readable as
// Butane.
func hasContents(c machineconfig.Config) bool {
	i := c.Ignition
	return len(i.Storage.Files)+len(i.Storage.Directories)+len(i.Storage.Links)+len(i.Systemd.Units)+
		len(i.Passwd.Users) > 0
}

// decode reads an object as a MachineConfig, and lists the fields that a MachineConfig does not have.
func decode(o object) (mc mcfgv1.MachineConfig, unknown []string, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.content, &mc, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return mc, nil, mistyped(o, err)
	}
	for _, e := range strict.Errors() {
		unknown = append(unknown, e.Error())
	}
	return mc, unknown, nil
}

func (a *adoption) addImageSet(i int) {
	var s mcfgv1.PinnedImageSet
	err := strictly(a.objects[i], &s)
	for n, image := range s.Spec.PinnedImages {
		if problem := pinnedimage.Problem(string(image.Name)); err == nil && problem != "" {
			err = fmt.Errorf("spec.pinnedImages[%d].name: %s", n, problem)
		}
	}
	a.addChecked(i, "images-", err)
}

func (a *adoption) addDriftPolicy(i int) {
	a.addChecked(i, "drift-", strictly(a.objects[i], &v1alpha1.DriftPolicy{}))
}

// addDisruptionPolicy imports the MachineConfiguration.
func (a *adoption) addDisruptionPolicy(i int) {
	o := a.objects[i]
	var mc operatorv1.MachineConfiguration
	err := strictly(o, &mc)
	if err == nil && o.name != "cluster" {
		err = fmt.Errorf("a MachineConfiguration is named cluster, and this one %q", o.name)
	}
	if err == nil {
		_, err = disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
	}
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	spec, _ := o.content["spec"].(map[string]any)
	a.addClusterObject(i, a.freePath(clusterDir, "disruption", ".yaml"), spec)
}

// skipDuplicate skips an object whose name an earlier object already has.
func (a *adoption) skipDuplicate(i int) {
	o := a.objects[i]
	first := a.objects[a.first[o.id()]]
	if first.bad == nil && isSame(first.content, o.content) {
		a.skip(i, "twice", "the same object stands at %s already", first.at)
		return
	}
	a.setAside(i, fmt.Sprintf("another object of that name stands at %s and is imported; keep the right one and "+
		"import again", first.at))
}

func isSame(a, b map[string]any) bool { return reflect.DeepEqual(a, b) }

// skip records why an object is not in the repository.
func (a *adoption) skip(i int, rule, format string, args ...any) {
	a.out.Objects[i].Skipped = safetext.OneLine(fmt.Sprintf(format, args...))
	a.note(i, rule, "skipped: %s", a.out.Objects[i].Skipped)
	a.findings[len(a.findings)-1].Warning = rule == "unreadable"
}

// summarizeRendered adds one finding for all rendered configs, because a cluster has dozens of them.
func (a *adoption) summarizeRendered() {
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

func (a *adoption) note(i int, rule, format string, args ...any) {
	a.findings = append(a.findings, Finding{
		Rule: rule, Message: safetext.OneLine(fmt.Sprintf(format, args...)), Object: a.out.Objects[i].String(),
		At: a.objects[i].at,
	})
}

func (a *adoption) warn(i int, rule, format string, args ...any) {
	a.note(i, rule, format, args...)
	a.findings[len(a.findings)-1].Warning = true
}
