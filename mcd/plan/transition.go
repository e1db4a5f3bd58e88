package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/host"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Transition is the change from one config to another, without a machine. The packages mcd/agent and review use a
// Transition.
type Transition struct {
	// From and To are the configs' names.
	From, To string
	// Old and New are the states that the two configs require.
	Old, New Desired
	// Decision is the disruption of the change.
	Decision disruption.Decision
	// ReferencedAccounts are the accounts that the new config names and does not create.
	ReferencedAccounts []disruption.Account
	// Refusals are the refusals that do not depend on the machine, and the problems of New.
	Refusals []disruption.Refusal
}

// Config is a config with its name.
type Config struct {
	// Name of the MachineConfig; "" for the empty config that a machine starts from.
	Name   string
	Config machineconfig.Config
	// Secrets are the paths and units that users mark as secret.
	Secrets secretmask.Paths
}

// Rules are the cluster's disruption policy and overrides.
type Rules struct {
	// Policy has the disruption of each difference.
	Policy disruption.Policy
	// Overrides lift refusals.
	Overrides disruption.Overrides
}

// NewTransition returns a transition with its disruption and its refusals.
func NewTransition(from, to Config, rules Rules, accounts host.Accounts) Transition {
	a, b := disruption.Running(from.Config, to.Config)
	w := Transition{
		From: from.Name, To: to.Name, Old: DesiredOf(a, accounts), New: DesiredOf(b, accounts),
		ReferencedAccounts: disruption.AccountsNamed(b),
	}
	w.Decision = disruption.Decide(from.Config, to.Config, rules.Policy)
	old := from.Config
	if from.Name == "" {
		old = withFirstPaths(old, machineconfig.Flattened(to.Config))
	}
	w.Refusals = disruption.Refuse(old, to.Config, rules.Overrides)
	w.Refusals = append(w.Refusals, aboutOtherFields(w.Refusals, w.New.Problems)...)
	return w
}

// WithReboot returns the transition with a drain and a reboot, independently of the policy.
func (w Transition) WithReboot() Transition {
	w.Decision = w.Decision.Rebooting()
	return w
}

// Scope returns the part of the machine that has to be observed.
func (w Transition) Scope() Scope { return ScopeOf(w.Old, w.New) }

// Plan returns the steps on an observed machine. The parameter record is the content of the record of the new config.
// The result contents has the contents that the steps write, by digest.
func (w Transition) Plan(observed host.State, record []byte) (p Plan, contents map[host.Digest][]byte) {
	target := Target(observed, w.Old, w.New)
	addRecord(target, record)
	found := slices.Concat(refuseUnsafe(observed, w), refuseForeignHomes(observed, target, w),
		refuseReplacedByDirs(observed, target, w), refuseAppends(observed, target, w.New), refuseOverwrites(target, w),
		refuseHardLinks(target, w.New), refuseNewIDs(observed, target),
		refuseRemovedAccounts(target, w.ReferencedAccounts), refuseUsedDirs(target, w),
		refuseObstructedUnits(observed, target, w))
	for i := range found {
		found[i].Field = w.spelled(found[i].Field)
	}
	problems := append(slices.Clone(w.Refusals), aboutOtherFields(w.Refusals, found)...)
	maps.Copy(target.Contents, w.New.Contents)
	p = Diff(observed, target, DiffOptions{
		From: w.From, To: w.To, Decision: w.Decision, Problems: problems, Last: otherKeys(w.New),
		MergeKeys: ChangedKeys(observed, target, w.Old, w.New),
	})
	p.Notes, p.Masks = obstructedUnits(observed, target, w), masks(w.New)
	return p, target.Contents
}

// refuseRemovedAccounts refuses a config that names an account which only the current config creates.
func refuseRemovedAccounts(target host.State, named []disruption.Account) (refusals []disruption.Refusal) {
	for _, a := range named {
		user, isUser := target.Users[a.Name]
		group, isGroup := target.Groups[a.Name]
		if a.Kind == disruption.KindUser && isUser && !user.There || a.Kind == disruption.KindGroup && isGroup &&
			!group.There {
			refusals = append(refusals, disruption.OnNode(disruption.CheckAccounts, a.Field,
				fmt.Sprintf("it names %s %q, which goes because the config does not make it any more: keep it in "+
					"passwd, or name another one", a.Kind, a.Name)))
		}
	}
	return refusals
}

// refuseOverwrites refuses to replace a file that existed before any config, unless the config sets overwrite: a new
// machine with that file would not boot. refuseOverwrites does not refuse a path of the current config.
func refuseOverwrites(target host.State, w Transition) (refusals []disruption.Refusal) {
	for p, yields := range w.New.NoOverwrite {
		want, was := w.New.Paths[p], target.Paths[origPath(p)]
		if !yields || was.Kind == host.Absent || w.Old.NoOverwrite[p] && w.Old.Paths[p].Kind == want.Kind {
			continue
		}
		_, takes := w.New.Appends[p]
		if was.Kind == want.Kind &&
			(was.Kind == host.Dir || takes || path.Clean(was.Target) == path.Clean(want.Target) &&
				was.Kind == host.Link) {
			continue
		}
		refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, p,
			fmt.Sprintf("this node has a %s at this path "+
				"that no config created, and the config does not set overwrite: true, so a new node would not boot. "+
				"Set "+
				"overwrite: true, or choose another path", was.Kind)))
	}
	return sortRefusals(refusals)
}

// refuseObstructedUnits refuses a config that enables a unit which a user of the machine has masked, for example. If
// the present config enabled the unit already, this is drift, for which the node's DriftPolicy counts.
func refuseObstructedUnits(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(w.New.Units)) {
		if o := Obstructed(observed, target, w.New, name); o.Why != "" && !isDrift(observed, w, name, o) {
			refusals = append(refusals, disruption.OnNode(disruption.CheckUnits, "systemd.units "+name,
				"the config enables it, and on this node it "+o.Problem()+": "+o.Advice(name)))
		}
	}
	return refusals
}

func isDrift(observed host.State, w Transition, name string, o host.Obstacle) bool {
	return enables(w.Old, name) && observed.Units[name].Obstacle == o
}

// refuseNewIDs refuses to change the number of an existing account, because the account's files have the old number.
func refuseNewIDs(observed, target host.State) (refusals []disruption.Refusal) {
	refuse := func(field, what string, is, shall int) {
		refusals = append(refusals, disruption.OnNode(disruption.CheckAccounts, field,
			fmt.Sprintf("it has the %s %d on this "+
				"node, and the owner of its files would not exist with %d: give %d, or leave it "+
				"out", what, is, shall, is)))
	}
	for _, name := range slices.Sorted(maps.Keys(target.Users)) {
		if is, shall := observed.Users[name], target.Users[name]; is.There && shall.There && is.UID != shall.UID {
			refuse("passwd.users "+name, "uid", is.UID, shall.UID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(target.Groups)) {
		if is, shall := observed.Groups[name], target.Groups[name]; is.There && shall.There && is.GID != shall.GID {
			refuse("passwd.groups "+name, "gid", is.GID, shall.GID)
		}
	}
	return refusals
}

// refuseHardLinks refuses hard links to files that do not exist after the update.
func refuseHardLinks(target host.State, to Desired) (refusals []disruption.Refusal) {
	for p, e := range to.Paths {
		if e.Kind == host.Hard && !slices.Contains([]host.Kind{host.File, host.Link}, target.Paths[e.Target].Kind) {
			refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, "storage.links "+p,
				fmt.Sprintf("the target %s of this hard link is neither a file nor a link, on this node or in this "+
					"config: correct the target", e.Target)))
		}
	}
	return sortRefusals(refusals)
}

// refuseForeignHomes refuses SSH keys for a user whose home directory belongs to another user. refuseForeignHomes does
// not refuse keys of the current config.
func refuseForeignHomes(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	if observed.Accounts.Unprivileged {
		return nil
	}
	for _, u := range w.New.Users {
		keys, wanted := w.New.Keys[u.Name]
		home, owner := w.New.At(u.Account.Home), target.Users[u.Name].UID
		_, had := w.Old.Paths[w.Old.At(keys.Path)]
		_, moves := w.Old.Paths[w.Old.At(keys.Other)]
		if !wanted || had || moves || !target.Users[u.Name].There {
			continue
		}
		at := home
		for range host.MaxLinks {
			if observed.Paths[at].Kind != host.Link {
				break
			}
			at = host.LinkTarget(at, observed.Paths[at].Target)
		}
		is := observed.Paths[at]
		var why string
		switch {
		case is.Kind == host.Unsafe:
			why = observed.Unsafe[at]
		case is.Kind == host.Absent && at == home, is.Kind == host.Dir && is.Owner.UID == owner:
			continue
		case is.Kind == host.Dir:
			why = fmt.Sprintf("the home directory of %s belongs to uid %d and not to uid %d; give it to that user "+
				"(chown), or name another home directory", u.Name, is.Owner.UID, owner)
		default:
			why = fmt.Sprintf("the home directory of %s is a link that leads to no directory; make the directory, or "+
				"name another home directory", u.Name)
		}
		if at != home && is.Kind == host.Dir {
			why = fmt.Sprintf("it is a link to %s; %s", at, why)
		}
		refusals = append(refusals, disruption.OnNode(disruption.CheckOwners, "passwd.users "+u.Name+" "+u.Account.Home,
			why))
	}
	return refusals
}

// refuseAppends refuses to append to a path that is not a file.
func refuseAppends(observed, target host.State, to Desired) (refusals []disruption.Refusal) {
	for _, p := range slices.Sorted(maps.Keys(to.Appends)) {
		was := observed.Paths[p]
		if orig := target.Paths[origPath(p)]; orig.Kind != host.Absent {
			was = orig
		}
		if was.Kind != host.Absent && was.Kind != host.File {
			refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, "storage.files "+p,
				fmt.Sprintf("this node has a %s at this path, and the config appends to a file or keeps its "+
					"contents. Give the whole contents, or correct the path", was.Kind)))
		}
	}
	return refusals
}

// obstructedUnits names the units that the config enables and that the machine cannot enable. systemd itself says
// nothing about a preset for a unit that does not exist, so a typing error would stay unseen. The review names units
// whose own contents have no [Install].
func obstructedUnits(observed, target host.State, w Transition) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(w.New.Units)) {
		o := target.Units[name].Obstacle
		_, own := w.New.Paths[o.At]
		if o.Why == "" || own || !enables(w.New, name) || w.New.Units[name].HasContents && !o.IsLocal() ||
			observed.Units[name].Enabled && o.Why == host.UnitStatic {
			continue
		}
		notes = append(notes, "unit "+name+" "+o.Problem()+", so it cannot be enabled: "+o.Advice(name))
	}
	return notes
}

// masks returns the files of units that a config masks, by path.
func masks(w Desired) map[string]bool {
	all := map[string]bool{}
	for p, e := range w.Paths {
		if path.Dir(p) == host.UnitDir && host.IsMask(p, e) {
			all[p] = true
		}
	}
	return all
}

// spelled returns the field of a refusal with the path as a config writes it.
func (w Transition) spelled(field string) string {
	list, p, is := strings.Cut(field, " /")
	if p = "/" + p; !is {
		list, p = "", field
	}
	name := w.New.Spelling(p)
	if name == p {
		name = w.Old.Spelling(p)
	}
	return strings.TrimPrefix(list+" "+name, " ")
}

// aboutOtherFields returns the refusals in more whose fields have no refusal in already. One reason for each field is
// enough.
func aboutOtherFields(already, more []disruption.Refusal) []disruption.Refusal {
	return slices.DeleteFunc(slices.Clone(more), func(r disruption.Refusal) bool {
		return r.Field != "" && slices.ContainsFunc(already,
			func(o disruption.Refusal) bool { return o.Field == r.Field })
	})
}

// withFirstPaths returns the empty config with the directories and links of the first config. The reason is that a
// running machine refuses changes of these paths, but a machine without a config accepts the paths.
func withFirstPaths(empty, first machineconfig.Config) machineconfig.Config {
	empty.Ignition.Storage.Directories = first.Ignition.Storage.Directories
	empty.Ignition.Storage.Links = first.Ignition.Storage.Links
	return empty
}

// refuseUnsafe refuses paths that a user of the machine could redirect to files of another owner.
func refuseUnsafe(observed host.State, w Transition) (refusals []disruption.Refusal) {
	for p, why := range observed.Unsafe {
		_, wanted := w.New.Paths[p]
		_, had := w.Old.Paths[p]
		if wanted || had {
			refusals = append(refusals, disruption.OnNode(disruption.CheckOwners, p, why))
		}
	}
	return sortRefusals(refusals)
}

// enables reports whether a config enables a unit. A unit that the config masks is not enabled.
func enables(w Desired, name string) bool {
	u := w.Units[name]
	return u.Enabled != nil && *u.Enabled && !u.Masked
}

// Obstructed returns what a user or a program of the machine did so that a unit of the config is not enabled; the zero
// Obstacle if the unit is as its config says. The state is a target for this config. Units of the image that systemd
// cannot enable are as on a new machine, so they are no obstacle here. The links that enable a unit have no effect
// while it is masked.
func Obstructed(observed, target host.State, w Desired, name string) host.Obstacle {
	o := target.Units[name].Obstacle
	if _, own := w.Paths[o.At]; own || !enables(w, name) || !o.IsLocal() ||
		o.Why != host.UnitMasked && observed.Units[name].Enabled {
		return host.Obstacle{}
	}
	return o
}

// RecordOf returns the content of the record of a config: its name, spec, secret paths and the revision of its secrets.
// The spec has references to secrets, and no contents of them.
func RecordOf(mc mcfgv1.MachineConfig) ([]byte, error) {
	kept := mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: mc.Name},
		Spec:       mc.Spec,
	}
	for _, key := range []string{v1alpha1.SecretPathsAnnotation, v1alpha1.CurrentSecretsAnnotation} {
		if value := mc.Annotations[key]; value != "" {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("writing the record of %s: %w", mc.Name, err)
	}
	return text, nil
}

// NameOf returns the name of a config of a record or a task, with the revision of its secrets, as v1alpha1.ConfigAt
// writes it.
func NameOf(mc mcfgv1.MachineConfig) string {
	return v1alpha1.ConfigAt(mc.Name, mc.Annotations[v1alpha1.CurrentSecretsAnnotation])
}

// ParseRecord reads the content of a record. A damaged record is an error: without the record, the daemon could not
// remove the files of the config in force.
func ParseRecord(text []byte) (*mcfgv1.MachineConfig, error) {
	mc := new(mcfgv1.MachineConfig)
	err := json.Unmarshal(text, mc)
	if err == nil && mc.Name == "" {
		err = errors.New("it names no config")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record %s: %w; restore it, or remove it to use the current config that "+
			"the Node names", host.RecordPath, err)
	}
	return mc, nil
}

// ParseConfig reads a MachineConfig into its typed form, with the name of NameOf. The error has every problem.
func ParseConfig(mc mcfgv1.MachineConfig) (Config, error) {
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return Config{}, fmt.Errorf("reading config %s: %w", mc.Name, err)
	}
	// The error is ignored, because the controller has checked the annotation. A pattern that cannot be parsed matches
	// nothing.
	marked, _ := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	return Config{Name: NameOf(mc), Config: c, Secrets: marked}, nil
}
