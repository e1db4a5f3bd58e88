package lsp

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// item is a part of a config that a document sets, as package disruption and package lineage name it.
type item struct {
	kind disruption.ChangeKind
	name string
}

// lists are the keys that lead to a list of items, and the key of an item that names it; "" if the item is the name.
var lists = []struct {
	path []string
	kind disruption.ChangeKind
	key  string
}{
	{[]string{"storage", "files"}, disruption.KindFile, "path"},
	{[]string{"storage", "directories"}, disruption.KindDirectory, "path"},
	{[]string{"storage", "links"}, disruption.KindLink, "path"},
	{[]string{"storage", "disks"}, disruption.KindStorage, "device"},
	{[]string{"storage", "raid"}, disruption.KindStorage, "name"},
	{[]string{"storage", "luks"}, disruption.KindStorage, "name"},
	{[]string{"storage", "filesystems"}, disruption.KindStorage, "device"},
	{[]string{"systemd", "units"}, disruption.KindUnit, "name"},
	{[]string{"passwd", "users"}, disruption.KindUser, "name"},
	{[]string{"passwd", "groups"}, disruption.KindGroup, "name"},
	{[]string{"kernel_arguments", "should_exist"}, disruption.KindKargs, ""},
	{[]string{"openshift", "kernel_arguments"}, disruption.KindKargs, ""},
	{[]string{"kernelArguments"}, disruption.KindKargs, ""},
	{[]string{"openshift", "extensions"}, disruption.KindExtensions, ""},
	{[]string{"extensions"}, disruption.KindExtensions, ""},
	{[]string{"users"}, disruption.KindUser, "name"},
}

// single are the keys of fields that are one item.
var single = map[string]disruption.ChangeKind{
	"osImageURL": disruption.KindOSImage, "kernelType": disruption.KindKernelType, "fips": disruption.KindFIPS,
}

// item returns the item that a place belongs to; false if it belongs to none.
func (p place) item() (item, bool) {
	at := 0
	for at < len(p.path) && (p.path[at] == "spec" || p.path[at] == "config") {
		at++ // A MachineConfig, and an object of this project.
	}
	path := p.path[at:]
	for _, l := range lists {
		n := len(l.path)
		if len(path) <= n || !slices.Equal(path[:n], l.path) || p.nodes[at+n].Kind != yaml.SequenceNode {
			continue
		}
		of := p.nodes[at+n+1]
		name := of.Value
		if l.key != "" {
			name = documents.Scalar(of, l.key)
		}
		return item{l.kind, name}, name != ""
	}
	if len(path) == 1 {
		kind, ok := single[path[0]]
		return item{kind, ""}, ok && at > 0
	}
	return item{}, false
}
