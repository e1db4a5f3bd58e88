package adopt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// config is a MachineConfig that Import writes to the repository.
type config struct {
	index int
	name  string
	pool  string
	// without images if a controller generated the MachineConfig, because the cluster's images replace them
	spec machineconfig.Config
}

// mistyped names the field of an object that has a value of the wrong type; the errors of the converter name no field.
func mistyped(o object, err error) error {
	if err == nil {
		return nil
	}
	var typed *json.UnmarshalTypeError
	raw, jsonErr := json.Marshal(o.content)
	if jsonErr == nil && errors.As(json.Unmarshal(raw, &mcfgv1.MachineConfig{}), &typed) && typed.Field != "" {
		return fmt.Errorf("it is no MachineConfig: %s is a %s and should be of type %s", typed.Field, typed.Value,
			typed.Type)
	}
	return fmt.Errorf("it is no MachineConfig: %w", err)
}

// refused returns the reason why an object is not allowed in a repository.
func refused(o object, role string) error {
	switch bad := badName(o.name); {
	case bad != "":
		return errors.New(bad)
	case role == "":
		return fmt.Errorf("it has no label %s, which says whose it is; set it to a pool's name", v1alpha1.RoleLabel)
	case len(validation.IsDNS1123Label(role)) > 0:
		return fmt.Errorf("its role %q is no name for a pool: use lower-case letters, digits and -", role)
	}
	return nil
}

// reportLeftOut reports the parts of a MachineConfig that the repository does not have.
func (a *adoption) reportLeftOut(i int, mc mcfgv1.MachineConfig, unknown []string) {
	var labels []string
	for _, l := range slices.Sorted(maps.Keys(mc.Labels)) {
		if l != v1alpha1.RoleLabel && l != v1alpha1.SourceLabel {
			labels = append(labels, l)
		}
	}
	if len(labels) > 0 {
		a.warn(i, "label", "the labels %s are left out: of a document only its name and role reach the cluster; "+
			"check that no pool selects by them", FirstNames(labels))
	}
	if source := mc.Labels[v1alpha1.SourceLabel]; source != "" {
		a.warn(i, "has-source", "it comes from a repository already, by the GitSource %s; better take that", source)
	}
	if _, rep, err := ign.ParseCompatibleVersion(mc.Spec.Config.Raw); err == nil {
		for _, e := range rep.Entries {
			if strings.HasPrefix(strings.ToLower(e.Message), "unused key ") {
				unknown = append(unknown, e.Context.String())
			}
		}
	}
	if len(unknown) > 0 {
		a.warn(i, "unknown-key", "left out, as no program reads it, which may be a typing error: %s",
			FirstNames(unknown))
	}
	if mc.Annotations[v1alpha1.GeneratedByAnnotation] != "" && mc.Spec.OSImageURL+
		mc.Spec.BaseOSExtensionsContainerImage != "" {
		a.note(i, "image", "its images are left out: those of a generated MachineConfig give way to the cluster's")
	}
}

// The versions of Butane that Import writes. Butane translates documents of both variants to Ignition 3.5.0.
const (
	fcosVersion      = "1.6.0"
	flatcarVersion   = "1.1.0"
	openshiftVersion = "4.20.0"
)

type document struct {
	config config
	// without a directory
	file string
	// without the comment at its head
	body []byte
	// further text for the comment at the top, after the origin
	why []string
	// the object that the document comes from, if that is not a MachineConfig
	of string
	// several pools may share the document, because it belongs to the pool of its directory
	shareable bool
	// locals are the files beside the document. secrets are those locals that contain secrets. open reports a secret in
	// the document itself.
	locals  map[string][]byte
	secrets []string
	open    bool
}

// beyondFcos lists the parts of a config that variant fcos does not support.
func beyondFcos(c machineconfig.Config) []string {
	out := machineOnly(c)
	if c.FIPS {
		out = append(out, "fips")
	}
	if c.KernelType != "" && c.KernelType != "default" {
		out = append(out, "kernelType")
	}
	if len(c.Extensions) > 0 {
		out = append(out, "extensions")
	}
	if repeats(c.KernelArguments) {
		out = append(out, repeated)
	}
	return out
}

// machineOnly lists the parts of a config that no variant of Butane supports.
func machineOnly(c machineconfig.Config) (out []string) {
	if c.OSImageURL != "" {
		out = append(out, "osImageURL")
	}
	if c.ExtensionsImage != "" {
		out = append(out, "baseOSExtensionsContainerImage")
	}
	if k := c.Ignition.KernelArguments; len(k.ShouldExist)+len(k.ShouldNotExist) > 0 {
		out = append(out, "Ignition's own kernelArguments")
	}
	return out
}

// repeated is the name of kernel arguments with a repetition, which Butane refuses as a mistake.
const repeated = "kernelArguments with a repetition"

// repeats reports whether kernel arguments contain a repetition, which Butane's list does not allow.
func repeats(args []string) bool {
	seen := map[string]bool{"": true}
	return slices.ContainsFunc(args, func(a string) bool {
		twice := seen[a]
		seen[a] = true
		return twice
	})
}

// beyondOpenshift lists the parts of a config that variant openshift refuses.
func beyondOpenshift(c machineconfig.Config) []string {
	out := machineOnly(c)
	if repeats(c.KernelArguments) {
		out = append(out, repeated)
	}
	if c.KernelType != "" && c.KernelType != "default" && c.KernelType != "realtime" {
		out = append(out, "kernelType "+c.KernelType)
	}
	st, pw := c.Ignition.Storage, c.Ignition.Passwd
	for _, part := range []struct {
		name string
		has  bool
	}{
		{"directories", len(st.Directories) > 0},
		{"links", len(st.Links) > 0},
		{"groups", len(pw.Groups) > 0},
		{"appended files", slices.ContainsFunc(st.Files, func(f ign.File) bool { return len(f.Append) > 0 })},
		{"remote contents", slices.ContainsFunc(st.Files,
			func(f ign.File) bool { return machineconfig.IsRemote(f.Contents) })},
		{"HTTP headers", slices.ContainsFunc(st.Files,
			func(f ign.File) bool { return len(f.Contents.HTTPHeaders) > 0 })},
		{"users other than core, or more of core than keys and password", slices.ContainsFunc(pw.Users, notCore)},
		{"filesystems of format btrfs or none", slices.ContainsFunc(st.Filesystems, func(f ign.Filesystem) bool {
			return f.Format != nil && (*f.Format == "btrfs" || *f.Format == "none")
		})},
		{"LUKS with cex", slices.ContainsFunc(st.Luks, func(l ign.Luks) bool { return l.Cex.Enabled != nil })},
	} {
		if part.has {
			out = append(out, part.name)
		}
	}
	return out
}

// notCore reports whether OpenShift's daemon would reject a user.
func notCore(u ign.PasswdUser) bool {
	return u.Name != "core" || u.Gecos != nil || len(u.Groups) > 0 || u.HomeDir != nil || u.NoCreateHome != nil ||
		u.NoLogInit != nil ||
		u.NoUserGroup != nil || u.PrimaryGroup != nil || u.Shell != nil || u.ShouldExist != nil || u.System != nil ||
		u.UID != nil
}

// hostSuffix ends the name of the MachineConfig with the parts that Butane does not support.
const hostSuffix = "-host"

// objectBetween returns an object whose name sorts between the two parts of a split object, or "". Such an object would
// change the order of merging.
func (a *adoption) objectBetween(c config) string {
	second := c.name + hostSuffix
	for _, name := range slices.Sorted(maps.Keys(a.names)) {
		if name > c.name && name <= second {
			return name
		}
	}
	if badName(second) != "" {
		return "nothing, but the second's name is too long, which"
	}
	return ""
}

// splitDocuments writes the parts that Butane supports as Butane, and the rest as a MachineConfig that is merged
// directly after it.
func (a *adoption) splitDocuments(c config, stem string, needs []string) []document {
	first, second := c, c
	first.spec = machineconfig.Config{
		HasIgnition: true, Ignition: c.spec.Ignition,
		KernelArguments: c.spec.KernelArguments,
	}
	first.spec.Ignition.KernelArguments = ign.KernelArguments{}
	second.spec.Ignition = ign.Config{KernelArguments: c.spec.Ignition.KernelArguments}
	second.spec.HasIgnition = len(second.spec.Ignition.KernelArguments.ShouldExist)+
		len(second.spec.Ignition.KernelArguments.ShouldNotExist) > 0
	second.spec.KernelArguments = nil
	if repeats(c.spec.KernelArguments) {
		first.spec.KernelArguments, second.spec.KernelArguments = nil, c.spec.KernelArguments
	}
	a.names[c.name+hostSuffix] = true
	why := fmt.Sprintf("A MachineConfig as it is, for Butane cannot say: %s. The rest of %s is %s.bu.",
		strings.Join(needs, ", "), c.name, stem)
	a.note(c.index, "split", "it becomes %s.bu and, for what Butane cannot say (%s), a MachineConfig %s%s that is "+
		"merged right after it", stem, strings.Join(needs, ", "), c.name, hostSuffix)
	host := a.rawDocument(second, c.name+hostSuffix, why)
	doc := a.fcosDocument(first, stem)
	doc.why = append(doc.why, "The rest of it is "+host.file+".")
	return []document{doc, host}
}

func (a *adoption) fcosDocument(c config, stem string) document {
	root := Mapping(Key("variant"), Key("fcos"), Key("version"), Key(fcosVersion))
	d := document{config: c, file: stem + ".bu", shareable: true}
	if args := c.spec.KernelArguments; len(args) > 0 {
		root.Content = append(root.Content, Key("kernel_arguments"), Mapping(Key("should_exist"),
			list(args)))
	}
	a.writeBody(&d, root, stem)
	return d
}

func (a *adoption) openshiftDocument(c config, why string) document {
	file := a.exactName(c, c.name)
	root := Mapping(Key("variant"), Key("openshift"), Key("version"),
		Key(openshiftVersion), Key("metadata"), metadata(c, c.name))
	if set := hostFields(c.spec, "kernel_arguments", "kernel_type"); len(set.Content) > 0 {
		root.Content = append(root.Content, Key("openshift"), set)
	}
	d := document{config: c, file: file + ".bu", why: []string{why}}
	a.writeBody(&d, root, file)
	return d
}

// writeBody writes the Ignition config below root and finishes the document.
func (a *adoption) writeBody(d *document, root *yaml.Node, stem string) {
	growth := a.growth[d.config.pool]
	w := &Document{
		Exact: a.opts.Exact, MaxInline: cmp.Or(a.opts.MaxInline, defaultMaxInline), Stem: stem,
		Growth: &growth, Locals: map[string][]byte{}, Named: a.opts.Secrets, InDocument: a.opts.InDocument,
	}
	v := ignitionOf(d.config.spec)
	root.Content = append(root.Content, w.Mapping(v, "").Content...)
	a.growth[d.config.pool] = growth
	a.completeDocument(d, root, w)
}

// completeDocument encodes a document and reports how it wrote its contents.
func (a *adoption) completeDocument(d *document, root *yaml.Node, w *Document) {
	var err error
	// This error cannot occur, because the code above creates all nodes.
	if d.body, err = Encode(root); err != nil {
		a.warn(d.config.index, "yaml", "%v", err)
	}
	d.locals, d.secrets, d.open = w.Locals, w.Secrets, d.open || len(w.Hashes)+len(w.Exposed) > 0
	if len(w.Encoded) > 0 {
		a.note(d.config.index, "encoding", "encoded otherwise, with the same contents, so that rendered configs get "+
			"another name: %s", FirstNames(w.Encoded))
	}
	if len(w.Kept) > 0 {
		a.note(d.config.index, "opaque", "kept as a data: URL, as nothing readable has its very text: %s",
			FirstNames(w.Kept))
	}
	if len(w.Exposed) > 0 {
		a.warn(d.config.index, "secret", "only its owner may read it, it has a credential, or you name it, and it "+
			"stands in the document, which .gitignore leaves out of git: %s", FirstNames(w.Exposed))
	}
	if len(w.Hashes) > 0 {
		a.warn(d.config.index, "secret", "the hash of a password stands in the document, for users %s; anybody who "+
			"reads it may try to guess the password, so .gitignore leaves the document out of git",
			FirstNames(w.Hashes))
	}
}

// ignitionOf returns the Ignition config as JSON values, without the parts that a document has in other fields.
func ignitionOf(c machineconfig.Config) map[string]any {
	raw, err := c.IgnitionJSON()
	out := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err != nil || dec.Decode(&out) != nil {
		return map[string]any{} // This error cannot occur, because the text is the JSON of a struct.
	}
	if head, ok := out["ignition"].(map[string]any); ok {
		if delete(head, "version"); len(head) == 0 {
			delete(out, "ignition")
		}
	}
	return out
}

func list(items []string) *yaml.Node {
	n := Sequence()
	for _, s := range items {
		n.Content = append(n.Content, String(s))
	}
	return n
}

func metadata(c config, name string) *yaml.Node {
	return Mapping(Key("name"), String(name), Key("labels"),
		Mapping(Key(v1alpha1.RoleLabel), String(c.pool)))
}
