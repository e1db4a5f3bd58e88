package adopt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The dialects that are written: both mean Ignition 3.5.0.
const (
	fcosVersion      = "1.6.0"
	openshiftVersion = "4.20.0"
)

// document is one file of a pool's directory to be.
type document struct {
	// config that it holds, whole or in part.
	config config
	// file is the document's name, without a directory.
	file string
	// body is the document without the comment at its head.
	body []byte
	// why is what the head says beyond where the document comes from.
	why []string
	// shareable documents take their pool from where they stand.
	shareable bool
	// locals are the files beside it; secrets are those of them that few people should read, and open tells of a secret in
	// the document itself.
	locals  map[string][]byte
	secrets []string
	open    bool
}

// author writes MachineConfigs as documents.
type author struct{ *adoption }

// express writes a MachineConfig in the most readable form that says the same: Butane that takes its name from its file,
// Butane that names itself, Butane for the contents with a MachineConfig for the rest, or a MachineConfig.
func (a author) express(c config) []document {
	stem, named := stemOf(c.name, c.pool)
	needs := beyondFcos(c.spec)
	switch {
	case named && len(needs) == 0:
		return []document{a.fcos(c, stem)}
	case len(beyondOpenshift(c.spec)) == 0:
		why := "Its name, kept for the order of merging, is not one that a file of this pool gives, so that it stands in the document."
		if named {
			why = "Variant openshift, which names itself, for: " + strings.Join(needs, ", ") + "."
		}
		return []document{a.openshift(c, why)}
	case named && hasContents(c.spec) && a.between(c) == "":
		return a.split(c, stem, needs)
	}
	why := fmt.Sprintf("A MachineConfig as it is, for Butane cannot say: %s.", strings.Join(needs, ", "))
	switch {
	case !named:
		why = fmt.Sprintf("A MachineConfig as it is. Its name, kept for the order of merging, is not like 50-%s-…; only variant openshift would keep it, and cannot say: %s.", c.pool, strings.Join(beyondOpenshift(c.spec), ", "))
	case hasContents(c.spec):
		why += fmt.Sprintf(" It is not parted from the rest, for %s would be merged between the two.", a.between(c))
	}
	a.find(c.index, false, "raw", "%s", why)
	return []document{a.raw(c, c.name, why)}
}

// beyondFcos lists what variant fcos cannot say.
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

// machineOnly lists what no variant of Butane says.
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

// repeated are kernel arguments as Butane takes them for a mistake.
const repeated = "kernelArguments with a repetition"

// repeats tells of kernel arguments that a list without repetitions cannot hold.
func repeats(args []string) bool {
	seen := map[string]bool{"": true}
	return slices.ContainsFunc(args, func(a string) bool {
		twice := seen[a]
		seen[a] = true
		return twice
	})
}

// beyondOpenshift lists what variant openshift refuses to say.
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
		{"HTTP headers", slices.ContainsFunc(st.Files, func(f ign.File) bool { return len(f.Contents.HTTPHeaders) > 0 })},
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

// notCore tells of a user that OpenShift's daemon would not take.
func notCore(u ign.PasswdUser) bool {
	return u.Name != "core" || u.Gecos != nil || len(u.Groups) > 0 || u.HomeDir != nil || u.NoCreateHome != nil || u.NoLogInit != nil ||
		u.NoUserGroup != nil || u.PrimaryGroup != nil || u.Shell != nil || u.ShouldExist != nil || u.System != nil || u.UID != nil
}

// hostSuffix names the MachineConfig beside a document that holds what Butane cannot say.
const hostSuffix = "-host"

// hasContents tells of an object of which more than a line is better read as Butane.
func hasContents(c machineconfig.Config) bool {
	i := c.Ignition
	return len(i.Storage.Files)+len(i.Storage.Directories)+len(i.Storage.Links)+len(i.Systemd.Units)+len(i.Passwd.Users) > 0
}

// between returns the object that would be merged between the two that an object is split into, or "". The order of
// merging has to stay.
func (a author) between(c config) string {
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

// split writes what Butane says as Butane, and the rest as a MachineConfig that is merged right after it.
func (a author) split(c config, stem string, needs []string) []document {
	first, second := c, c
	first.spec = machineconfig.Config{HasIgnition: true, Ignition: c.spec.Ignition, KernelArguments: c.spec.KernelArguments}
	first.spec.Ignition.KernelArguments = ign.KernelArguments{}
	second.spec.Ignition = ign.Config{KernelArguments: c.spec.Ignition.KernelArguments}
	second.spec.HasIgnition = len(second.spec.Ignition.KernelArguments.ShouldExist)+len(second.spec.Ignition.KernelArguments.ShouldNotExist) > 0
	second.spec.KernelArguments = nil
	if repeats(c.spec.KernelArguments) {
		first.spec.KernelArguments, second.spec.KernelArguments = nil, c.spec.KernelArguments
	}
	a.names[c.name+hostSuffix] = true
	why := fmt.Sprintf("A MachineConfig as it is, for Butane cannot say: %s. The rest of %s is %s.bu.", strings.Join(needs, ", "), c.name, stem)
	a.find(c.index, false, "split", "it becomes %s.bu and, for what Butane cannot say (%s), a MachineConfig %s%s that is merged right after it", stem, strings.Join(needs, ", "), c.name, hostSuffix)
	host := a.raw(second, c.name+hostSuffix, why)
	doc := a.fcos(first, stem)
	doc.why = append(doc.why, "The rest of it is "+host.file+".")
	return []document{doc, host}
}

// fcos writes a document that takes its name and pool from its file.
func (a author) fcos(c config, stem string) document {
	root := mapping(key("variant"), key("fcos"), key("version"), key(fcosVersion))
	d := document{config: c, file: stem + ".bu", shareable: true}
	if args := c.spec.KernelArguments; len(args) > 0 {
		root.Content = append(root.Content, key("kernel_arguments"), mapping(key("should_exist"), list(args)))
	}
	a.body(&d, root, stem)
	return d
}

// openshift writes a document that names itself.
func (a author) openshift(c config, why string) document {
	file := a.exact(c, c.name)
	root := mapping(key("variant"), key("openshift"), key("version"), key(openshiftVersion), key("metadata"), metadata(c, c.name))
	if set := hostFields(c.spec, "kernel_arguments", "kernel_type"); len(set.Content) > 0 {
		root.Content = append(root.Content, key("openshift"), set)
	}
	d := document{config: c, file: file + ".bu", why: []string{why}}
	a.body(&d, root, file)
	return d
}

// body writes the Ignition config below root and finishes the document.
func (a author) body(d *document, root *yaml.Node, stem string) {
	growth := a.growth[d.config.pool]
	w := &draft{opts: a.opts, stem: stem, growth: &growth, locals: map[string][]byte{}}
	v := ignitionOf(d.config.spec)
	root.Content = append(root.Content, w.plain(v, "").Content...)
	a.growth[d.config.pool] = growth
	a.complete(d, root, w)
}

// complete encodes a document and tells what came of its contents.
func (a author) complete(d *document, root *yaml.Node, w *draft) {
	var err error
	if d.body, err = encode(root); err != nil { // cannot be: the nodes are of the few kinds above
		a.find(d.config.index, true, "yaml", "%v", err)
	}
	d.locals, d.secrets, d.open = w.locals, w.secrets, d.open || len(w.hashes)+len(w.exposed) > 0
	if len(w.encoded) > 0 {
		a.find(d.config.index, false, "encoding", "encoded otherwise, with the same contents, so that rendered configs get another name: %s", few(w.encoded))
	}
	if len(w.opaque) > 0 {
		a.find(d.config.index, false, "opaque", "kept as a data: URL, as nothing readable has its very text: %s", few(w.opaque))
	}
	if len(w.exposed) > 0 {
		a.find(d.config.index, true, "secret", "looks like a secret, and stands in the document, where everybody reads it who reads the repository: %s", few(w.exposed))
	}
	if len(w.hashes) > 0 {
		a.find(d.config.index, true, "secret", "the hash of a password stands in the document, for users %s; anybody who reads the repository may try to guess it", few(w.hashes))
	}
}

// ignitionOf is the Ignition config as JSON values, without what stands elsewhere in a document.
func ignitionOf(c machineconfig.Config) map[string]any {
	raw, err := c.IgnitionJSON()
	out := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err != nil || dec.Decode(&out) != nil {
		return map[string]any{} // cannot be: it is the JSON of a struct
	}
	if head, ok := out["ignition"].(map[string]any); ok {
		if delete(head, "version"); len(head) == 0 {
			delete(out, "ignition")
		}
	}
	return out
}

func list(items []string) *yaml.Node {
	n := sequence()
	for _, s := range items {
		n.Content = append(n.Content, str(s))
	}
	return n
}

func metadata(c config, name string) *yaml.Node {
	return mapping(key("name"), str(name), key("labels"), mapping(key(v1alpha1.RoleLabel), str(c.pool)))
}
