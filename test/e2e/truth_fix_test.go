package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// person is somebody who does what an advice says that is not a command.
type person struct {
	advice  *regexp.Regexp
	command string
	args    []string
	// instead of a command that would need more than this cluster has, such as a pod of the daemon.
	instead bool
}

// advice REGEXP COMMAND ARG... says what a person does who reads an advice that is no command, such as "free disk space
// on node-2". COMMAND is one of the story's commands, or a program; `true` is for what a person does not do. A later
// advice for the same line wins.
func (s *story) advice(_ *testscript.TestScript, args []string) error {
	return s.person("advice", args, false)
}

// instead REGEXP COMMAND ARG... says what a person does in the place of a command that needs more than this cluster
// has.
func (s *story) instead(_ *testscript.TestScript, args []string) error {
	return s.person("instead", args, true)
}

func (s *story) person(verb string, args []string, instead bool) error {
	if len(args) < 2 {
		return usage(verb + " REGEXP COMMAND ARG...")
	}
	is, err := regexp.Compile(args[0])
	if err != nil {
		return err
	}
	s.truth.people = slices.Insert(s.truth.people, 0, person{is, args[1], args[2:], instead})
	return nil
}

// isAlternative reports whether a line is no part of the list, but a command to use instead of it.
func isAlternative(line string) bool { return strings.HasPrefix(line, "or, when ") }

// alternative ABOUT takes the first alternative that `bunsen why ABOUT` has, and waits until ABOUT is fine.
func (s *story) alternative(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return usage("alternative ABOUT")
	}
	t := &fixing{story: s, ts: ts, root: args[0]}
	why, err := t.why(t.root)
	if err != nil {
		return err
	}
	for _, line := range advices(why.out) {
		if _, command, found := strings.Cut(line, ": "); found && isAlternative(line) {
			if err := t.execute(command, 0); err != nil {
				return err
			}
			if err := t.await(command); err != nil || t.isFine {
				return err
			}
			return fmt.Errorf("%s is not fine after %q", t.root, command)
		}
	}
	return fmt.Errorf("`why %s` has no alternative:\n%s", t.root, why.out)
}

// act does what a person does who reads this line.
func (t *fixing) act(line string) error {
	i := slices.IndexFunc(t.truth.people, func(p person) bool { return p.advice.MatchString(line) })
	if i < 0 {
		return fmt.Errorf("the advice %q is no command, and the script does not say what a person does who reads it",
			line)
	}
	fmt.Fprintf(&t.log, "# %s\n", strings.TrimLeft(line, "# "))
	p := t.truth.people[i]
	for _, set := range []map[string]func(*story, *testscript.TestScript, []string) error{
		storyCommands,
		t.truth.commands,
	} {
		if do := set[p.command]; do != nil {
			return do(t.story, t.ts, p.args)
		}
	}
	out, err := t.run(t.ts, "", p.command, p.args...)
	if err == nil && out.code != 0 {
		err = fmt.Errorf("%s %q has exit code %d:\n%s%s", p.command, p.args, out.code, out.out, out.errs)
	}
	return err
}

// readOnly are the commands that change nothing. They have to work, and nothing is expected of them.
var readOnly = regexp.MustCompile(
	`^(kubectl (-n \S+ )?(get|describe|logs)|bunsen (get|history|status|explain|trace|diff|drift$|drift show|validate)|git (log|show|blame|diff))\b`)

// typed are the advices that are typed as they are.
var typed = regexp.MustCompile(`^(git|kubectl|bunsen|echo) `)

// fixing is one attempt to get from a bad state to a good one.
type fixing struct {
	*story
	ts *testscript.TestScript
	// root is what has to become fine.
	root   string
	isFine bool
	done   []string
	log    strings.Builder
}

// fix ABOUT STATE follows the lines after "To do:" of `bunsen why ABOUT`, in their order and to the letter, until ABOUT
// is fine and nothing is left to do. What was typed is compared with the golden testdata/truth/SCRIPT/STATE.fix.txt.
func (s *story) fix(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("fix ABOUT STATE")
	}
	t := &fixing{story: s, ts: ts, root: args[0]}
	err := t.follow(args[0], 0)
	s.progress("fix of %s: %v\n%s", args[1], err, t.log.String())
	if err != nil {
		return fmt.Errorf("%w\ntyped so far:\n%s", err, t.log.String())
	}
	ts.Logf("%s", t.log.String())
	commits, err := commitWords(ts.MkAbs("config"))
	if err != nil {
		return err
	}
	text := s.words(t.log.String(), commits)
	path := filepath.Join(s.root, "test", "e2e", "testdata", "truth", s.truth.script, args[1]+".fix.txt")
	if *update {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	golden, _ := os.ReadFile(path) // one that is missing differs
	if text != string(golden) {
		return fmt.Errorf("the fix differs from %s (-update rewrites it):\n%s", path, difference(string(golden), text))
	}
	return nil
}

// follow does what `why` says of a thing, line by line, until the root is fine.
func (t *fixing) follow(about string, depth int) error {
	const deepest, most = 4, 12
	if depth > deepest {
		return errors.New("the advice leads from one `bunsen why` to the next and never to an action")
	}
	for range most {
		why, err := t.why(about)
		if err != nil {
			return err
		}
		todo := advices(why.out)
		next := slices.IndexFunc(todo, func(line string) bool {
			return !isAlternative(line) && !slices.Contains(t.done, line)
		})
		if next < 0 {
			return fmt.Errorf("%s is not fine, and `why` has no advice left that was not followed:\n%s", about, why.out)
		}
		t.done = append(t.done, todo[next])
		if err := t.execute(todo[next], depth); err != nil {
			return err
		}
		if t.isFine {
			return nil
		}
		if err := t.await(todo[next]); t.isFine || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is not fine after %d advices", t.root, most)
}

func (t *fixing) why(about string) (printed, error) {
	return t.run(t.ts, "", filepath.Join(t.bin, "bunsen"), "why", about)
}

// await waits until the root is fine. After a command that only reads, and after what a person does not do, it looks
// once.
func (t *fixing) await(after string) error {
	limit := *settle
	nothing := func(p person) bool { return p.command == "true" && p.advice.MatchString(after) }
	if readOnly.MatchString(after) || strings.HasPrefix(after, "bunsen why ") || slices.ContainsFunc(t.truth.people,
		nothing) {
		limit = 0
	}
	_ = poll(limit, func() (bool, error) { // when the time is up, the next line of the advice is tried
		why, err := t.why(t.root)
		t.isFine = err == nil && strings.HasPrefix(why.out, t.root+" is fine") && len(advices(why.out)) == 0
		return t.isFine || t.alive() != nil, err
	})
	if t.isFine {
		fmt.Fprintf(&t.log, "→ %s is fine\n", t.root)
	}
	return t.alive()
}

// execute types one line of advice, or does what a person does.
func (t *fixing) execute(line string, depth int) error {
	if about, ok := strings.CutPrefix(line, "bunsen why "); ok {
		fmt.Fprintf(&t.log, "$ %s\n", line)
		return t.follow(strings.TrimSpace(about), depth+1)
	}
	instead := func(p person) bool { return p.instead && p.advice.MatchString(line) }
	if !typed.MatchString(line) || slices.ContainsFunc(t.truth.people, instead) {
		return t.act(line)
	}
	fmt.Fprintf(&t.log, "$ %s\n", line)
	out, err := t.run(t.ts, "config", "sh", "-c", line)
	if err != nil {
		return err
	}
	if out.code != 0 && (!strings.HasPrefix(line, "bunsen ") || !readOnly.MatchString(line)) {
		return fmt.Errorf("%q has exit code %d:\n%s%s", line, out.code, out.out, out.errs)
	}
	if !strings.HasPrefix(line, "git ") || readOnly.MatchString(line) {
		return nil
	}
	upload := t.push // only $HEAD is new where the line itself pushes
	if strings.Contains(line, "then commit") {
		upload = func(ts *testscript.TestScript, args []string) error {
			return t.commit(ts, append(args, "As advised"))
		}
	}
	if err := upload(t.ts, []string{"config"}); err != nil {
		return err
	}
	return t.look(t.ts, []string{"config"})
}

// advices are the lines after "To do:" of what `why` prints.
func advices(why string) []string {
	var out []string
	inside := false
	for _, line := range strings.Split(why, "\n") {
		rest, first := strings.CutPrefix(line, "To do:")
		switch {
		case first:
			inside = true
		case !strings.HasPrefix(line, " "):
			inside = false
		}
		if !inside || strings.TrimSpace(line) == "" {
			continue
		}
		if !first {
			rest = line
		}
		out = append(out, strings.TrimSpace(rest))
	}
	return out
}
