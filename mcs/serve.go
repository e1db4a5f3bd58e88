package mcs

import (
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Why a pool has nothing to serve.
var (
	// ErrUnknownPool says that there is no pool of that name.
	ErrUnknownPool = errors.New("there is no such pool")
	// ErrNothingRendered says that the pool exists and no config has been rendered for it yet.
	ErrNothingRendered = errors.New("nothing is rendered for this pool yet")
	// ErrNoRecord says that the controller has rendered a config for the pool and has not recorded yet which config its nodes run well.
	ErrNoRecord = errors.New("the controller has not recorded yet which config the pool's nodes run")
	// ErrNotSynced says that the pools are not known yet: the server has just started.
	ErrNotSynced = errors.New("the server has not read the pools yet")
)

// Serve names the rendered config that a new machine of a pool boots. choice is v1alpha1.ServeHealthy or ServeNewest; the
// pool's annotation of that name wins. Healthy is the last config that the whole pool was well with; a pool that was well
// with none yet serves its newest, for its first machine has to boot something. Newest is the config that is being rolled
// out. Neither is ever one that a rollout halted on or reverted from.
//
// A pool that the controller has just created again has no record yet: its newest config may be one that nodes failed, so
// that nothing is served until the controller has looked at the nodes. A pool that no controller rendered does not wait.
//
// Without a name, why says what there is to wait for. Beside a name it says what of the pool could not be read: the name
// is then what the careful would take.
func Serve(pool mcfgv1.MachineConfigPool, choice string) (name string, why error) {
	choice, odd := chosen(pool, choice)
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		return unrecorded(pool, errors.Join(odd, err))
	}
	newest, healthy := pool.Spec.Configuration.Name, record.Healthy
	if record.Config == "" {
		healthy = pool.Status.Configuration.Name
		if _, rendered := pool.Annotations[v1alpha1.TargetAnnotation]; rendered && healthy == "" && newest != "" && choice != v1alpha1.ServeNewest {
			return "", errors.Join(odd, ErrNoRecord)
		}
	}
	bad := refused(record)
	order := []string{healthy, newest}
	if choice == v1alpha1.ServeNewest {
		order = []string{newest, healthy}
	}
	for _, name := range order {
		if name != "" && name != bad {
			return name, odd
		}
	}
	if slices.Contains(order, bad) && bad != "" {
		return "", errors.Join(odd, fmt.Errorf("the rollout of %s was %s, and the pool was never well with another config: commit a better one, or `bunsen retry pool/%s`", bad, verdicts[record.Verdict], pool.Name))
	}
	return "", errors.Join(odd, ErrNothingRendered)
}

// Refused names the config that no new machine of a pool may boot, for its rollout was halted or taken back; empty where
// there is none, or where the pool's record cannot be read.
func Refused(pool mcfgv1.MachineConfigPool) string {
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		return ""
	}
	return refused(record)
}

func refused(record v1alpha1.RolloutRecord) string {
	if record.Verdict == "" {
		return ""
	}
	return record.Config
}

// verdicts are a rollout's ends within a sentence.
var verdicts = map[v1alpha1.RolloutVerdict]string{
	v1alpha1.RolloutHalted:   "halted",
	v1alpha1.RolloutReverted: "taken back",
}

// chosen is the pool's own choice, or the server's where it has none. One that is not known counts as the careful one.
func chosen(pool mcfgv1.MachineConfigPool, choice string) (string, error) {
	own, ok := pool.Annotations[v1alpha1.ServeAnnotation]
	switch {
	case !ok:
		return choice, nil
	case own == v1alpha1.ServeHealthy, own == v1alpha1.ServeNewest:
		return own, nil
	}
	return v1alpha1.ServeHealthy, fmt.Errorf("annotation %s is %q, and counts as %q: it can be %q or %q",
		v1alpha1.ServeAnnotation, own, v1alpha1.ServeHealthy, v1alpha1.ServeHealthy, v1alpha1.ServeNewest)
}

// unrecorded is for a pool whose record cannot be read: its newest config may be one that a rollout halted on, so only what
// the whole pool ran is served.
func unrecorded(pool mcfgv1.MachineConfigPool, err error) (string, error) {
	ran := pool.Status.Configuration.Name
	if ran == "" {
		return "", fmt.Errorf("whether the rollout was halted is not known, and no config that the whole pool ran is: %w", err)
	}
	return ran, err
}
