package lineage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/message"
)

// UnknownError means that no layer sets an item. It suggests similar names, and says where else the item may come from.
type UnknownError struct {
	Pool string
	// Kind of item in the user's question, or "".
	Kind disruption.ChangeKind
	// Name in the user's question.
	Name string
	// Meant are similar names, the closest first.
	Meant []string
	// Image is the OS image that the pool sets, or "".
	Image string
}

// Error is `no file /etc/chrony.cnf in pool worker; did you mean /etc/chrony.conf?`, with other possible origins.
func (e *UnknownError) Error() string {
	what := words(e.Kind)
	if e.Kind == "" {
		what = "item"
		if strings.HasPrefix(e.Name, "/") {
			what = "file"
		}
	}
	text := "no " + what
	if e.Name != "" {
		text += " " + plain(e.Name)
	}
	if e.Pool != "" {
		text += " in pool " + e.Pool
	}
	if len(e.Meant) > 0 {
		text += "; did you mean " + strings.Join(e.Meant, " or ") + "?"
	}
	image := "the OS image"
	if e.Image != "" {
		image += " (" + e.Image + ")"
	}
	switch {
	case e.Kind == "" && !strings.HasPrefix(e.Name, "/") || !slices.Contains(imaged, e.Kind):
	case len(e.Meant) > 0:
		text += " If a node has it nevertheless, it comes from " + image + ", or a user set it on the node"
	default:
		text += ": no document of this repository sets it, so a node that has it has it from another GitSource or a " +
			"MachineConfig made through the API (bunsen trace names it), from " + image +
			", or a user set it on the node"
	}
	return text
}

// imaged are the kinds of items that an OS image may also contain.
var imaged = []disruption.ChangeKind{
	"", disruption.KindFile, disruption.KindDirectory, disruption.KindLink, disruption.KindUnit, disruption.KindUser,
	disruption.KindGroup,
}

func words(kind disruption.ChangeKind) string {
	switch kind {
	case disruption.KindKargs:
		return "kernel argument"
	case disruption.KindExtensions:
		return "extension"
	case disruption.KindStorage:
		return "storage device"
	case disruption.KindFirstBootKargs:
		return "kernel arguments of first boots"
	case disruption.KindKernelType:
		return "kernel type"
	case disruption.KindOSImage:
		return "OS image"
	case KindExtensionsImage:
		return "image of extensions"
	case disruption.KindFIPS:
		return "FIPS mode"
	}
	return string(kind)
}

// Find returns the items that match a user's question, which has one of these forms: a path; the name of a unit, a
// user, a group, a device or an extension; a kernel argument, whole or up to its `=`; a kind with only one item
// (`os-image`, `OS image`, `osImageURL`, `kargs`); a kind and a name (`user core`, `karg nosmt`, `ignition proxy`); a
// drop-in (`kubelet.service/20-limits.conf`); the path of a unit or a drop-in. Several items may have one name. The
// error is an *UnknownError.
func (l *Lineage) Find(question string) ([]Item, error) {
	question = strings.TrimSpace(question)
	kind, name := asked(question)
	if kind == "" && strings.HasPrefix(name, "/") && len(name) > 1 {
		name = "/" + strings.Trim(name, "/")
	}
	if items := l.find(kind, name); len(items) > 0 {
		return items, nil
	}
	if unit, dropin := unitPath(name); unit != "" && (kind == "" || kind == disruption.KindUnit) {
		if items := l.findUnit(unit, dropin); len(items) > 0 {
			return items, nil
		}
	}
	return nil, l.unknown(kind, name)
}

// kindNames maps further names of kinds, as users or the spec of a MachineConfig write them.
var kindNames = map[string]disruption.ChangeKind{
	"karg": disruption.KindKargs, "kernel arguments": disruption.KindKargs, "kernelArguments": disruption.KindKargs,
	"extension": disruption.KindExtensions,
	"dropin":    disruption.KindUnit, "drop-in": disruption.KindUnit,
	"image": disruption.KindOSImage, "osImageURL": disruption.KindOSImage,
	"baseOSExtensionsContainerImage": KindExtensionsImage,
	"kernel":                         disruption.KindKernelType, "kernelType": disruption.KindKernelType,
	"disk": disruption.KindStorage, "filesystem": disruption.KindStorage, "raid": disruption.KindStorage,
	"luks": disruption.KindStorage,
}

// asked splits a question into the longest name of a kind, in any case, and the rest.
func asked(question string) (kind disruption.ChangeKind, rest string) {
	longest := -1
	try := func(words string, k disruption.ChangeKind) {
		n := len(words)
		if n > longest && len(question) >= n && strings.EqualFold(question[:n], words) &&
			(len(question) == n || question[n] == ' ') {
			kind, rest, longest = k, strings.TrimSpace(question[n:]), n
		}
	}
	for text, k := range kindNames {
		try(text, k)
	}
	for _, k := range order {
		try(string(k), k)
		try(words(k), k)
	}
	if longest < 0 {
		return "", question
	}
	return kind, rest
}

// find is for all kinds if kind is empty.
func (l *Lineage) find(kind disruption.ChangeKind, name string) (out []Item) {
	for _, e := range candidates(kind, name) {
		item, err := l.Explain(e.kind, e.name)
		if err == nil && !slices.ContainsFunc(out, func(o Item) bool {
			return o.Kind == item.Kind && o.Name == item.Name
		}) {
			out = append(out, item)
		}
	}
	if len(out) == 0 && (kind == "" || kind == disruption.KindKargs) {
		return l.findArgument(name)
	}
	return out
}

// candidates are the items that a name may refer to. A kind without a name refers to its only item.
func candidates(kind disruption.ChangeKind, name string) (out []entry) {
	switch {
	case kind != "":
		return []entry{{kind, name}}
	case name == "":
		return nil
	}
	for _, k := range order {
		out = append(out, entry{k, name})
	}
	return out
}

// findArgument finds kernel arguments by what stands before their `=`.
func (l *Lineage) findArgument(name string) (out []Item) {
	if name == "" {
		return nil
	}
	for _, e := range l.entries() {
		argument, _, ok := strings.Cut(e.name, "=")
		if !ok || e.kind != disruption.KindKargs || argument != strings.TrimSuffix(name, "=") {
			continue
		}
		if item, err := l.Explain(e.kind, e.name); err == nil {
			out = append(out, item)
		}
	}
	return out
}

// unitPath splits the name of a drop-in, or a path below the units' directory, into unit and drop-in.
func unitPath(name string) (unit, dropin string) {
	rest, inEtc := strings.CutPrefix(name, "/etc/systemd/system/")
	unit, dropin, _ = strings.Cut(rest, "/")
	unit = strings.TrimSuffix(unit, ".d")
	if !inEtc && dropin == "" {
		return "", ""
	}
	return unit, dropin
}

// findUnit returns a unit, or one drop-in of it.
func (l *Lineage) findUnit(unit, dropin string) []Item {
	item, err := l.Explain(disruption.KindUnit, unit)
	if err != nil {
		return nil
	}
	if dropin == "" {
		return []Item{item}
	}
	a, ok := item.Attribute("dropins." + dropin)
	if !ok {
		return nil
	}
	item.Attributes, item.Defaults = []Attribute{a}, nil
	return []Item{item}
}

// entries are those of all items. A path has its final kind.
func (l *Lineage) entries() (out []entry) {
	for k, touches := range l.touched {
		out = append(out, entry{touches[len(touches)-1].list.kind, k.name})
	}
	for e := range l.plain {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.kind), slices.Index(order, b.kind)),
			cmp.Compare(a.name, b.name))
	})
	return slices.Compact(out) // A disk and the file system on it are one item.
}

// Names returns the names of the files, directories, links, units, users and groups, in this order.
func (l *Lineage) Names() (out []string) {
	for _, x := range l.entries() {
		if x.name != "" && slices.Contains(imaged, x.kind) && !slices.Contains(out, x.name) {
			out = append(out, x.name)
		}
	}
	return out
}

const maxMeant = 3

func (l *Lineage) unknown(kind disruption.ChangeKind, name string) error {
	e := &UnknownError{Pool: l.options.Pool, Kind: kind, Name: name}
	if images := l.plain[entry{disruption.KindOSImage, ""}]; len(images) > 0 {
		e.Image = plain(images[len(images)-1].leaf.raw)
	}
	type candidate struct {
		name     string
		distance int
	}
	var meant []candidate
	consider := func(k disruption.ChangeKind, full string) {
		if d, ok := near(name, full); ok && name != "" && (kind == "" || k == kind) {
			meant = append(meant, candidate{plain(full), d})
		}
	}
	for _, x := range l.entries() {
		consider(x.kind, x.name)
		if x.kind != disruption.KindUnit || !strings.HasSuffix(name, ".conf") {
			continue
		}
		if item, err := l.Explain(x.kind, x.name); err == nil {
			for _, a := range item.Attributes {
				if dropin, ok := strings.CutPrefix(a.Name, "dropins."); ok {
					consider(x.kind, x.name+"/"+dropin)
				}
			}
		}
	}
	slices.SortStableFunc(meant, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	for _, m := range meant {
		if len(e.Meant) < maxMeant && !slices.Contains(e.Meant, m.name) {
			e.Meant = append(e.Meant, m.name)
		}
	}
	return e
}

// near returns the distance of two names, and whether it is small enough for a typing error. A path may also have one
// in its last part alone, or another directory.
func near(asked, name string) (int, bool) {
	a, b := strings.ToLower(asked), strings.ToLower(name)
	last := func(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }
	limit := 1 + len(a)/6
	if abs(len(a)-len(b)) <= limit {
		if d := message.Distance(a, b); d <= limit {
			return d, true
		}
	}
	if last(a) == last(b) && last(a) != "" {
		return limit + 1, true
	}
	if strings.HasPrefix(b, a+".") {
		return limit + 2, true // A user may write chronyd for chronyd.service.
	}
	return 0, false
}

func abs(n int) int { return max(n, -n) }
