package gitsource

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// checkHistory checks a new commit against spec.historyPolicy. It returns a warning, or an error, after which the last
// commit stays applied. After a change of the spec, it allows any commit.
func checkHistory(ctx context.Context, src *v1alpha1.GitSource, repo Repository, picked source.Picked) (warning string, err error) {
	applied, parseErr := source.ParseRevision(src.Status.AppliedRevision)
	policy := src.Spec.HistoryPolicy
	if parseErr != nil || applied.Hash == picked.Hash || policy == v1alpha1.HistoryAllow || src.Status.AppliedGeneration != src.Generation {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	picked.Applied = applied.Hash
	evidence, err := repo.Evidence(ctx, picked)
	descent := evidence.Descent
	if err != nil {
		return "", fmt.Errorf("comparing the history of %s with %s: %w", picked.Revision().Short(), applied.Short(), err)
	}
	text := fmt.Sprintf("%s does not descend from %s, which is applied: the history of the branch was rewritten", picked.Revision().Short(), applied.Short())
	switch {
	case descent == source.Rewritten && policy == v1alpha1.HistoryBlock:
		return "", fault.NewStalled(v1alpha1.ReasonHistoryRewritten, errors.New(text+"; push a branch that contains it, or set spec.historyPolicy to Warn"))
	case descent == source.Rewritten:
		return text, nil
	case descent == source.Unknown && policy == v1alpha1.HistoryBlock:
		return "", fault.NewStalled(v1alpha1.ReasonInvalidSpec, errors.New("spec.historyPolicy Block needs the history of the repository, and the server does not send it without files. Set uploadpack.allowFilter to true on the server; or set the policy to Warn, and protect the branch on the git server"))
	}
	return "", nil
}
