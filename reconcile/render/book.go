package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile/message"
)

// entry is one thing that a config sets.
type entry struct {
	kind policy.ChangeKind
	name string
}

// book tells who set what. It is written when somebody asks for the first time, for hardly anybody does.
type book struct {
	inputs []input

	once sync.Once
	// all are the names of the inputs that set an entry, in order.
	all map[entry][]string
}

func (b *book) open() map[entry][]string {
	b.once.Do(func() {
		b.all = map[entry][]string{}
		for _, in := range b.inputs {
			if in.config.HasIgnition {
				b.ignition(in.name, in.config.Ignition)
			}
			b.plain(in)
		}
		b.nested()
		b.defaultKernels()
	})
	return b.all
}

// nested records what the configs set that inputs name: they are merged after all inputs, in the order of these. A config
// that replaces the whole one takes all Ignition away that was there.
func (b *book) nested() {
	type named struct {
		input string
		machineconfig.Nested
	}
	var all, replacing []named
	for _, in := range b.inputs {
		if in.fragment.plain {
			continue
		}
		configs, err := machineconfig.NestedConfigs(in.config)
		if err != nil {
			continue // the input was checked
		}
		for _, n := range configs {
			if all = append(all, named{in.name, n}); n.Replaces {
				replacing = []named{{in.name, n}}
			}
		}
	}
	if replacing != nil {
		maps.DeleteFunc(b.all, func(e entry, _ []string) bool { return !slices.Contains(beside, e.kind) })
		all = replacing
	}
	for _, n := range all {
		b.ignition(n.input, n.Config.Ignition)
	}
}

// beside are the kinds that a MachineConfig has beside its Ignition.
var beside = []policy.ChangeKind{policy.KindKargs, policy.KindExtensions, policy.KindFIPS, policy.KindKernelType, policy.KindOSImage, policy.KindIgnition}

// last is the input that set an entry last, or "".
func (b *book) last(e entry) string {
	if all := b.open()[e]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// lastOf is last for an item of a list, without opening the book.
func (b *book) lastOf(e entry) string {
	for _, in := range slices.Backward(b.inputs) {
		for list := range listTable {
			if listTable[list].kind == e.kind && slices.Contains(in.keys[list], e.name) {
				return in.name
			}
		}
	}
	return ""
}

func (b *book) set(input string, kind policy.ChangeKind, name string) {
	e := entry{kind, name}
	b.all[e] = append(b.all[e], input)
}

// plain records what has no list: the MachineConfig's own fields, and what it tells Ignition about itself.
func (b *book) plain(in input) {
	if !in.fragment.plain {
		for _, name := range policy.IgnitionParts(in.config.Ignition.Ignition) {
			b.set(in.name, policy.KindIgnition, name)
		}
	}
	for _, k := range in.kargs {
		b.set(in.name, policy.KindKargs, k)
	}
	for _, e := range in.config.Extensions {
		b.set(in.name, policy.KindExtensions, e)
	}
	if in.config.FIPS {
		b.set(in.name, policy.KindFIPS, "")
	}
	if !defaultKernel(in.config.KernelType) {
		b.set(in.name, policy.KindKernelType, "")
	}
	if !in.generated && in.config.OSImageURL != "" {
		b.set(in.name, policy.KindOSImage, "")
	}
}

// defaultKernels records who says that the kernel is the default one, where nobody says another: then it is their word
// that counts.
func (b *book) defaultKernels() {
	if len(b.all[entry{policy.KindKernelType, ""}]) > 0 {
		return
	}
	for _, in := range b.inputs {
		if in.config.KernelType != "" {
			b.set(in.name, policy.KindKernelType, "")
		}
	}
}

// ignition records an Ignition config.
func (b *book) ignition(input string, c ign.Config) {
	for _, f := range c.Storage.Files {
		b.node(input, policy.KindFile, f.Path)
	}
	for _, d := range c.Storage.Directories {
		b.node(input, policy.KindDirectory, d.Path)
	}
	for _, l := range c.Storage.Links {
		b.node(input, policy.KindLink, l.Path)
	}
	for _, u := range c.Systemd.Units {
		b.set(input, policy.KindUnit, u.Name)
	}
	for _, u := range c.Passwd.Users {
		b.set(input, policy.KindUser, u.Name)
	}
	for _, g := range c.Passwd.Groups {
		b.set(input, policy.KindGroup, g.Name)
	}
	for _, list := range [][]string{keys(nil, c.Storage.Disks), keys(nil, c.Storage.Filesystems), keys(nil, c.Storage.Raid), keys(nil, c.Storage.Luks)} {
		for _, name := range list {
			b.set(input, policy.KindStorage, name)
		}
	}
	if len(c.KernelArguments.ShouldExist)+len(c.KernelArguments.ShouldNotExist) > 0 {
		b.set(input, policy.KindFirstBootKargs, "")
	}
}

// node records a path, of which the last kind counts: a link at a file's path takes the file away.
func (b *book) node(input string, kind policy.ChangeKind, path string) {
	for _, other := range []policy.ChangeKind{policy.KindFile, policy.KindDirectory, policy.KindLink} {
		if other != kind {
			delete(b.all, entry{other, path})
		}
	}
	b.set(input, kind, path)
}

// explain adds to a problem of the merged config who set the entry that it is about. The entry's index is left out: it
// counts in a list that nobody has.
func (b *book) explain(err error) string {
	text := message.TranslateLine(err.Error())
	place, _, _ := strings.Cut(text, ":")
	list, rest, _ := strings.Cut(place, "[")
	_, rest, ok := strings.Cut(rest, "] ")
	if !ok {
		return text
	}
	text = list + " " + rest + text[len(place):]
	var about entry // the longest name that fits, for names may have blanks in them
	for e := range b.open() {
		if isIn(e.kind, list) && len(e.name) > len(about.name) && (rest == e.name || strings.HasPrefix(rest, e.name+" ")) {
			about = e
		}
	}
	if about.name == "" {
		return text
	}
	return fmt.Sprintf("%s (set by MachineConfigs %s)", text, strings.Join(b.all[about], ", "))
}

// isIn reports whether entries of a kind are in a list, as problems name it.
func isIn(kind policy.ChangeKind, list string) bool {
	if kind == policy.KindStorage {
		return slices.Contains([]string{"disks", "filesystems", "raid", "luks"}, list)
	}
	return listOf(kind) == list
}

// refused is what every node would refuse of the merged config, with who set it.
func (b *book) refused(r policy.Refusal) string {
	text := r.Field + ": every node refuses it: " + r.Why
	if by := b.open()[entry{r.Kind, r.Name}]; len(by) > 0 {
		text += fmt.Sprintf(" (set by MachineConfigs %s)", strings.Join(by, ", "))
	}
	return text
}

// listOf is the list in which problems name entries of a kind.
func listOf(kind policy.ChangeKind) string {
	for _, l := range listTable {
		if l.kind == kind {
			return l.name
		}
	}
	return ""
}
