package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// What differs from run to run, and what stands in its place in the goldens.
var varying = []struct {
	is *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "<time>"},
	{regexp.MustCompile(`((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?`), "<time>"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d)? UTC`), "<time>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "<date>"},
	{regexp.MustCompile(`\bkill -9 \d+`), "kill -9 <pid>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "<address>"},
	{regexp.MustCompile(`less than (1m|a minute)\b`), "<age>"},
	{regexp.MustCompile(`\b\d+ (seconds?|minutes?|hours?)\b`), "<age>"},
	{regexp.MustCompile(`(--open-for |--interval )?\b\d+(\.\d+)?(ms|s|m|h|d)(\d+(m|s))?\b`), "<age>"},
	{regexp.MustCompile(`[ \t]{2,}`), "  "},
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
}

var (
	renderedName = regexp.MustCompile(`rendered-([a-z0-9]+)-([0-9a-f]{32}|[0-9a-f]{5})\b`)
	hash         = regexp.MustCompile(`\b[0-9a-f]{8,64}\b`)
	notWord      = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// normal is a snapshot with words in the place of hashes, times, ages and addresses.
func (s *story) normal(ts *testscript.TestScript, snap snapshot) (string, error) {
	commits, err := commitWords(ts.MkAbs("config"))
	if err != nil {
		return "", err
	}
	if err := s.nameConfigs(commits); err != nil {
		return "", err
	}
	return snap.text(func(text string) string { return s.words(text, commits) }), nil
}

func (s *story) words(text string, commits map[string]string) string {
	text = strings.ReplaceAll(text, s.work, "$WORK")
	if v := s.version(); v != "" {
		text = strings.ReplaceAll(text, v, "dev")
	}
	if host, err := os.Hostname(); err == nil { // which is the name of a controller that runs in no pod
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(text, "<host>")
	}
	text = renderedName.ReplaceAllStringFunc(text, func(name string) string {
		for full, word := range s.truth.configs {
			if strings.HasPrefix(full, name) {
				return word
			}
		}
		return name[:strings.LastIndex(name, "-")] + "-<unknown>"
	})
	text = hash.ReplaceAllStringFunc(text, func(h string) string {
		for full, word := range commits {
			if strings.HasPrefix(full, h) {
				return "<" + word + ">"
			}
		}
		return "<hash>"
	})
	for _, v := range varying {
		text = v.is.ReplaceAllStringFunc(text, func(is string) string {
			if strings.HasPrefix(is, "--") { // a flag's value is not an age
				return is
			}
			return v.to
		})
	}
	text = cutOff.ReplaceAllString(text, "$1"+refused)
	text = unknownConfig.ReplaceAllString(text, "")
	text = configAccess.ReplaceAllString(text, "")
	return looked.ReplaceAllString(strings.ReplaceAll(text, "READY  LOOKED  ", "READY  "), "$1")
}

// cutOff is the event of a look that was under way when the git server ended. A later look is refused, which is no new
// event.
var cutOff = regexp.MustCompile(
	`(?m)^(Warning RepositoryUnreachable .*: )the server, or a proxy before it, ended the connection.*$`)

const refused = "nothing listens at this address: correct the host and the port of the URL, or start the server " +
	"(dial tcp <address>: connect: connection refused)"

// unknownConfig is an event that the controller writes only if it looks before it has put a node back that was given a
// config that does not exist.
var unknownConfig = regexp.MustCompile(
	`(?m)^Warning NodeDegraded MachineConfigPool/\S+: Node \S+ is reporting: "fetching the desired config rendered-\w+-<unknown>.*$`)

// configAccess is the warning that nodes read configs through the API server, as they do in every script of the truth
// table: none of their daemons asks a machine-config-server. The story node-configs checks it.
var configAccess = regexp.MustCompile(
	`(?m)^WARNING: \d+ of \d+ nodes? report that they may read the configs of every pool through the API server.*\n`)

// version is what `make build` made of the commit; empty where the binaries have none.
func (s *story) version() string {
	out, err := exec.Command(filepath.Join(s.bin, "machine-config-controller"), "--version").Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) == 0 || fields[len(fields)-1] == "dev" {
		return ""
	}
	return fields[len(fields)-1]
}

// looked is when the remote was last looked at: a controller that began a moment ago has not said so yet.
var looked = regexp.MustCompile(`(?m)^(\S+  \S+  (?:True|False|Unknown|Suspended)  )(?:<age> ago|-)  `)

// commitWords are words for the commits of a clone, made of their subjects, by hash.
func commitWords(tree string) (map[string]string, error) {
	log, err := exec.Command("git", "-C", tree, "log", "--all", "--reverse", "--format=%H %s").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the commits of %s: %w", tree, err)
	}
	out, taken := map[string]string{}, map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(log)), "\n") {
		h, subject, _ := strings.Cut(line, " ")
		word := strings.Trim(strings.ToLower(notWord.ReplaceAllString(subject, "-")), "-")
		if taken[word]++; taken[word] > 1 {
			word = fmt.Sprintf("%s-%d", word, taken[word])
		}
		out[h] = word
	}
	return out, nil
}

// nameConfigs gives each rendered config the word of the commit for which it was made first.
func (s *story) nameConfigs(commits map[string]string) error {
	list, err := s.cluster.dynamic.Resource(kinds["mc"].GroupVersionResource).List(context.Background(),
		metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing MachineConfigs: %w", err)
	}
	for _, mc := range list.Items {
		m := renderedName.FindStringSubmatch(mc.GetName())
		if m == nil || s.truth.configs[mc.GetName()] != "" {
			continue
		}
		_, h, _ := strings.Cut(mc.GetAnnotations()[v1alpha1.RevisionAnnotation], "sha1:")
		word := commits[h]
		if word == "" {
			word = "unknown"
		}
		s.truth.configs[mc.GetName()] = "rendered-" + m[1] + "-<" + word + ">"
	}
	return nil
}
