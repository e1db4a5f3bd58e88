package lineage

import (
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// KindExtensionsImage is the image that extensions come from. No Change has it: it costs a running node nothing by itself.
const KindExtensionsImage policy.ChangeKind = "extensions-image"

// Layer is one MachineConfig, as merging takes it.
type Layer struct {
	// Name of the MachineConfig.
	Name string
	// Config is its spec, parsed.
	Config machineconfig.Config
	// Origin maps what it says to the repository; empty for one that was made through the API.
	Origin origin.Map
	// Source is the file of the repository that declares it, which overlays may have changed; empty as Origin.
	Source string
	// Generated tells that a controller of the cluster wrote it, so that its images give way to the cluster's.
	Generated bool
}

// Options of a Lineage. The zero value hides all contents.
type Options struct {
	// Pool is named in errors.
	Pool string
	// Mask masks the secrets of a content at a path; of units and drop-ins the path is the unit's name, and it is empty for
	// what is no file, such as kernel arguments. Nil hides all contents. Passwords, keys of encrypted disks and the like are
	// hidden without asking.
	Mask func(path, content string) secret.Result
}

// Place is a position in the repository. In JSON it is the text `file:line:col`.
type Place struct{ origin.Pos }

// MarshalText writes the place as Pos.String does.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Commit is what a reader wants to know of the commit that last changed a line.
type Commit struct {
	// Hash in full; empty means that the line is not committed yet.
	Hash string `json:"hash"`
	// Author is `Name <mail>`.
	Author string `json:"author,omitempty"`
	// Date is when it was committed.
	Date time.Time `json:"date,omitzero"`
	// Subject is the first line of its message.
	Subject string `json:"subject,omitempty"`
}

// Writer is one layer's say in a value.
type Writer struct {
	// Layer is the MachineConfig's name.
	Layer string `json:"machineConfig"`
	// Source is the file that declares the MachineConfig; empty for one made through the API.
	Source string `json:"declaredIn,omitempty"`
	// At is the line that gave the value: of Source, of an overlay that changed it last, or of a `local:` file.
	At Place `json:"at,omitzero"`
	// Value is what it wrote: short, decoded, and a digest where it is long or hidden.
	Value string `json:"value,omitempty"`
	// Commit that last changed the line, where the caller looked it up.
	Commit *Commit `json:"commit,omitempty"`

	// layer is the place in the order of merging.
	layer int
	// content is what Value was made of, where that is a text or a file. It may be secret.
	content []byte
}

// Attribute is one value of an item, and whence it comes.
type Attribute struct {
	// Name as in Ignition, from the item on: `mode`, `contents`, `user`, `append.0`, `enabled`, `dropins.10-limits.conf`,
	// `sshAuthorizedKeys.1`, `partitions.2.sizeMiB`. Numbers count in the rendered config.
	Name string `json:"name"`
	// Writer is who wrote the value that won.
	Writer
	// Content is all of a text that Value only names by its digest; empty where it is hidden or no text.
	Content string `json:"content,omitempty"`
	// ContentCommits are the hashes of the commits that gave the lines of Content, one for each; an empty one is not committed
	// yet. Annotate fills it in.
	ContentCommits []string `json:"contentCommits,omitempty"`
	// Replaced are those who wrote it before, the first one first.
	Replaced []Writer `json:"replaced,omitempty"`
}

// Item is one thing that a rendered config sets.
type Item struct {
	// Kind of the item; a path's is what it is in the end.
	Kind policy.ChangeKind `json:"kind"`
	// Name is the path, the unit's or user's name, the kernel argument; empty for kinds of which there is one.
	Name string `json:"name,omitempty"`
	// Attributes: contents, state, mode and owner first, the others in the order of Ignition's fields.
	Attributes []Attribute `json:"attributes"`
	// Writers are all layers that say anything of the item, in the order of merging: the last one is render's Winner.
	// Their At is where the item begins.
	Writers []Writer `json:"writers"`
	// Displaced are the writers of an entry of another kind at the same path, which this one replaced whole; their Value is
	// that kind.
	Displaced []Writer `json:"displaced,omitempty"`
	// Defaults are values that nobody wrote and a node takes all the same.
	Defaults []Default `json:"defaults,omitempty"`
}

// Default is a value that follows from the rules, not from a layer.
type Default struct {
	// Name as an Attribute's.
	Name string `json:"name"`
	// Value as an Attribute's.
	Value string `json:"value"`
}

// Winner is the name of the MachineConfig that wrote the item last.
func (i Item) Winner() string {
	if len(i.Writers) == 0 {
		return ""
	}
	return i.Writers[len(i.Writers)-1].Layer
}

// Attribute returns the attribute of a name.
func (i Item) Attribute(name string) (Attribute, bool) {
	for _, a := range i.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}

// EachWriter calls f for every writer in the item, so that a caller can add commits.
func (i *Item) EachWriter(f func(*Writer)) {
	each := func(list []Writer) {
		for j := range list {
			f(&list[j])
		}
	}
	for j := range i.Attributes {
		f(&i.Attributes[j].Writer)
		each(i.Attributes[j].Replaced)
	}
	each(i.Writers)
	each(i.Displaced)
}

// Explain is the lineage of one item, contents hidden. To show them, or to ask twice, make a Lineage.
func Explain(layers []Layer, kind policy.ChangeKind, name string) (Item, error) {
	return New(layers, Options{}).Explain(kind, name)
}

// All is the lineage of every item, contents hidden.
func All(layers []Layer) []Item { return New(layers, Options{}).All() }
