package gitsource

import (
	"context"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/source"
)

// checkedCommit is a commit whose signatures and history the controller has checked. The result of a check is valid for
// one interval of the source, because keys expire.
type checkedCommit struct {
	of     fetchKey
	at     time.Time
	signer string
	source.Descent
}

// check checks the signatures of a commit and reads its history, before any file is fetched. check sends no request if
// the spec requires neither signatures nor a check of the history.
func (m *memory) check(ctx context.Context, src *v1alpha1.GitSource, at candidate) (checkedCommit, error) {
	out := checkedCommit{of: keyOf(src, at), at: at.now}
	isApplied := at.picked.Applied == at.picked.Hash
	switch last := m.checkedCommit(src.Name); {
	case last.of == out.of && at.now.Before(last.at.Add(kube.PollInterval(src))):
		return last, nil
	case isApplied && src.Status.AppliedGeneration == src.Generation && src.Status.AppliedCommit != nil &&
		(at.repo.policy == nil) == (src.Status.AppliedCommit.VerifiedBy == ""):
		// The applied commit stays in force, even if its key has expired.
		out.signer = src.Status.AppliedCommit.VerifiedBy
		return out, nil
	case at.repo.policy == nil &&
		(isApplied || at.picked.Applied == "" || src.Spec.HistoryPolicy == v1alpha1.HistoryAllow):
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	evidence, err := at.repo.Evidence(ctx, at.picked)
	if err != nil {
		return checkedCommit{}, err
	}
	out.Descent = evidence.Descent
	if at.repo.policy != nil {
		if out.signer, err = at.repo.policy.Check(evidence, at.now); err != nil {
			return checkedCommit{}, fmt.Errorf("verifying %s: %w", at.picked.Revision().Short(), err)
		}
	}
	m.checks.Store(src.Name, out)
	return out, nil
}
