package disruption

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/bunsen-os/bunsen/api/trustfile"
)

// serviceName: the unit names that MachineConfiguration accepts.
var serviceName = regexp.MustCompile(
	`^[a-zA-Z0-9:._@\\-]+\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$`)

// FromSpec returns the default policy with the user's rules: one of the same path or name replaces the default one, and
// SSH key actions those of the default. The error lists every invalid rule.
func FromSpec(spec operatorv1.NodeDisruptionPolicyConfig) (Policy, error) {
	p, r, seen := Default(), reader{user: true}, map[string]bool{}
	for _, f := range spec.Files {
		r.once(seen, f.Path)
		p.Files = with(p.Files, r.fileRule(f.Path, fromSpecActions(f.Actions)))
	}
	seen = map[string]bool{}
	for _, u := range spec.Units {
		r.once(seen, string(u.Name))
		p.Units = with(p.Units, r.unitRule(string(u.Name), fromSpecActions(u.Actions)))
	}
	if len(spec.SSHKey.Actions) > 0 {
		p.SSHKey = fromSpecActions(spec.SSHKey.Actions)
		r.actions("sshkey", p.SSHKey)
	}
	return r.result(p)
}

// FromStatus reads the policy of a MachineConfiguration's status, which has the defaults and the user's rules. The
// daemon uses it, so that a cluster has one policy at a time.
func FromStatus(status operatorv1.NodeDisruptionPolicyStatus) (Policy, error) {
	p, r := Policy{}, reader{}
	for _, f := range status.ClusterPolicies.Files {
		p.Files = append(p.Files, r.fileRule(f.Path, fromStatusActions(f.Actions)))
	}
	for _, u := range status.ClusterPolicies.Units {
		p.Units = append(p.Units, r.unitRule(string(u.Name), fromStatusActions(u.Actions)))
	}
	p.SSHKey = fromStatusActions(status.ClusterPolicies.SSHKey.Actions)
	r.actions("sshkey", p.SSHKey)
	return r.result(p)
}

// Status writes the policy as a MachineConfiguration's status publishes it.
func (p Policy) Status() operatorv1.NodeDisruptionPolicyStatus {
	var out operatorv1.NodeDisruptionPolicyClusterStatus
	for _, f := range p.Files {
		out.Files = append(out.Files, operatorv1.NodeDisruptionPolicyStatusFile{
			Path:    f.Name,
			Actions: toStatusActions(f.Actions),
		})
	}
	for _, u := range p.Units {
		out.Units = append(out.Units, operatorv1.NodeDisruptionPolicyStatusUnit{
			Name: operatorv1.NodeDisruptionPolicyServiceName(u.Name), Actions: toStatusActions(u.Actions),
		})
	}
	out.SSHKey.Actions = toStatusActions(p.SSHKey)
	return operatorv1.NodeDisruptionPolicyStatus{ClusterPolicies: out}
}

// InPlaceAnnotation on the MachineConfiguration, with the value `openshift` and no other, sets Overrides.OpenShift: the
// limits of the Machine Config Operator.
const InPlaceAnnotation = "bunsen.dev/in-place"

// OverridesOf reads the overrides of a cluster. It ignores unknown values.
func OverridesOf(mc *operatorv1.MachineConfiguration) Overrides {
	if mc == nil {
		return Overrides{}
	}
	storage := mc.Spec.IrreconcilableValidationOverrides.Storage
	return Overrides{
		OpenShift:   mc.Annotations[InPlaceAnnotation] == "openshift",
		Disks:       slices.Contains(storage, operatorv1.IrreconcilableValidationOverridesStorageDisks),
		FileSystems: slices.Contains(storage, operatorv1.IrreconcilableValidationOverridesStorageFileSystems),
		Raid:        slices.Contains(storage, operatorv1.IrreconcilableValidationOverridesStorageRaid),
	}
}

// reader collects the errors of the rules of a user or a status.
type reader struct {
	user bool
	bad  []error
}

func (r *reader) addError(rule, format string, args ...any) {
	r.bad = append(r.bad, fmt.Errorf("rule %s: %w", rule, fmt.Errorf(format, args...)))
}

func (r *reader) result(p Policy) (Policy, error) {
	if len(r.bad) > 0 {
		return Policy{}, fmt.Errorf("reading nodeDisruptionPolicy: %w", errors.Join(r.bad...))
	}
	return p, nil
}

// once refuses a second rule of a name, as the API server does.
func (r *reader) once(seen map[string]bool, name string) {
	if seen[name] {
		r.addError(name, "it is repeated: keep one")
	}
	seen[name] = true
}

func (r *reader) fileRule(name string, actions []Action) Rule {
	if !path.IsAbs(name) {
		r.addError(name, "its path is not absolute")
	}
	if r.user && trustfile.Covers(name) && slices.ContainsFunc(actions, func(a Action) bool {
		return a.Type == ActionReboot || a.Type == ActionDrain
	}) {
		r.addError(name, "nodes get files of this path beside their config, without a drain or a reboot: use Reload, "+
			"Restart or None")
	}
	return r.rule(name, actions)
}

func (r *reader) unitRule(name string, actions []Action) Rule {
	if !serviceName.MatchString(name) {
		r.addError(name, "it is not the name of a unit: names end in .service, .socket, .timer or another unit type")
	}
	return r.rule(name, actions)
}

func (r *reader) rule(name string, actions []Action) Rule {
	if len(actions) == 0 {
		r.addError(name, "it has no actions: use None if the change needs no action")
	}
	r.actions(name, actions)
	return Rule{name, actions}
}

func (r *reader) actions(rule string, actions []Action) {
	for _, a := range actions {
		switch a.Type {
		case ActionReboot, ActionNone:
			if len(actions) > 1 {
				r.addError(rule, "action %s cannot be combined with others: remove it or the others", a.Type)
			}
		case ActionReload, ActionRestart:
			if !serviceName.MatchString(a.Service) {
				r.addError(rule, "action %s names no service: give the unit's full name, such as crio.service, "+
					"and not %q", a.Type, a.Service)
			}
		case ActionSpecial:
			if r.user {
				r.addError(rule, "action Special is reserved: use Reload, and Drain if pods must move first")
			}
		case ActionDrain, ActionDaemonReload:
		default:
			r.addError(rule, "action %q is unknown: use Reboot, Drain, Reload, Restart, DaemonReload or None", a.Type)
		}
	}
}

func fromSpecActions(in []operatorv1.NodeDisruptionPolicySpecAction) (out []Action) {
	for _, a := range in {
		out = append(out, action(string(a.Type), a.Reload, a.Restart))
	}
	return out
}

func fromStatusActions(in []operatorv1.NodeDisruptionPolicyStatusAction) (out []Action) {
	for _, a := range in {
		out = append(out, action(string(a.Type), a.Reload, a.Restart))
	}
	return out
}

func action(verb string, reload *operatorv1.ReloadService, restart *operatorv1.RestartService) Action {
	a := Action{Type: ActionType(verb)}
	switch {
	case a.Type == ActionReload && reload != nil:
		a.Service = string(reload.ServiceName)
	case a.Type == ActionRestart && restart != nil:
		a.Service = string(restart.ServiceName)
	}
	return a
}

func toStatusActions(in []Action) (out []operatorv1.NodeDisruptionPolicyStatusAction) {
	for _, a := range in {
		s := operatorv1.NodeDisruptionPolicyStatusAction{Type: operatorv1.NodeDisruptionPolicyStatusActionType(a.Type)}
		service := operatorv1.NodeDisruptionPolicyServiceName(a.Service)
		switch a.Type {
		case ActionReload:
			s.Reload = &operatorv1.ReloadService{ServiceName: service}
		case ActionRestart:
			s.Restart = &operatorv1.RestartService{ServiceName: service}
		}
		out = append(out, s)
	}
	return out
}
