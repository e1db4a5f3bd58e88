package lineage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile/message"
)

// UnknownError tells that no layer sets an item. Its text says what was meant perhaps, and where the item may come from.
type UnknownError struct {
	// Pool as in Options.
	Pool string
	// Kind asked for, or "" where the question left it open.
	Kind policy.ChangeKind
	// Name asked for.
	Name string
	// Meant are names of items that are close to it, the closest first.
	Meant []string
	// Image is the OS image that the pool sets, or "".
	Image string
}

// Error is `no file /etc/chrony.cnf in pool worker; did you mean /etc/chrony.conf?`, and what else may set it.
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
		text += " If a node has it all the same, it comes from " + image + " or was made on the node"
	default:
		text += ": no MachineConfig of the pool sets it, so a node that has it has it from " + image + ", or it was made on the node"
	}
	return text
}

// imaged are the kinds of which an OS image has its own.
var imaged = []policy.ChangeKind{
	"", policy.KindFile, policy.KindDirectory, policy.KindLink, policy.KindUnit, policy.KindUser, policy.KindGroup,
}

// words names a kind in a sentence.
func words(kind policy.ChangeKind) string {
	switch kind {
	case policy.KindKargs:
		return "kernel argument"
	case policy.KindExtensions:
		return "extension"
	case policy.KindStorage:
		return "storage device"
	case policy.KindFirstBootKargs:
		return "kernel arguments of first boots"
	case policy.KindKernelType:
		return "kernel type"
	case policy.KindOSImage:
		return "OS image"
	case KindExtensionsImage:
		return "image of extensions"
	case policy.KindFIPS:
		return "FIPS mode"
	}
	return string(kind)
}

// Find answers a question as a person types it: a path; the name of a unit, a user, a group, a device or an extension; a
// kernel argument, whole or up to its `=`; a kind of which there is one (`os-image`, `OS image`, `osImageURL`, `kargs`); a
// kind and a name (`user core`, `karg nosmt`, `ignition proxy`); a drop-in (`kubelet.service/20-limits.conf`); the path of
// a unit or a drop-in. Several items may go by one name. The error is an *UnknownError.
func (l *Lineage) Find(question string) ([]Item, error) {
	question = strings.TrimSpace(question)
	kind, name := asked(question)
	if kind == "" && strings.HasPrefix(name, "/") && len(name) > 1 {
		name = "/" + strings.Trim(name, "/")
	}
	if items := l.find(kind, name); len(items) > 0 {
		return items, nil
	}
	if unit, dropin := unitPath(name); unit != "" && (kind == "" || kind == policy.KindUnit) {
		if items := l.findUnit(unit, dropin); len(items) > 0 {
			return items, nil
		}
	}
	return nil, l.unknown(kind, name)
}

// kinds as people write them, and as a MachineConfig's spec does. The kinds' own names and the words that answers have for
// them count beside these.
var kinds = map[string]policy.ChangeKind{
	"karg": policy.KindKargs, "kernel arguments": policy.KindKargs, "kernelArguments": policy.KindKargs, "extension": policy.KindExtensions,
	"dropin": policy.KindUnit, "drop-in": policy.KindUnit,
	"image": policy.KindOSImage, "osImageURL": policy.KindOSImage, "baseOSExtensionsContainerImage": KindExtensionsImage,
	"kernel": policy.KindKernelType, "kernelType": policy.KindKernelType,
	"disk": policy.KindStorage, "filesystem": policy.KindStorage, "raid": policy.KindStorage, "luks": policy.KindStorage,
}

// asked takes the kind from a question that names one, by the longest words that do. Capitals do not count in them.
func asked(question string) (kind policy.ChangeKind, rest string) {
	longest := -1
	try := func(words string, k policy.ChangeKind) {
		n := len(words)
		if n > longest && len(question) >= n && strings.EqualFold(question[:n], words) && (len(question) == n || question[n] == ' ') {
			kind, rest, longest = k, strings.TrimSpace(question[n:]), n
		}
	}
	for text, k := range kinds {
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

// find looks a name up in one kind or in all.
func (l *Lineage) find(kind policy.ChangeKind, name string) (out []Item) {
	add := func(k policy.ChangeKind, n string) {
		item, err := l.Explain(k, n)
		if err == nil && !slices.ContainsFunc(out, func(o Item) bool { return o.Kind == item.Kind && o.Name == item.Name }) {
			out = append(out, item)
		}
	}
	if kind != "" {
		add(kind, name)
	}
	for _, k := range order {
		if kind == "" && name != "" {
			add(k, name)
		}
	}
	if len(out) > 0 || name == "" || kind != "" && kind != policy.KindKargs {
		return out
	}
	for _, e := range l.entries() {
		if argument, _, ok := strings.Cut(e.name, "="); ok && e.kind == policy.KindKargs && argument == strings.TrimSuffix(name, "=") {
			add(e.kind, e.name)
		}
	}
	return out
}

// unitPath takes a drop-in's name, or a path below the units' directory, apart.
func unitPath(name string) (unit, dropin string) {
	rest, inEtc := strings.CutPrefix(name, "/etc/systemd/system/")
	unit, dropin, _ = strings.Cut(rest, "/")
	unit = strings.TrimSuffix(unit, ".d")
	if !inEtc && dropin == "" {
		return "", ""
	}
	return unit, dropin
}

// findUnit returns a unit, or of it one drop-in.
func (l *Lineage) findUnit(unit, dropin string) []Item {
	item, err := l.Explain(policy.KindUnit, unit)
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

// entries are all items' kinds and names; of a path, those that it has in the end.
func (l *Lineage) entries() (out []entry) {
	for k, touches := range l.touched {
		out = append(out, entry{touches[len(touches)-1].list.kind, k.name})
	}
	for e := range l.plain {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b entry) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.kind), slices.Index(order, b.kind)), cmp.Compare(a.name, b.name))
	})
	return slices.Compact(out) // a disk and the file system on it are one item
}

// maxMeant is how many names an error suggests.
const maxMeant = 3

// unknown looks for names that are close to one that is not there.
func (l *Lineage) unknown(kind policy.ChangeKind, name string) error {
	e := &UnknownError{Pool: l.options.Pool, Kind: kind, Name: name}
	if images := l.plain[entry{policy.KindOSImage, ""}]; len(images) > 0 {
		e.Image = plain(images[len(images)-1].leaf.raw)
	}
	type candidate struct {
		name     string
		distance int
	}
	var meant []candidate
	consider := func(k policy.ChangeKind, full string) {
		if d, ok := near(name, full); ok && name != "" && (kind == "" || k == kind) {
			meant = append(meant, candidate{plain(l.options.named(k, full)), d})
		}
	}
	for _, x := range l.entries() {
		consider(x.kind, x.name)
		if x.kind != policy.KindUnit || !strings.HasSuffix(name, ".conf") {
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

// near tells how far a name is from what was asked for, and whether that is near enough to be a slip. The last part of a
// path alone is as good as a slip, and so is another directory.
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
		return limit + 2, true // chronyd is chronyd.service
	}
	return 0, false
}

func abs(n int) int { return max(n, -n) }
