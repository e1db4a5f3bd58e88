package review

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

func number(what string, n *int) []string {
	if n == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s %d", what, *n)}
}

func said(what string, text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return []string{what + " " + *text}
}

func password(hash *string) []string {
	if hash == nil || *hash == "" {
		return nil
	}
	return []string{"password " + secretmask.HiddenWithDigest(*hash)}
}

func flags(set map[string]*bool) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != nil && *set[name] {
			lines = append(lines, name)
		}
	}
	return lines
}

func absent(shouldExist *bool) []string {
	if shouldExist == nil || *shouldExist {
		return nil
	}
	return []string{"absent: it is removed from nodes"}
}

// keyFile: it unlocks a volume. Its type says that it is secret.
const keyFile = "keyFile"

// ListOf returns the values of a kind that is a list, such as kernel arguments, or nil for any other kind.
func ListOf(kind disruption.ChangeKind, c machineconfig.Config) []string {
	switch kind {
	case disruption.KindKargs:
		return machineconfig.SplitKargs(c.KernelArguments)
	case disruption.KindExtensions:
		return slices.Sorted(slices.Values(c.Extensions))
	}
	return nil
}
