package mcs

import (
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The reasons why a pool serves no config.
var (
	// ErrUnknownPool says that no pool has the requested name.
	ErrUnknownPool = errors.New("there is no such pool")
	// ErrNothingRendered says that the pool exists, but that no config has been rendered for the pool yet.
	ErrNothingRendered = errors.New("nothing is rendered for this pool yet")
	// ErrNoRecord: a config is rendered, but the controller has not recorded which one the pool's nodes run
	// successfully.
	ErrNoRecord = errors.New("the controller has not recorded yet which config the pool's nodes run")
	// ErrNotSynced says that the server has just started and has not read the pools yet.
	ErrNotSynced = errors.New("the server has not read the pools yet")
)

// ConfigToServe returns the rendered config that a new machine of a pool boots. The parameter choice is
// v1alpha1.ServeHealthy or ServeNewest; the pool's own annotation overrides it. ServeHealthy selects the last config
// with which the whole pool was healthy, or without one the newest, because its first machine must boot some config.
// ServeNewest selects the config of the current rollout. A config whose rollout was halted or reverted is never
// selected.
//
// A pool that the controller has just created again has no record yet, and its newest config may have failed on nodes.
// So it serves nothing until the controller has evaluated the nodes. A pool that no controller rendered needs no
// record.
//
// Without a name, why says what the machine has to wait for. With one, it is the part of the pool that could not be
// read, and name is the safer choice.
func ConfigToServe(pool mcfgv1.MachineConfigPool, choice string) (name string, why error) {
	choice, odd := serveChoice(pool, choice)
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		return serveWithoutRecord(pool, errors.Join(odd, err))
	}
	newest, healthy := pool.Spec.Configuration.Name, record.Healthy
	if record.Config == "" {
		healthy = pool.Status.Configuration.Name
		if _, rendered := pool.Annotations[v1alpha1.TargetAnnotation]; rendered && healthy == "" && newest != "" &&
			choice != v1alpha1.ServeNewest {
			return "", errors.Join(odd, ErrNoRecord)
		}
	}
	bad := failedConfig(record)
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
		return "", errors.Join(odd, fmt.Errorf("the rollout of %s was %s, and the pool was never well with another "+
			"config: commit a better one, or `bunsen retry pool/%s`", bad, verdictTexts[record.Verdict], pool.Name))
	}
	return "", errors.Join(odd, ErrNothingRendered)
}

// FailedRolloutConfig returns the config whose rollout was halted or reverted, which no new machine may boot; "" if
// there is none, or if the pool's record cannot be read.
func FailedRolloutConfig(pool mcfgv1.MachineConfigPool) string {
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil {
		return ""
	}
	return failedConfig(record)
}

func failedConfig(record v1alpha1.RolloutRecord) string {
	// the pool was healthy with the config, and failed with new secrets
	if record.Verdict == "" || record.ChangesSecrets() {
		return ""
	}
	return record.Config
}

// verdictTexts are about the end of a rollout.
var verdictTexts = map[v1alpha1.RolloutVerdict]string{
	v1alpha1.RolloutHalted:   "halted",
	v1alpha1.RolloutReverted: "taken back",
}

// serveChoice returns the pool's own choice, or else the server's. An unknown one counts as ServeHealthy.
func serveChoice(pool mcfgv1.MachineConfigPool, choice string) (string, error) {
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

// serveWithoutRecord is for a record that cannot be read. The rollout of the newest config may have been halted, so
// only the last one that the whole pool ran is served.
func serveWithoutRecord(pool mcfgv1.MachineConfigPool, err error) (string, error) {
	ran := pool.Status.Configuration.Name
	if ran == "" {
		return "", fmt.Errorf("whether the rollout was halted is not known, and no config that the whole pool "+
			"ran is: %w", err)
	}
	return ran, err
}
