package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// toldAnswers are what `bunsen why -o json` says, as far as the stories read it.
type toldAnswers struct {
	toldAnswer `json:",inline"`
	Also       []toldAnswer `json:"also"`
	Failed     string       `json:"failureCause"`
	Busy       []struct {
		Cause string `json:"failureCause"`
	} `json:"busy"`
}

type toldAnswer struct {
	Cause string   `json:"cause"`
	Do    []string `json:"do"`
}

// has reports whether an answer, or the failure of a node, has a cause.
func (a toldAnswers) has(cause string) bool {
	if a.Failed == cause {
		return true
	}
	for _, b := range a.Busy {
		if b.Cause == cause {
			return true
		}
	}
	return slices.ContainsFunc(append(a.Also, a.toldAnswer), func(o toldAnswer) bool { return o.Cause == cause })
}

// todo ABOUT CAUSE REGEXP [FILE] types the line after "To do:" of `bunsen why ABOUT` that matches, with FILE in the
// place of its word FILE. `why` must give the cause. A line that is no command is for a person: then the story does
// what it says. A later line `fine ABOUT` waits until it has helped. A test of internal/inspect checks that each cause
// has such a line, or a state of testdata/truth.
func (s *story) todo(ts *testscript.TestScript, args []string) error {
	if len(args) < 3 || len(args) > 4 {
		return usage("todo ABOUT CAUSE REGEXP [FILE]")
	}
	is, err := regexp.Compile(args[2])
	if err != nil {
		return err
	}
	var out printed
	var line string
	err = poll(patience, func() (bool, error) {
		if out, err = s.run(ts, "", filepath.Join(s.bin, "bunsen"), "why", args[0], "-o", "json"); err != nil {
			return false, err
		}
		var a toldAnswers
		if err := json.Unmarshal([]byte(out.out), &a); err != nil {
			return false, fmt.Errorf("%w:\n%s%s", err, out.out, out.errs)
		}
		for _, o := range append(a.Also, a.toldAnswer) {
			if i := slices.IndexFunc(o.Do, is.MatchString); i >= 0 && a.has(args[1]) {
				line = o.Do[i]
			}
		}
		return line != "", nil
	})
	if err != nil {
		return fmt.Errorf("`why %s` has no cause %s with this to do: %w\n%s", args[0], args[1], err, out.out)
	}
	ts.Logf("[to do] %s", line)
	if !typed.MatchString(line) {
		return nil
	}
	if len(args) == 4 {
		line = strings.ReplaceAll(line, "FILE", ts.MkAbs(args[3]))
	}
	if done, err := s.run(ts, "", "sh", "-c", line); err != nil || done.code != 0 {
		return fmt.Errorf("%q has exit code %d: %w\n%s%s", line, done.code, err, done.out, done.errs)
	}
	return nil
}

// fine ABOUT waits until `bunsen why ABOUT` says that it is fine and that nothing is to do.
func (s *story) fine(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("fine ABOUT")
	}
	var out printed
	err := poll(patience, func() (_ bool, err error) {
		out, err = s.run(ts, "", filepath.Join(s.bin, "bunsen"), "why", args[0])
		return strings.HasPrefix(out.out, args[0]+" is fine") && len(advices(out.out)) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out.out)
	}
	return nil
}
