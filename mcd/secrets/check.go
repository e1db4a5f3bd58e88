package secrets

import (
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// RevisionError reports that the server has another revision of the secrets than the node is assigned.
type RevisionError struct {
	// Config is the name of the rendered config.
	Config string
	// Has is the revision of the server. Wants is the revision that the node is assigned.
	Has, Wants string
}

// Error names both revisions.
func (e *RevisionError) Error() string {
	return fmt.Sprintf("the server has revision %q of the secrets of %s, and the node is assigned %q: the controller "+
		"assigns the published revision, see ConfigMap %s/%s",
		short(e.Has), e.Config, short(e.Wants), v1alpha1.ServerNamespace, v1alpha1.SecretsConfigMap)
}

// Check returns the contents of an answer of the server. The parameter at is the desired config with the revision of
// its secrets, and paths are the files of the config whose contents a server resolves. The answer must have exactly
// these files. The error has no contents, and is a *RevisionError if the server has another revision.
func Check(answer v1alpha1.NodeSecrets, at string, paths []string) (Contents, error) {
	config, revision := v1alpha1.SplitConfigAt(at)
	switch {
	case answer.Config != config:
		return nil, fmt.Errorf("the server sent the secrets of %q", short(answer.Config))
	case answer.Revision != revision:
		return nil, &RevisionError{config, answer.Revision, revision}
	}
	out, left := Contents{}, v1alpha1.MaxSecretBytes
	for _, f := range answer.Files {
		left -= len(f.Contents)
		_, twice := out[f.Path]
		switch {
		case !slices.Contains(paths, f.Path):
			return nil, fmt.Errorf("the server sent a secret for the path %q, which does not refer to one in %s",
				short(f.Path), config)
		case twice:
			return nil, fmt.Errorf("the server sent two contents for the path %q", short(f.Path))
		case left < 0:
			return nil, fmt.Errorf("the server sent more than %d MiB of secrets", v1alpha1.MaxSecretBytes>>20)
		}
		out[f.Path] = slices.Clone(f.Contents)
	}
	for _, p := range paths {
		if _, has := out[p]; !has {
			return nil, fmt.Errorf("the server did not send the secret of %s", p)
		}
	}
	return out, nil
}

// longest is how many bytes of a text of the server an error has.
const longest = 80

// short returns the begin of a text of the server.
func short(text string) string {
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}
