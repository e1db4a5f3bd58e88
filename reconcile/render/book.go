package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/message"
)

// entry is one item that a config sets.
type entry struct {
	kind disruption.ChangeKind
	name string
}

// book records which input set each entry. The renderer computes a book only at its first use, because most renders do
// not need it.
type book struct {
	inputs []Input

	once sync.Once
	// all has the names of the inputs that set an entry, in order.
	all map[entry][]string
}

func (b *book) open() map[entry][]string {
	b.once.Do(func() {
		b.all = map[entry][]string{}
		for _, in := range b.inputs {
			if in.Config.HasIgnition {
				b.ignition(in.Name, in.Config.Ignition)
			}
			b.plain(in)
		}
		b.nested()
		b.defaultKernels()
	})
	return b.all
}

// nested records the configs that inputs refer to. These nested configs are merged after all inputs, in the order of
// the inputs. A nested config that replaces the whole config removes all Ignition entries before it.
func (b *book) nested() {
	type named struct {
		input string
		machineconfig.Nested
	}
	var all, replacing []named
	for _, in := range b.inputs {
		configs, err := machineconfig.NestedConfigs(in.Config)
		if err != nil {
			continue // checkInputs has reported this error.
		}
		for _, n := range configs {
			if all = append(all, named{in.Name, n}); n.Replaces {
				replacing = []named{{in.Name, n}}
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

// beside are the kinds of entries that a MachineConfig has outside its Ignition config.
var beside = []disruption.ChangeKind{
	disruption.KindKargs, disruption.KindExtensions, disruption.KindFIPS, disruption.KindKernelType,
	disruption.KindOSImage, disruption.KindIgnition,
}

// last returns the input that last set an entry, or "".
func (b *book) last(e entry) string {
	if all := b.open()[e]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// lastOf does the same as last for an item of a list, but does not compute the book.
func (b *book) lastOf(e entry) string {
	for _, in := range slices.Backward(b.inputs) {
		keys := take(in.Config.Ignition).keys()
		for list := range listTable {
			if listTable[list].kind == e.kind && slices.Contains(keys[list], e.name) {
				return in.Name
			}
		}
	}
	return ""
}

func (b *book) set(input string, kind disruption.ChangeKind, name string) {
	e := entry{kind, name}
	b.all[e] = append(b.all[e], input)
}

// plain records the entries outside lists: the MachineConfig's own fields, and the Ignition section of its Ignition
// config.
func (b *book) plain(in Input) {
	for _, name := range disruption.IgnitionParts(in.Config.Ignition.Ignition) {
		b.set(in.Name, disruption.KindIgnition, name)
	}
	for _, k := range machineconfig.SplitKargs(in.Config.KernelArguments) {
		b.set(in.Name, disruption.KindKargs, k)
	}
	for _, e := range in.Config.Extensions {
		b.set(in.Name, disruption.KindExtensions, e)
	}
	if in.Config.FIPS {
		b.set(in.Name, disruption.KindFIPS, "")
	}
	if !defaultKernel(in.Config.KernelType) {
		b.set(in.Name, disruption.KindKernelType, "")
	}
	if !in.Generated && in.Config.OSImageURL != "" {
		b.set(in.Name, disruption.KindOSImage, "")
	}
}

// defaultKernels records the inputs that set the default kernel, if no input sets another kernel.
func (b *book) defaultKernels() {
	if len(b.all[entry{disruption.KindKernelType, ""}]) > 0 {
		return
	}
	for _, in := range b.inputs {
		if in.Config.KernelType != "" {
			b.set(in.Name, disruption.KindKernelType, "")
		}
	}
}

// ignition records an Ignition config.
func (b *book) ignition(input string, c ign.Config) {
	for _, f := range c.Storage.Files {
		b.node(input, disruption.KindFile, f.Path)
	}
	for _, d := range c.Storage.Directories {
		b.node(input, disruption.KindDirectory, d.Path)
	}
	for _, l := range c.Storage.Links {
		b.node(input, disruption.KindLink, l.Path)
	}
	for _, u := range c.Systemd.Units {
		b.set(input, disruption.KindUnit, u.Name)
	}
	for _, u := range c.Passwd.Users {
		b.set(input, disruption.KindUser, u.Name)
	}
	for _, g := range c.Passwd.Groups {
		b.set(input, disruption.KindGroup, g.Name)
	}
	for _, list := range [][]string{
		keys(nil, c.Storage.Disks), keys(nil, c.Storage.Filesystems),
		keys(nil, c.Storage.Raid), keys(nil, c.Storage.Luks),
	} {
		for _, name := range list {
			b.set(input, disruption.KindStorage, name)
		}
	}
	if len(c.KernelArguments.ShouldExist)+len(c.KernelArguments.ShouldNotExist) > 0 {
		b.set(input, disruption.KindFirstBootKargs, "")
	}
}

// node records a path. Only the last kind of a path counts: for example, a link at the path of an earlier file removes
// the file.
func (b *book) node(input string, kind disruption.ChangeKind, path string) {
	for _, other := range []disruption.ChangeKind{disruption.KindFile, disruption.KindDirectory, disruption.KindLink} {
		if other != kind {
			delete(b.all, entry{other, path})
		}
	}
	b.set(input, kind, path)
}

// explain adds to a problem of the merged config which inputs set the item. It removes the index of the item, because
// no user can see the merged list.
func (b *book) explain(p machineconfig.Problem) string {
	text := message.OfProblem(p)
	if p.Item == "" {
		return text
	}
	steps := strings.Split(p.Path, ".") // $, the section, the list, the index, and perhaps fields
	list, index := steps[2], steps[3]
	kind := disruption.KindStorage
	for _, l := range listTable {
		if l.name == list {
			kind = l.kind
		}
	}
	return list + strings.TrimPrefix(text, list+"["+index+"]") + b.setBy(entry{kind, p.Item})
}

// refused describes a part of the merged config that every node refuses, with the input that set it.
func (b *book) refused(r disruption.Refusal) string {
	return r.Field + ": every node refuses it: " + r.Why + b.setBy(entry{r.Kind, r.Name})
}

// setBy names the inputs that set an entry, in parentheses; "" if no input does.
func (b *book) setBy(e entry) string {
	by := b.open()[e]
	if len(by) == 0 {
		return ""
	}
	return fmt.Sprintf(" (set by MachineConfigs %s)", strings.Join(by, ", "))
}
